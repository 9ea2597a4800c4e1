import { useMediaQuery } from "@mantine/hooks";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { logAxis } from "../../components/chart/axis";
import { Chart } from "../../components/chart/Chart";
import { tooltipHtml } from "../../components/chart/tooltip";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { seconds, signedPercent } from "../../units/format";

export interface Point {
  id: string;
  /** Which colour and shape it has. */
  group: string;
  title: string;
  detail: string;
  measured: number;
  predicted: number;
}

interface Props {
  points: readonly Point[];
  /** In the order of their colours; `own` is always last and a filled diamond. */
  groups: readonly { key: string; name: string }[];
  chosen: string;
  /** Up the page: the predicted time, or its error. */
  plot?: Plot;
  onChoose: (id: string) => void;
}

const SHAPES = ["circle", "rect", "triangle", "path://M0,0 L10,0 L5,9 z", "path://M4,0 h2 v4 h4 v2 h-4 v4 h-2 v-4 h-4 v-2 h4 z"];
const BAND = 0.1;

export const PLOTS = ["time", "error"] as const;
export type Plot = (typeof PLOTS)[number];

/** Predicted times or their errors against measured step times, with the band of 10 % around equality. */
export function Scatter({ points, groups, chosen, plot = "time", onChoose }: Props) {
  const { t, i18n } = useTranslation("accuracy");
  const palette = usePalette();
  const isNarrow = useMediaQuery("(max-width: 48em)") ?? false;
  const option = useMemo(() => {
    const times = points.flatMap(({ measured, predicted }) => [measured, predicted]);
    const low = Math.min(...times, Infinity) / 1.4;
    const high = Math.max(...times, 0) * 1.4;
    const logTime = logAxis([low, high], (value) => seconds(value, 2), 1);
    const isError = plot === "error";
    const heightOf = ({ measured, predicted }: Pick<Point, "measured" | "predicted">) => (isError ? predicted / measured - 1 : predicted);
    const edge = (factor: number): Edge => [low, high].map((time) => [time, heightOf({ measured: time, predicted: time * factor })] as const);
    return {
      tooltip: { trigger: "item" },
      legend: { top: 0, data: groups.map(({ key, name }, index) => ({ name, icon: shapeOf(key, index) })) },
      grid: { top: 48, bottom: 4, left: 8, right: 16 },
      xAxis: { ...logTime, name: t("chart.measured"), nameLocation: "middle" },
      yAxis: isError
        ? { type: "value", name: t("column.error"), axisLabel: { formatter: (value: number) => signedPercent(value, 0) } }
        : { ...logTime, name: t("chart.predicted") },
      series: [
        band(edge(1 - BAND), edge(1 + BAND), palette.muted),
        {
          type: "line",
          name: t("chart.equal"),
          data: edge(1),
          symbol: "none",
          silent: true,
          lineStyle: { color: palette.muted, width: 1, type: "dashed" },
          z: 1,
        },
        ...groups.map(({ key, name }, index) => ({
          type: "scatter",
          name,
          symbol: shapeOf(key, index),
          symbolSize: key === "own" ? 13 : 9,
          itemStyle: {
            color: key === "own" ? palette.text : seriesColor(palette, index),
            opacity: key === "own" ? 1 : 0.72,
          },
          emphasis: { scale: 1.6 },
          data: points
            .filter((point) => point.group === key)
            .map((point) => ({
              name: point.id,
              value: [point.measured, heightOf(point)],
              ...(point.id === chosen && { symbolSize: 18, itemStyle: { opacity: 1, borderColor: palette.text, borderWidth: 2 } }),
            })),
          z: key === "own" ? 4 : 3,
        })),
      ],
    };
  }, [points, groups, chosen, plot, palette, t, i18n.language]);

  const withTooltip = useMemo(() => {
    const known = new Map(points.map((point) => [point.id, point]));
    return {
      ...option,
      tooltip: {
        trigger: "item",
        formatter: ({ name }: { name: string }) => {
          const point = known.get(name);
          if (!point) return "";
          return tooltipHtml(point.title, [
            { name: point.detail, value: "" },
            { name: t("column.measured"), value: seconds(point.measured) },
            { name: t("column.predicted"), value: seconds(point.predicted) },
            { name: t("column.error"), value: signedPercent(point.predicted / point.measured - 1) },
          ]);
        },
      },
    };
  }, [option, points, t]);

  const on = useMemo(() => ({ click: ({ name, seriesType }: { name: string; seriesType: string }) => seriesType === "scatter" && onChoose(name) }), [onChoose]);
  return <Chart option={withTooltip} height={isNarrow ? 340 : 460} label={t("chart.label", { count: points.length })} on={on} />;
}

function shapeOf(key: string, index: number): string {
  return key === "own" ? "diamond" : (SHAPES[index % SHAPES.length] ?? "circle");
}

type Edge = readonly (readonly [number, number])[];

interface Drawing {
  coord: (point: readonly [number, number]) => number[];
}

/** Where the prediction is within 10 % of the measurement. */
function band(below: Edge, above: Edge, color: string) {
  return {
    type: "custom",
    silent: true,
    clip: true,
    data: [below[0]],
    z: 0,
    renderItem: (_: unknown, { coord }: Drawing) => ({
      type: "polygon",
      shape: { points: [...below, ...above.toReversed()].map(coord) },
      style: { fill: color, opacity: 0.16 },
    }),
  };
}
