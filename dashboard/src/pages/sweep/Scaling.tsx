import { SimpleGrid } from "@mantine/core";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import type { Cell } from "../../components/csv";
import { logAxis } from "../../components/chart/axis";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { whiskers } from "../../components/chart/whiskers";
import { strategyText } from "../../components/strategy";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { compact, count, percent, tokensPerSecond } from "../../units/format";
import { rangeText, withStep } from "../../units/interval";
import { curvesOf, idealOf, linesOf, type Planned, type Sweep } from "./points";
import { useWords } from "./words";

const HEIGHT_PX = 340;
const KNEE_SHARE = 0.5;

interface Item {
  value: [number, number];
  point: Planned;
}

const devicesAxis = (name: string) => ({
  type: "log",
  logBase: 2,
  name,
  nameLocation: "middle",
  nameGap: 26,
  min: "dataMin",
  max: "dataMax",
  minorTick: { show: false },
  minorSplitLine: { show: false },
  axisLabel: { formatter: (value: number) => count(Math.round(value)) },
});

/** Throughput over devices beside the ideal, and what is lost on the way. */
export function Scaling({ sweep }: { sweep: Sweep }) {
  const { t } = useTranslation("sweep");
  const words = useWords();
  const curves = useMemo(() => curvesOf(sweep, words), [sweep, words]);
  if (curves.length === 0) return null;
  const lines = curves.flatMap(({ name, points }) =>
    points.map((point) => [
      [name, count(point.num_devices)].filter(Boolean).join(" · "),
      tokensPerSecond(point.tokens_per_s),
      percent(point.linearity_fraction),
      percent(point.marginal_fraction),
      point.mfu_fraction == null ? "–" : percent(point.mfu_fraction),
    ]),
  );
  const table = { columns: [t("devices"), t("throughput"), t("linearity"), t("marginal"), t("mfu")], rows: lines };
  const shown = { curves, table, data: () => linesOf(sweep) };
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Throughput {...shown} />
      <Linearity {...shown} />
    </SimpleGrid>
  );
}

interface Props {
  curves: ReturnType<typeof curvesOf>;
  table: { columns: string[]; rows: string[][] };
  data: () => Cell[][];
}

function Throughput({ curves, table, data }: Props) {
  const { t } = useTranslation("sweep");
  const palette = usePalette();
  const option = useMemo<EChartsCoreOption>(() => {
    const named = (name: string) => name || t("best");
    return {
      grid: { left: 12, right: 24, top: 40, bottom: 36 },
      legend: { bottom: 0, left: 0, right: 0, data: [...curves.map(({ name }) => named(name)), t("ideal")] },
      xAxis: devicesAxis(t("devices")),
      yAxis: { ...logAxis(ratesOf(curves), (value) => compact(value)), name: t("tokensPerS"), nameTextStyle: { align: "left" } },
      tooltip: {
        trigger: "item",
        formatter: ({ data }: { data: Partial<Item> }) => (data.point ? tooltipHtml(t("onDevices", { count: data.point.num_devices, devices: count(data.point.num_devices) }), told(data.point, t)) : ""),
      },
      series: curves.flatMap(({ name, points, kneeDevices }, index) => {
        const color = seriesColor(palette, index);
        return [
          {
            type: "line",
            name: named(name),
            itemStyle: { color },
            lineStyle: { color, width: 2 },
            symbol: "circle",
            symbolSize: 9,
            z: 3,
            data: points.map((point): Item => ({ value: [point.num_devices, point.tokens_per_s], point })),
            ...(kneeDevices && {
              markLine: {
                silent: true,
                symbol: "none",
                data: [{ xAxis: kneeDevices }],
                lineStyle: { color, type: "dotted", width: 1.5 },
                label: { formatter: t("knee", { devices: count(kneeDevices) }), color, position: "end", rotate: 0, fontSize: 12 },
              },
            }),
          },
          {
            type: "line",
            name: t("ideal"),
            silent: true,
            symbol: "none",
            z: 2,
            itemStyle: { color: palette.muted },
            lineStyle: { color: palette.muted, type: "dashed", width: 1.2 },
            data: idealOf(points),
          },
          whiskers(
            t("interval"),
            color,
            points.flatMap((point) => {
              const interval = withStep(point, point.tokens_per_s, "shrinks");
              return interval ? [[point.num_devices, interval.low, point.num_devices, interval.high] as const] : [];
            }),
          ),
        ];
      }),
    };
  }, [curves, palette, t]);
  const most = curves.flatMap(({ points }) => points).reduce((high, { tokens_per_s: rate }) => Math.max(high, rate), 0);
  return (
    <ChartCard title={t("scaling")} subtitle={t("scalingHelp")} table={table} data={data}>
      <Chart option={option} height={HEIGHT_PX} label={t("scalingLabel", { count: curves.length, most: tokensPerSecond(most), knees: kneesOf(curves, t) })} />
    </ChartCard>
  );
}

