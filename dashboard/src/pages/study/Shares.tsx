import { SegmentedControl } from "@mantine/core";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { ChartCard } from "../../components/ChartCard";
import { useUrlChoice } from "../../state/url";
import { partColors } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { percent, seconds } from "../../units/format";
import type { Baseline, RankedPlan } from "./data";

const SHOWN = 10;
const BAR_HEIGHT = 26;

interface Row {
  name: string;
  step: number;
  parts: Readonly<Record<string, number>>;
}

/** Where the time of the first plans goes, and that of the plan to beat. */
export function Shares({ plans, baseline }: { plans: readonly RankedPlan[]; baseline: Baseline | null }) {
  const { t } = useTranslation("study");
  const palette = usePalette();
  const [unit, setUnit] = useUrlChoice("time", ["seconds", "share"], "seconds");

  const rows = useMemo<Row[]>(() => {
    const own = baseline?.estimate as Partial<RankedPlan["estimate"]> | undefined;
    return [
      ...plans.slice(0, SHOWN).map(({ rank, estimate }) => ({ name: `#${rank}`, step: estimate.step_time_s, parts: estimate.time_breakdown_s })),
      ...(baseline && own?.step_time_s && own.time_breakdown_s
        ? [{ name: t(`gain.name.${baseline.source}`), step: own.step_time_s, parts: own.time_breakdown_s }]
        : []),
    ];
  }, [plans, baseline, t]);
  const parts = useMemo(() => largestFirst(rows), [rows]);

  const option = useMemo<EChartsCoreOption>(() => {
    const name = (part: string) => t(`common:part.${part}`, { defaultValue: part });
    const shown = (row: Row, part: string) => ((row.parts[part] ?? 0) / (unit === "share" ? row.step : 1)) * (unit === "share" ? 100 : 1);
    const colors = partColors(palette, parts);
    return {
      grid: { left: 12, right: 24, top: 8, bottom: 58 },
      legend: { bottom: 0, left: 0, right: 0 },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: (points: { dataIndex: number }[]) => {
          const row = rows[points[0]?.dataIndex ?? -1];
          if (!row) return "";
          const lines = parts.filter((part) => row.parts[part]).map((part) => ({
            name: name(part),
            value: `${seconds(row.parts[part])} · ${percent((row.parts[part] ?? 0) / row.step)}`,
            color: colors[part],
          }));
          return tooltipHtml(`${row.name}${marks().colon}${seconds(row.step)}`, lines);
        },
      },
      xAxis: { type: "value", name: unit === "share" ? "%" : "s", nameGap: 6, ...(unit === "share" && { max: 100 }) },
      yAxis: { type: "category", inverse: true, data: rows.map((row) => row.name), axisLabel: { width: 110, overflow: "break" } },
      series: parts.map((part) => ({
        type: "bar",
        stack: "step",
        name: name(part),
        barMaxWidth: 18,
        itemStyle: { color: colors[part], borderColor: palette.surface, borderWidth: 0.5 },
        data: rows.map((row) => shown(row, part)),
      })),
    };
  }, [rows, parts, unit, palette, t]);

  return (
    <ChartCard
      title={t("shares.title")}
      subtitle={t("shares.subtitle")}
      table={{
        columns: [t("shares.part"), ...rows.map(({ name }) => name)],
        rows: parts.map((part) => [
          t(`common:part.${part}`, { defaultValue: part }),
          ...rows.map((row) => (unit === "share" ? percent((row.parts[part] ?? 0) / row.step) : seconds(row.parts[part] ?? 0))),
        ]),
      }}
      actions={
        <SegmentedControl
          size="xs"
          aria-label={t("shares.unit")}
          value={unit}
          onChange={(value) => setUnit(value as "seconds" | "share")}
          data={[
            { value: "seconds", label: t("shares.seconds") },
            { value: "share", label: t("shares.share") },
          ]}
        />
      }
    >
      <Chart option={option} height={92 + rows.length * BAR_HEIGHT} label={t("shares.label", { count: rows.length })} />
    </ChartCard>
  );
}

/** Parts of a time that occur, the largest of all rows first. */
function largestFirst(rows: readonly Row[]): string[] {
  const most = new Map<string, number>();
  for (const { parts } of rows) for (const [part, value] of Object.entries(parts)) most.set(part, Math.max(most.get(part) ?? 0, value));
  return [...most].filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).map(([part]) => part);
}
