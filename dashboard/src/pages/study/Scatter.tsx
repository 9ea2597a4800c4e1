import { NativeSelect } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { useNavigate } from "react-router";

import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { ChartCard } from "../../components/ChartCard";
import { strategyText } from "../../components/strategy";
import { useUrlText } from "../../state/url";
import { seriesColor, type Palette } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { bytes, seconds } from "../../units/format";
import type { Baseline, RankedPlan } from "./data";
import { paretoFront, type Dimension } from "./dimensions";
import { useDimensionNames } from "./Filters";

const GIB = 2 ** 30;

interface Props {
  plans: readonly RankedPlan[];
  kept: readonly RankedPlan[];
  pins: readonly string[];
  baseline: Baseline | null;
  dimensions: readonly Dimension[];
}

interface Point {
  value: [number, number];
  /** Null for the baseline. */
  plan: RankedPlan | null;
  /** Of a variant. */
  change?: string;
  step: number;
  memory: number;
}

/** Step time against memory: every plan and variant, the limit, and what no other plan beats in both. */
export function Scatter(props: Props) {
  const { t } = useTranslation("study");
  const nameOf = useDimensionNames();
  const palette = usePalette();
  const navigate = useNavigate();
  const choices = props.dimensions.filter(({ kind }) => kind === "choice");
  const [color, setColor] = useUrlText("color");
  const colored = choices.find(({ key }) => key === color);
  const { plans, pins, baseline } = props;
  const kept = useMemo(() => new Set(props.kept), [props.kept]);

  const option = useMemo<EChartsCoreOption>(() => {
    const texts: Texts = {
      plans: t("scatter.plans"), variants: t("scatter.variants"), front: t("scatter.front"), limit: t("scatter.limit"),
      memory: t("tile.memory"), step: t("tile.step"), baseline: baseline ? t(`gain.name.${baseline.source}`) : "",
      titleOf: (plan) => t("planTitle", { rank: plan.rank, strategy: strategyText(plan.strategy) }),
    };
    return scatterOption(plans, kept, pins, baseline, colored, palette, texts);
  }, [plans, kept, pins, baseline, colored, palette, t]);

  const on = useMemo(
    () => ({ click: ({ data }: { data?: Partial<Point> }) => data?.plan && void navigate(`plans/${data.plan.plan_id}`) }),
    [navigate],
  );
  return (
    <ChartCard
      title={t("scatter.title")}
      subtitle={t("scatter.subtitle")}
      actions={
        choices.length > 0 && (
          <NativeSelect
            size="xs"
            aria-label={t("scatter.color")}
            value={colored?.key ?? ""}
            onChange={(event) => setColor(event.currentTarget.value)}
            data={[{ value: "", label: t("scatter.noColor") }, ...choices.map(({ key }) => ({ value: key, label: t("scatter.colorBy", { name: nameOf(key) }) }))]}
          />
        )
      }
    >
      <Chart option={option} height={378} label={t("scatter.label", { count: plans.length })} on={on} />
    </ChartCard>
  );
}

interface Texts {
  plans: string;
  variants: string;
  front: string;
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
  palette: Palette,
  texts: Texts,
): EChartsCoreOption {
  const point = (step: number, memory: number, plan: RankedPlan | null): Point => ({ value: [memory / GIB, step], plan, step, memory });
  const planPoints = plans.map((plan) => ({ plan, point: point(plan.estimate.step_time_s, plan.estimate.peak_memory_bytes, plan) }));
  const variants = plans.flatMap((plan) => plan.variants.map((each) => ({ ...point(each.step_time_s, each.peak_memory_bytes, plan), change: each.change })));
  const front = paretoFront([...planPoints.map(({ point: each }) => each), ...variants]).map(({ value }) => value);
  const limit = plans[0]?.estimate.memory_limit_bytes ?? 0;
  const groups = colored?.kind === "choice" ? colored.values : [null];
  const opacity = (plan: RankedPlan) => (kept.has(plan) ? 0.9 : 0.12);
  const memories = [...planPoints.map(({ point: each }) => each), ...variants].map(({ memory }) => memory / GIB);
  const least = Math.min(...memories);
  const own = baseline && typeof baseline.estimate.step_time_s === "number" ? (baseline.estimate as { step_time_s: number; peak_memory_bytes: number }) : null;
  return {
    grid: { left: 12, right: 24, top: 40, bottom: 34 },
    legend: { type: "scroll", bottom: 0, left: 0, right: 0 },
    tooltip: {
      trigger: "item",
      formatter: ({ data: { plan, change, step, memory } }: { data: Point }) =>
        tooltipHtml([plan ? texts.titleOf(plan) : texts.baseline, ...(change ? [change] : [])].join(": "), [
          { name: texts.step, value: seconds(step) },
          { name: texts.memory, value: bytes(memory) },
        ]),
    },
    xAxis: {
      type: "value",
      name: `${texts.memory} [GiB]`,
      nameLocation: "middle",
      nameGap: 26,
      min: Math.max(0, Math.floor((least - 0.05 * limit / GIB) / 4) * 4),
      max: ({ max }: { max: number }) => Math.ceil(Math.max(max, limit / GIB) / 4) * 4,
    },
    yAxis: { type: "value", scale: true, name: `${texts.step} [s]`, nameTextStyle: { align: "left" } },
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
      },
      ...groups.map((group, index) => ({
        type: "scatter",
        name: group === null ? texts.plans : String(group),
        symbolSize: 10,
        cursor: "pointer",
        itemStyle: { color: seriesColor(palette, index) },
        emphasis: { scale: 1.5 },
        data: planPoints
          .filter(({ plan }) => group === null || colored?.value(plan) === group)
          .map(({ plan, point: each }) => ({
            ...each,
            itemStyle: { opacity: opacity(plan) },
            ...(pins.includes(plan.plan_id) && {
              symbolSize: 15,
              itemStyle: { opacity: 1, borderColor: palette.text, borderWidth: 1.5 },
              label: { show: true, formatter: `#${plan.rank}`, position: "top", color: palette.text, fontWeight: 600 },
            }),
          })),
      })),
      ...(own
        ? [{ type: "scatter", name: texts.baseline, symbol: "diamond", symbolSize: 14, itemStyle: { color: palette.warn }, data: [point(own.step_time_s, own.peak_memory_bytes, null)] }]
        : []),
    ],
  };
}