/** All that the chart draws: rates, their intervals, and the ideal. */
function ratesOf(curves: Props["curves"]): number[] {
  return curves.flatMap(({ points }) => [
    ...points.flatMap((point) => [point.tokens_per_s, ...Object.values(withStep(point, point.tokens_per_s, "shrinks") ?? {})]),
    ...idealOf(points).map(([, rate]) => rate),
  ]);
}

type T = ReturnType<typeof useTranslation>["t"];

function kneesOf(curves: Props["curves"], t: T): string {
  return curves
    .map(({ name, kneeDevices }) => `${name ? `${name}: ` : ""}${kneeDevices ? t("kneeAt", { devices: count(kneeDevices) }) : t("noKnee")}`)
    .join(marks().semicolon);
}

function told(point: Planned, t: T) {
  return [
    { name: t("throughput"), value: tokensPerSecond(point.tokens_per_s) },
    { name: t("interval"), value: rangeText(withStep(point, point.tokens_per_s, "shrinks"), tokensPerSecond) },
    { name: t("linearity"), value: percent(point.linearity_fraction) },
    { name: t("marginal"), value: percent(point.marginal_fraction) },
    { name: t("mfu"), value: percent(point.mfu_fraction) },
    { name: t("plan"), value: strategyText(point.strategy) },
  ];
}

function Linearity({ curves, table, data }: Props) {
  const { t } = useTranslation("sweep");
  const palette = usePalette();
  const option = useMemo<EChartsCoreOption>(() => {
    const names = (["linearity", "marginal"] as const).map((what) => t(what));
    return {
      grid: { left: 12, right: 24, top: 40, bottom: 36 },
      legend: { bottom: 0, left: 0, right: 0 },
      xAxis: devicesAxis(t("devices")),
      yAxis: { type: "value", min: 0, axisLabel: { formatter: (value: number) => percent(value, 0) } },
      tooltip: {
        trigger: "item",
        formatter: ({ data }: { data: Partial<Item> }) => (data.point ? tooltipHtml(t("onDevices", { count: data.point.num_devices, devices: count(data.point.num_devices) }), told(data.point, t)) : ""),
      },
      series: curves.flatMap(({ name, points }, index) =>
        (["linearity_fraction", "marginal_fraction"] as const).map((what, place) => ({
          type: "line",
          name: [name, names[place]].filter(Boolean).join(" · "),
          itemStyle: { color: seriesColor(palette, index * 2 + place) },
          lineStyle: { color: seriesColor(palette, index * 2 + place), type: place ? "dashed" : "solid" },
          symbol: place ? "emptyCircle" : "circle",
          symbolSize: 8,
          data: points.flatMap((point): Item[] => (point[what] == null ? [] : [{ value: [point.num_devices, point[what]], point }])),
          ...(index === 0 && place === 1 && {
            markLine: {
              silent: true,
              symbol: "none",
              data: [{ yAxis: KNEE_SHARE }],
              lineStyle: { color: palette.muted, type: "dotted" },
              label: { formatter: t("kneeShare"), color: palette.muted, position: "insideStartTop" },
            },
          }),
        })),
      ),
    };
  }, [curves, palette, t]);
  const last = curves.map(({ points }) => points.at(-1)).filter((point) => point !== undefined);
  return (
    <ChartCard title={t("efficiency")} subtitle={t("efficiencyHelp")} table={table} data={data}>
      <Chart
        option={option}
        height={HEIGHT_PX}
        label={t("efficiencyLabel", { values: last.map((point) => `${count(point.num_devices)}${marks().colon}${percent(point.linearity_fraction)}`).join(marks().comma) })}
      />
    </ChartCard>
  );
}
