import { Checkbox, NativeSelect } from "@mantine/core";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";
import { useNavigate } from "react-router";

import { isWide, logAxis, roundUp } from "../../components/chart/axis";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { whiskers } from "../../components/chart/whiskers";
import { ChartCard } from "../../components/ChartCard";
import { fitLimit } from "../../components/fitLimit";
import { changeText, strategyText } from "../../components/strategy";
import { useUrlText } from "../../state/url";
import { seriesColor, type Palette } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { bytes, number, seconds } from "../../units/format";
import type { Baseline, RankedPlan } from "./data";
import { paretoFront, type Dimension } from "./dimensions";
import { useDimensionNames } from "./Filters";

const GIB = 2 ** 30;
const CROWD = 200; // points that cover one another

interface Props {
  plans: readonly RankedPlan[];
  kept: readonly RankedPlan[];
  pins: readonly string[];
  baseline: Baseline | null;
  dimensions: readonly Dimension[];
}

/** Memory in GiB, step time in seconds, place of the plan (-1 is the baseline), place of its variant (-1 is the plan itself). */
type Point = [memory: number, step: number, plan: number, variant: number];

/** Step time against memory: every plan and variant, the limit, and what no other plan beats in both. */
export function Scatter(props: Props) {
  const { t } = useTranslation("study");
  const nameOf = useDimensionNames();
  const palette = usePalette();
  const navigate = useNavigate();
  const choices = props.dimensions.filter(({ kind }) => kind === "choice");
  const [color, setColor] = useUrlText("color");
  const [intervals, setIntervals] = useUrlText("intervals");
  const hasIntervals = intervals === "on";
  const colored = choices.find(({ key }) => key === color);
  const { plans, pins, baseline } = props;
  const kept = useMemo(() => new Set(props.kept), [props.kept]);

  const option = useMemo<EChartsCoreOption>(() => {
    const texts: Texts = {
      plans: t("scatter.plans"), variants: t("scatter.variants"), front: t("scatter.front"), intervals: t("scatter.intervals"), limit: t("scatter.limit"),
      memory: t("tile.memory"), step: t("tile.step"), baseline: baseline ? t(`gain.name.${baseline.source}`) : "",
      titleOf: (plan) => t("planTitle", { rank: plan.rank, strategy: strategyText(plan.strategy) }),
    };
    return scatterOption(plans, kept, pins, baseline, colored, hasIntervals ? intervalsOf(plans) : [], palette, texts);
  }, [plans, kept, pins, baseline, colored, hasIntervals, palette, t]);

  const on = useMemo(
    () => ({
      click: ({ value }: { value?: Point }) => {
        const plan = plans[value?.[2] ?? -1];
        if (plan) void navigate(`plans/${plan.plan_id}`);
      },
    }),
    [navigate, plans],
  );
  return (
    <ChartCard
      title={t("scatter.title")}
      subtitle={t("scatter.subtitle")}
      actions={
        <>
          <Checkbox size="xs" label={t("scatter.intervals")} checked={hasIntervals} onChange={(event) => setIntervals(event.currentTarget.checked ? "on" : "")} />
          {choices.length > 0 && (
            <NativeSelect
              size="xs"
              aria-label={t("scatter.color")}
              value={colored?.key ?? ""}
              onChange={(event) => setColor(event.currentTarget.value)}
              data={[{ value: "", label: t("scatter.noColor") }, ...choices.map(({ key }) => ({ value: key, label: t("scatter.colorBy", { name: nameOf(key) }) }))]}
            />
          )}
        </>
      }
    >
      <Chart option={option} zoom height={378} label={t("scatter.label", { count: plans.length })} on={on} />
    </ChartCard>
  );
}

/** Of plans that no other beats in both: from one end of the step's interval to the other. */
function intervalsOf(plans: readonly RankedPlan[]): [number, number, number, number][] {
  const found = plans.map(({ estimate }) => ({ memory: estimate.peak_memory_bytes / GIB, step: estimate.step_time_s, low: estimate.step_time_low_s, high: estimate.step_time_high_s }));
  return paretoFront(found).flatMap(({ memory, low, high }) => (low == null || high == null ? [] : [[memory, low, memory, high]]));
}

interface Texts {
  plans: string;
  variants: string;
  front: string;
  intervals: string;
  limit: string;
  memory: string;
  step: string;
  baseline: string;
  titleOf: (plan: RankedPlan) => string;
}

