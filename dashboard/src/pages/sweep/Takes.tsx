import { SimpleGrid } from "@mantine/core";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { roundUp } from "../../components/chart/axis";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { strategyText } from "../../components/strategy";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { moneyUnit } from "../../units/currency";
import { compact, count } from "../../units/format";
import { rangeText, withStep } from "../../units/interval";
import { isPlanned, linesOf, nameOf, varied, type Planned, type Sweep } from "./points";
import { measured, onAxis, useWords, type Measure } from "./words";

const HEIGHT_PX = 260;
const WIDE = 8; // numbers that differ by more share a linear axis badly
const SHOWN: readonly Measure[] = ["days", "cost_usd", "energy_kwh"];

/** Days, money and energy to the token budget, a bar for each point. */
export function Takes({ sweep }: { sweep: Sweep }) {
  const points = sweep.points.filter(isPlanned);
  const known = SHOWN.filter((measure) => points.some((point) => point[measure] != null));
  const shown: readonly Measure[] = known.includes("cost_usd") ? known : [...known, "device_days"];
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, xl: shown.length }}>
      {shown.map((measure) => (
        <Bars key={measure} sweep={sweep} points={points} measure={measure} />
      ))}
    </SimpleGrid>
  );
}

function Bars({ sweep, points, measure }: { sweep: Sweep; points: readonly Planned[]; measure: Measure }) {
  const { t } = useTranslation("sweep");
  const words = useWords();
  const palette = usePalette();
  const limit = sweep.constraints[measure];
  const { names, groups, counts } = useMemo(() => {
    const axes = varied(points);
    const names = points.map((point) => [nameOf(point, axes, words), count(point.num_devices)].filter(Boolean).join(" · "));
    const groups = [...new Set(points.map((point) => nameOf(point, axes, words)))].map((name) => ({ name, points: points.filter((point) => nameOf(point, axes, words) === name) }));
    return { names, groups, counts: [...new Set(points.map((point) => point.num_devices))].sort((a, b) => a - b) };
  }, [points, words]);
  const option = useMemo<EChartsCoreOption>(() => {
    const tone = (point: Planned) => (point.point === sweep.best?.point ? palette.good : point.within === false ? palette.muted : palette.series[0]);
    const item = (point: Planned | undefined) => (point ? { value: point[measure] ?? null, point, ...(groups.length === 1 && { itemStyle: { color: tone(point) } }) } : null);
    const all = points.flatMap((point) => (point[measure] == null ? [] : [point[measure]]));
    return {
      grid: { left: 12, right: 16, top: 24, bottom: groups.length > 1 ? 36 : 26 },
      ...(groups.length > 1 && { legend: { bottom: 0, left: 0, right: 0 } }),
      xAxis: { type: "category", data: counts.map((devices) => count(devices)), name: t("devices"), nameLocation: "middle", nameGap: 26 },
      yAxis: {
        type: groups.length > 1 && Math.max(...all) > WIDE * Math.min(...all) ? "log" : "value",
        axisLabel: { formatter: onAxis(measure) },
        ...(limit !== undefined && { max: ({ max }: { max: number }) => roundUp(Math.max(max, limit * 1.05)) }),
      },
      tooltip: {
        trigger: "item",
        formatter: ({ data }: { data?: { point?: Planned } | null }) => {
          const point = data?.point;
          if (!point) return "";
          const interval = withStep(point, point[measure]);
          return tooltipHtml(names[points.indexOf(point)] ?? "", [
            { name: t(`measure.${measure}`), value: measured[measure](point[measure]) },
            ...(interval ? [{ name: t("interval"), value: rangeText(interval, measured[measure]) }] : []),
            { name: t("plan"), value: strategyText(point.strategy) },
          ]);
        },
      },
      series: groups.map((group, index) => ({
        type: groups.length > 1 ? "line" : "bar",
        name: group.name || t(`measure.${measure}`),
        barMaxWidth: 48,
        symbolSize: 8,
        connectNulls: true,
        ...(groups.length > 1 && { itemStyle: { color: seriesColor(palette, index) } }),
        data: counts.map((devices) => item(group.points.find((point) => point.num_devices === devices))),
        ...(limit !== undefined && index === 0 && {
          markLine: {
            silent: true,
            symbol: "none",
            data: [{ yAxis: limit }],
            lineStyle: { color: palette.bad, type: "dashed", width: 1.5 },
            label: { formatter: measured[measure](limit), color: palette.bad, position: "insideEndTop" },
          },
        }),
      })),
    };
  }, [points, names, groups, counts, measure, limit, sweep, palette, t]);
  return (
    <ChartCard
      data={() => linesOf(sweep)}
      title={t(`measure.${measure}`)}
      subtitle={t(`measureHelp.${measure}`, { tokens: compact(sweep.tokens), unit: moneyUnit() })}
      table={{
        columns: [t("devices"), t(`measure.${measure}`), t("interval")],
        rows: points.map((point, place) => [
          names[place] ?? "",
          measured[measure](point[measure]),
          rangeText(withStep(point, point[measure]), measured[measure]),
        ]),
      }}
    >
      <Chart
        option={option}
        height={HEIGHT_PX}
        label={t("barsLabel", { measure: t(`measure.${measure}`), values: points.map((point, place) => `${names[place]}${marks().colon}${measured[measure](point[measure])}`).join(marks().semicolon) })}
      />
    </ChartCard>
  );
}

