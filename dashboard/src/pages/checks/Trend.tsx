import { useCallback, useMemo } from "react";
import { useNavigate } from "react-router";
import { useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import type { Palette } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { moment, signedPercent } from "../../units/format";
import type { KeptCheck } from "./data";
import { changeOf, shown, trendOf, type Point } from "./trends";
import { useWords, type Words } from "./words";

export const TREND_HEIGHT_PX = 260;
const MS = 1000;
const GIB = 2 ** 30;
const SYMBOL_PX = 8;
const BROKEN_PX = 13;

interface Props {
  /** Newest first. */
  checks: readonly KeptCheck[];
  metric: string;
  axis: "commits" | "time";
  withBounds: boolean;
}

interface Item {
  value: [number, number | null];
  point: Point;
  before: Point | undefined;
}

/** One metric over the checks of a history, with the bounds that held. */
export function Trend({ checks, metric, axis, withBounds }: Props) {
  const { t } = useTranslation("checks");
  const words = useWords();
  const palette = usePalette();
  const navigate = useNavigate();
  const points = useMemo(() => trendOf(checks, metric), [checks, metric]);
  const option = useMemo(() => optionOf({ points, metric, axis, withBounds, palette, words, t }), [points, metric, axis, withBounds, palette, words, t]);
  const open = useCallback((event: { data?: Partial<Item> }) => event.data?.point && void navigate(`/checks/${event.data.point.check.id}`), [navigate]);
  const on = useMemo(() => ({ click: open as (event: never) => void }), [open]);
  const values = points.filter(({ value }) => value !== null);
  const table = {
    columns: [t("check"), t("value"), t("most"), t("least"), t("status")],
    rows: points.map(({ check, value, max, min }) => [words.check(check), shown(metric, value), shown(metric, max), shown(metric, min), t(`common:state.${check.status}`)]),
  };
  const data = () => [
    ["created_at_s", "id", "commit", "branch", "status", metric, `${metric}_max`, `${metric}_min`],
    ...points.map(({ check, value, max, min }) => [check.created_at_s, check.id, check.commit, check.branch, check.status, value, max, min]),
  ];
  const label = t("trendLabel", {
    count: points.length,
    metric: words.metric(metric),
    first: shown(metric, values[0]?.value),
    last: shown(metric, values.at(-1)?.value),
    broken: points.filter(({ isBroken }) => isBroken).length,
  });
  return (
    <ChartCard title={words.metric(metric)} table={table} data={data}>
      <Chart option={option} height={TREND_HEIGHT_PX} label={label} on={on} />
    </ChartCard>
  );
}

interface Drawn extends Omit<Props, "checks"> {
  points: readonly Point[];
  palette: Palette;
  words: Words;
  t: ReturnType<typeof useTranslation>["t"];
}

function optionOf({ points, metric, axis, withBounds, palette, words, t }: Drawn): EChartsCoreOption {
  // Ticks at round numbers of the unit that is shown.
  const size = metric.endsWith("_bytes") ? GIB : 1;
  const scaled = (value: number | null): number | null => (value === null ? null : value / size);
  const at = (place: number): number => (axis === "time" ? (points[place]?.check.created_at_s ?? 0) * MS : place);
  const bound = (end: "max" | "min") => ({
    type: "line",
    name: t(end === "max" ? "most" : "least"),
    silent: true,
    step: "middle",
    symbol: "rect",
    symbolSize: [SYMBOL_PX * 2, 2],
    z: 2,
    itemStyle: { color: palette.warn },
    lineStyle: { color: palette.warn, type: end === "max" ? "dashed" : "dotted", width: 1.5 },
    data: points.map((point, place) => [at(place), scaled(point[end])]),
  });
  const unpriced = points.flatMap(({ check }, place) => (check.status === "infeasible" ? [{ xAxis: at(place) }] : []));
  return {
    grid: { left: 12, right: 20, top: 16, bottom: 34 },
    legend: { bottom: 0, left: 0, right: 0 },
    xAxis:
      axis === "time"
        ? { type: "time" }
        : {
            type: "category",
            data: points.map((_, place) => place),
            axisLabel: {
              formatter: (_: string, place: number) => {
                const check = points[place]?.check;
                return check ? (check.commit === null ? String(place + 1) : words.check(check)) : "";
              },
            },
          },
    yAxis: { type: "value", scale: true, splitNumber: 4, axisLabel: { formatter: (value: number) => shown(metric, value * size) } },
    tooltip: {
      trigger: "item",
      formatter: ({ data }: { data: Partial<Item> }) => (data.point ? tooltipHtml(words.check(data.point.check), told(data.point, data.before, metric, t)) : ""),
    },
    series: [
      {
        type: "line",
        name: words.metric(metric),
        itemStyle: { color: palette.series[0] },
        lineStyle: { color: palette.series[0], width: 2 },
        z: 3,
        data: points.map((point, place): Item & object => ({
          value: [at(place), scaled(point.value)],
          point,
          before: points[place - 1],
          ...look(point, palette),
        })),
        ...(unpriced.length > 0 && {
          markLine: { silent: true, symbol: "none", animation: false, data: unpriced, label: { show: false }, lineStyle: { color: palette.bad, type: "solid", width: 1.5, opacity: 0.6 } },
        }),
      },
      ...(withBounds ? (["max", "min"] as const).filter((end) => points.some((point) => point[end] !== null)).map(bound) : []),
    ],
  };
}

/** A form of its own beside the colour, for those who do not tell the colours apart. */
function look({ check, isBroken }: Point, palette: Palette): object {
  if (isBroken) return { symbol: "diamond", symbolSize: BROKEN_PX, itemStyle: { color: palette.bad } };
  if (check.status === "cut") return { symbol: "emptyCircle", symbolSize: SYMBOL_PX, itemStyle: { color: palette.warn } };
  return { symbol: "circle", symbolSize: SYMBOL_PX };
}

function told({ check, value, max, min }: Point, before: Point | undefined, metric: string, t: Drawn["t"]) {
  const change = changeOf(value, before?.value);
  return [
    { name: t("value"), value: shown(metric, value) },
    ...(change === null ? [] : [{ name: t("theCheckBefore"), value: signedPercent(change) }]),
    ...(max === null ? [] : [{ name: t("most"), value: shown(metric, max) }]),
    ...(min === null ? [] : [{ name: t("least"), value: shown(metric, min) }]),
    { name: t("status"), value: t(`common:state.${check.status}`) },
    ...(check.branch === null ? [] : [{ name: t("branch"), value: check.branch }]),
    { name: t("when"), value: moment(check.created_at_s) },
  ];
}
