import { useMemo } from "react";
import { marks, useTranslation } from "../../../i18n";

import type { Schemas } from "../../../api/client";
import { ChartCard } from "../../../components/ChartCard";
import { Chart } from "../../../components/chart/Chart";
import type { EChartsCoreOption } from "../../../components/chart/echarts";
import { tooltipHtml } from "../../../components/chart/tooltip";
import type { Palette } from "../../../theme/palette";
import { usePalette } from "../../../theme/usePalette";
import { duration, percent } from "../../../units/format";
import { barsOf, STATES, totals, type State } from "./month";

const ROW_HEIGHT = 14;

const colors = (palette: Palette): Record<State, string> => ({
  runs: palette.series[2] ?? palette.good,
  slow: palette.series[13] ?? palette.good,
  repeated: palette.warn,
  recovers: palette.bad,
  waits: palette.muted,
});

interface Drawing {
  value: (dimension: number) => number;
  coord: (point: [number, number]) => [number, number];
  size: (span: [number, number]) => [number, number];
}

/** A simulated month: a line a day, with what the job did in each hour. */
export function Month({ month }: { month: Schemas["MonthDocument"] }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const bars = useMemo(() => barsOf(month.stretches), [month]);
  const sums = useMemo(() => totals(bars), [bars]);
  const shown = STATES.filter((state) => sums[state] > 0);
  const days = Math.ceil(month.span_s / 86_400);
  const option = useMemo<EChartsCoreOption>(() => {
    const color = colors(palette);
    return {
      grid: { left: 8, right: 16, top: 8, bottom: 34 },
      legend: { bottom: 0, left: 0, right: 0, data: shown.map((state) => t(`delivery.state.${state}`)) },
      xAxis: { type: "value", min: 0, max: 24, interval: 4, name: t("delivery.hour"), nameLocation: "middle", nameGap: 24 },
      yAxis: { type: "category", inverse: true, data: Array.from({ length: days }, (_, day) => String(day + 1)) },
      tooltip: {
        trigger: "item",
        formatter: ({ dataIndex, seriesIndex }: { dataIndex: number; seriesIndex: number }) => {
          const bar = bars.filter(({ state }) => state === shown[seriesIndex])[dataIndex];
          if (!bar) return "";
          const lines = [{ name: t(`delivery.state.${bar.state}`), value: duration((bar.endH - bar.startH) * 3600), color: color[bar.state] }];
          if (bar.endedBy) lines.push({ name: t("delivery.endedBy"), value: t(`delivery.cause.${bar.endedBy}`, { defaultValue: bar.endedBy }), color: palette.bad });
          return tooltipHtml(t("delivery.day", { day: bar.day + 1 }), lines);
        },
      },
      series: shown.map((state) => ({
        type: "custom",
        name: t(`delivery.state.${state}`),
        itemStyle: { color: color[state] },
        encode: { x: [1, 2], y: 0 },
        data: bars.filter((bar) => bar.state === state).map((bar) => [bar.day, bar.startH, bar.endH]),
        renderItem: (_: unknown, api: Drawing) => {
          const [x, y] = api.coord([api.value(1), api.value(0)]);
          const [right] = api.coord([api.value(2), api.value(0)]);
          const height = api.size([0, 1])[1] * 0.72;
          return {
            type: "rect",
            shape: { x, y: y - height / 2, width: Math.max(right - x, 1), height },
            style: { fill: color[state] },
          };
        },
      })),
    };
  }, [bars, shown, days, palette, t]);
  return (
    <ChartCard
      title={t("delivery.month")}
      subtitle={t("delivery.monthHelp")}
      table={{
        columns: [t("delivery.doing"), t("delivery.time"), t("delivery.share")],
        rows: shown.map((state) => [t(`delivery.state.${state}`), duration(sums[state]), percent(sums[state] / month.span_s, 2)]),
      }}
    >
      <Chart
        option={option}
        height={days * ROW_HEIGHT + 70}
        label={t("delivery.monthLabel", {
          days,
          parts: shown.map((state) => `${t(`delivery.state.${state}`)} ${percent(sums[state] / month.span_s)}`).join(marks().list),
        })}
      />
    </ChartCard>
  );
}
