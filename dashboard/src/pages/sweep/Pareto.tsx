import { useMemo } from "react";
import { bracketed, marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { whiskers } from "../../components/chart/whiskers";
import { strategyText } from "../../components/strategy";
import { usePalette } from "../../theme/usePalette";
import { moneyUnit } from "../../units/currency";
import { compact, count } from "../../units/format";
import { rangeText, withStep } from "../../units/interval";
import { isPlanned, linesOf, nameOf, pointsOf, varied, type Planned, type Sweep } from "./points";
import { measured, onAxis, useWords, type Measure } from "./words";

const WIDE = 8; // days that differ by more are told apart on a logarithmic axis only

interface Item {
  value: [number, number];
  point: Planned;
}

/** With its interval. */
function told(point: Planned, measure: Measure): string {
  const interval = withStep(point, point[measure]);
  return `${measured[measure](point[measure])}${interval ? bracketed(rangeText(interval, measured[measure])) : ""}`;
}

/** Days against money, or against device-days where nobody knows a price: every point, its interval, and the front. */
export function Pareto({ sweep }: { sweep: Sweep }) {
  const { t } = useTranslation("sweep");
  const words = useWords();
  const palette = usePalette();
  const across: Measure = sweep.pareto_of.includes("cost_usd") ? "cost_usd" : "device_days";
  const points = useMemo(() => sweep.points.filter(isPlanned).filter((point) => point.days != null && point[across] != null), [sweep, across]);
  const names = useMemo(() => {
    const axes = varied(sweep.points);
    return new Map(points.map((point) => [point.point, [nameOf(point, axes, words), t("onDevices", { count: point.num_devices, devices: count(point.num_devices) })].filter(Boolean).join(marks().comma)]));
  }, [sweep, points, words, t]);
  const option = useMemo<EChartsCoreOption>(() => {
    const place = (point: Planned): [number, number] => [point[across] ?? 0, point.days ?? 0];
    const front = pointsOf(sweep, sweep.pareto).map(place).sort(([a], [b]) => a - b);
    const on = new Set(sweep.pareto);
    const series = (name: string, color: string, chosen: readonly Planned[], symbolSize: number) => ({
      type: "scatter",
      name,
      z: 3,
      symbolSize,
      itemStyle: { color },
      label: { show: true, formatter: ({ data }: { data: Item }) => String(data.point.point), position: "right", color: palette.text },
      data: chosen.map((point): Item => ({ value: place(point), point })),
    });
    const days = points.map((point) => point.days ?? 0);
    const isWide = Math.max(...days) > WIDE * Math.min(...days);
    const limit = (name: string, value: number | undefined, axis: "xAxis" | "yAxis") =>
      value === undefined ? [] : [{ [axis]: value, label: { formatter: name, color: palette.bad, position: axis === "xAxis" ? "end" : "insideEndTop", rotate: 0 } }];
    const limits = [
      ...limit(t("deadline"), sweep.constraints.days, "yAxis"),
      ...(across === "cost_usd" ? limit(t("budget"), sweep.constraints.cost_usd, "xAxis") : []),
    ];
    return {
      grid: { left: 12, right: 40, top: 40, bottom: 36 },
      legend: { bottom: 0, left: 0, right: 0, data: [t("onFront"), t("beside"), t("front")] },
      xAxis: {
        type: "value",
        scale: true,
        name: t(`axis.${across}`, { unit: moneyUnit() }),
        nameLocation: "middle",
        nameGap: 26,
        axisLabel: { formatter: onAxis(across) },
      },
      yAxis: { type: isWide ? "log" : "value", scale: true, name: t("axis.days"), nameTextStyle: { align: "left" }, axisLabel: { formatter: (value: number) => compact(value) } },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { point } }: { data: Partial<Item> }) => {
          if (!point) return "";
          const row = (measure: Measure) => {
            return { name: t(`measure.${measure}`), value: told(point, measure) };
          };
          return tooltipHtml(t("pointTitle", { point: point.point, name: names.get(point.point) }), [
            row("days"),
            row(across),
            { name: t("plan"), value: strategyText(point.strategy) },
          ]);
        },
      },
      series: [
        {
          type: "line",
          name: t("front"),
          step: "end",
          symbol: "none",
          silent: true,
          z: 2,
          itemStyle: { color: palette.good },
          lineStyle: { color: palette.good, width: 1.5, type: "dashed" },
          data: front,
          ...(limits.length > 0 && { markLine: { silent: true, symbol: "none", lineStyle: { color: palette.bad, type: "solid", width: 1.5 }, data: limits } }),
        },
        series(t("onFront"), palette.series[0] ?? palette.text, points.filter(({ point }) => on.has(point)), 12),
        series(t("beside"), palette.muted, points.filter(({ point }) => !on.has(point)), 9),
        whiskers(
          t("interval"),
          palette.muted,
          points.flatMap((point) => {
            const [x, y] = [withStep(point, point[across]), withStep(point, point.days)];
            return x && y ? [[x.low, y.low, x.high, y.high] as const] : [];
          }),
        ),
      ],
    };
  }, [sweep, points, across, names, palette, t]);
  if (points.length === 0) return null;
  return (
    <ChartCard
      data={() => linesOf(sweep)}
      title={t(`pareto.${across}`)}
      subtitle={t("paretoHelp")}
      table={{
        columns: [t("point"), t("measure.days"), t(`measure.${across}`), t("front")],
        rows: points.map((point) => [
          t("pointTitle", { point: point.point, name: names.get(point.point) }),
          told(point, "days"),
          told(point, across),
          sweep.pareto.includes(point.point) ? "✓" : "",
        ]),
      }}
    >
      <Chart
        option={option}
        height={380}
        label={t("paretoLabel", {
          count: points.length,
          front: pointsOf(sweep, sweep.pareto).map((point) => `${point.point}${marks().colon}${measured.days(point.days)}${marks().comma}${measured[across](point[across])}`).join(marks().semicolon),
        })}
      />
    </ChartCard>
  );
}
