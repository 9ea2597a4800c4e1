import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { roundUp } from "../../components/chart/axis";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { ChartCard } from "../../components/ChartCard";
import { partColors } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { percent } from "../../units/format";
import type { Item } from "./data";
import type { Row } from "./rows";

interface Props {
  title: string;
  subtitle: string;
  items: readonly Item[];
  rows: readonly Row[];
  /** What one unit of the axis is, and its name. */
  unit: number;
  unitName: string;
  text: (value: number) => string;
  limit?: number;
}

/** A bar an item, part by part, all on one scale. The lines of the table below are its numbers. */
export function Breakdown({ title, subtitle, items, rows, unit, unitName, text, limit }: Props) {
  const { t } = useTranslation("compare");
  const palette = usePalette();
  const option = useMemo<EChartsCoreOption>(() => {
    const totals = items.map((_, place) => rows.reduce((sum, { values }) => sum + (values?.[place] ?? 0), 0));
    const colors = partColors(palette, rows.map(({ key }) => key));
    return {
      grid: { left: 12, right: 24, top: limit ? 30 : 8, bottom: 56 },
      legend: { bottom: 0, left: 0, right: 0 },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: (points: { dataIndex: number }[]) => {
          const place = points[0]?.dataIndex ?? 0;
          const total = totals[place] ?? 0;
          const lines = rows
            .filter(({ values }) => values?.[place])
            .map(({ key, label, values }) => ({ name: label, value: `${text(values?.[place] ?? 0)} · ${percent((values?.[place] ?? 0) / total)}`, color: colors[key] }));
          return tooltipHtml(`${items[place]?.letter}${marks().colon}${text(total)}`, lines);
        },
      },
      xAxis: { type: "value", name: unitName, nameGap: 6, ...(limit && { max: ({ max }: { max: number }) => roundUp(Math.max(max, limit / unit) * 1.02) }) },
      yAxis: { type: "category", inverse: true, data: items.map(({ letter }) => letter), axisLabel: { fontWeight: 600, color: palette.text } },
      series: rows.map(({ key, label, values }, index) => ({
        type: "bar",
        stack: "sum",
        name: label,
        barMaxWidth: 26,
        itemStyle: { color: colors[key], borderColor: palette.surface, borderWidth: 0.5 },
        data: items.map((_, place) => (values?.[place] ?? 0) / unit),
        ...(index === 0 &&
          limit && {
            markLine: {
              silent: true,
              symbol: "none",
              data: [{ xAxis: limit / unit }],
              lineStyle: { color: palette.bad, type: "solid", width: 1.5 },
              label: { formatter: t("limit", { limit: text(limit) }), position: "start", color: palette.bad, distance: 4 },
            },
          }),
      })),
    };
  }, [items, rows, unit, unitName, text, limit, palette, t]);
  return (
    <ChartCard title={title} subtitle={subtitle}>
      <Chart option={option} height={90 + items.length * 38 + (limit ? 16 : 0)} label={t("breakdownLabel", { title })} />
    </ChartCard>
  );
}