function scatterOption(
  plans: readonly RankedPlan[],
  kept: ReadonlySet<RankedPlan>,
  pins: readonly string[],
  baseline: Baseline | null,
  colored: Dimension | undefined,
  ends: ReturnType<typeof intervalsOf>,
  palette: Palette,
  texts: Texts,
): EChartsCoreOption {
  // Numbers only: ECharts copies what it is given to the last field, and asks each point that has a style of its own.
  const points = plans.map(({ estimate }, place): Point => [estimate.peak_memory_bytes / GIB, estimate.step_time_s, place, -1]);
  const variants = plans.flatMap((plan, place) => plan.variants.map((each, variant): Point => [each.peak_memory_bytes / GIB, each.step_time_s, place, variant]));
  const front = paretoFront([...points, ...variants].map(([memory, step]) => ({ memory, step }))).map(({ memory, step }) => [memory, step]);
  const limit = plans[0] ? fitLimit(plans[0].estimate) : 0;
  const groups = colored?.kind === "choice" ? colored.values : [null];
  const least = [...points, ...variants].reduce((low, [memory]) => Math.min(low, memory), Infinity);
  const own = baseline && typeof baseline.estimate.step_time_s === "number" ? (baseline.estimate as { step_time_s: number; peak_memory_bytes: number }) : null;
  const most = [...points, ...variants].reduce((high, [memory]) => Math.max(high, memory), own ? own.peak_memory_bytes / GIB : 0);
  const steps = [...points, ...variants].map(([, step]) => step).concat(ends.flatMap(([, low, , high]) => [low, high]), own ? [own.step_time_s] : []);
  const tick = [2, 5, 10, 20, 50, 100].find((step) => (Math.max(most, limit / GIB) - least) / step <= 7) ?? 200;
  const pinned = (point: Point, plan: RankedPlan) => ({
    value: point,
    symbolSize: 15,
    itemStyle: { opacity: 1, borderColor: palette.text, borderWidth: 1.5 },
    label: { show: true, formatter: `#${plan.rank}`, position: "top", color: palette.text, fontWeight: 600 },
  });
  return {
    grid: { left: 12, right: 24, top: 40, bottom: 34 },
    legend: { bottom: 0, left: 0, right: 0 },
    tooltip: {
      trigger: "item",
      formatter: ({ value: [memory, step, place, variant] }: { value: Point }) => {
        const plan = plans[place];
        const change = plan?.variants[variant]?.change;
        return tooltipHtml([plan ? texts.titleOf(plan) : texts.baseline, ...(change ? [changeText(change)] : [])].join(marks().colon), [
          { name: texts.step, value: seconds(plan ? step : own?.step_time_s) },
          { name: texts.memory, value: bytes(memory * GIB) },
        ]);
      },
    },
    xAxis: {
      type: "value",
      name: `${texts.memory} [GiB]`,
      nameLocation: "middle",
      nameGap: 26,
      min: Math.max(0, Math.floor(least / tick) * tick),
      max: Math.ceil(Math.max(most, limit / GIB) / tick) * tick,
      interval: tick,
    },
    yAxis: { ...(isWide(steps) ? logAxis(steps, (value) => number(value)) : { type: "value", scale: true, max: ({ max }: { max: number }) => roundUp(max) }), name: `${texts.step} [s]`, nameTextStyle: { align: "left" } },
    series: [
      {
        type: "line",
        name: texts.front,
        data: front,
        step: "end",
        symbol: "none",
        silent: true,
        itemStyle: { color: palette.good },
        lineStyle: { color: palette.good, width: 1.5, type: "dashed" },
        markLine: {
          silent: true,
          symbol: "none",
          data: [{ xAxis: limit / GIB }],
          lineStyle: { color: palette.bad, type: "solid", width: 1.5 },
          label: { formatter: `${texts.limit} ${bytes(limit)}`, color: palette.bad, position: "end", rotate: 0, fontSize: 12 },
        },
      },
      {
        type: "scatter",
        name: texts.variants,
        symbolSize: 5,
        itemStyle: { color: "transparent", borderColor: palette.muted, borderWidth: 1, opacity: 0.55 },
        data: variants,
        large: true,
        largeThreshold: 1000,
      },
      ...groups.flatMap((group, index) => {
        const series = (isKept: boolean) => ({
          type: "scatter",
          name: group === null ? texts.plans : String(group),
          symbolSize: plans.length > CROWD ? 7 : 10,
          z: isKept ? 3 : 2,
          cursor: "pointer",
          itemStyle: { color: seriesColor(palette, index), opacity: isKept ? (plans.length > CROWD ? 0.6 : 0.9) : 0.12 },
          emphasis: { scale: 1.5 },
          data: points.flatMap<Point | ReturnType<typeof pinned>>((point) => {
            const plan = plans[point[2]];
            if (!plan || (group !== null && colored?.value(plan) !== group)) return [];
            if (pins.includes(plan.plan_id)) return isKept ? [pinned(point, plan)] : [];
            return kept.has(plan) === isKept ? [point] : [];
          }),
        });
        return [series(true), series(false)]; // the legend shows the first
      }),
      ...(ends.length ? [whiskers(texts.intervals, palette.muted, ends)] : []),
      ...(own
        ? [{ type: "scatter", name: texts.baseline, symbol: "diamond", symbolSize: 14, itemStyle: { color: palette.warn }, data: [{ value: [own.peak_memory_bytes / GIB, own.step_time_s, -1, -1] }], z: 5 }]
        : []),
    ],
  };
}
