import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import type { Plan } from "../../api/queries";
import { ChartCard } from "../../components/ChartCard";
import { roundUp } from "../../components/chart/axis";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { usePalette } from "../../theme/usePalette";
import { bytes, number, seconds } from "../../units/format";
import { curveOf, heldOf, type Columns } from "./curves";
import { timelineQuery } from "./data";
import { positionColors } from "./positions";

const GIB = 2 ** 30;
const MOST_STEPS = 1500; // of all curves of a plan that one chart draws in a moment: 1500 each up to 16 ranks
const MOST_TOLD = 12;

/** What every pipeline rank holds over the step. */
export function MemoryOverTime({ studyId, plan, limit }: { studyId: string; plan: Plan; limit: number }) {
  const { t } = useTranslation("plan");
  const { data, error, isPending, refetch } = useQuery(timelineQuery(studyId, plan.plan_id));
  if (isPending) return <LoadingRows rows={8} />;
  if (error)
    return <ErrorState error={error} action={<Button variant="default" onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />;
  return data.memory.rank.length > 0 && <Curves memory={data.memory} stepS={data.step_time_s} limit={limit} />;
}

function Curves({ memory, stepS, limit }: { memory: Columns; stepS: number; limit: number }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const held = useMemo(() => heldOf(memory, stepS), [memory, stepS]);
  const option = useMemo<EChartsCoreOption>(() => {
    const ranks = memory.rank;
    const colors = positionColors(palette, ranks.length);
    const steps = Math.max(100, Math.min(MOST_STEPS, Math.floor((16 * MOST_STEPS) / ranks.length)));
    return {
      grid: { left: 12, right: 20, top: 24, bottom: 52 },
      legend: { bottom: 0, left: 0, right: 0 },
      tooltip: {
        trigger: "axis",
        formatter: (points: { seriesName: string; value: [number, number]; color: string }[]) => {
          const most = [...points].sort((a, b) => b.value[1] - a.value[1]).slice(0, MOST_TOLD);
          return tooltipHtml(seconds(points[0]?.value[0]), most.map(({ seriesName, value, color }) => ({ name: seriesName, value: bytes(value[1] * GIB), color })));
        },
      },
      xAxis: { type: "value", min: 0, max: stepS, name: t("overTime.axis"), nameLocation: "middle", nameGap: 24, axisLabel: { formatter: (value: number) => number(value), showMaxLabel: false } },
      yAxis: { type: "value", name: "GiB", min: 0, max: ({ max }: { max: number }) => roundUp(Math.max(max, limit / GIB) * 1.06) },
      series: ranks.map((rank, place) => ({
        type: "line",
        step: "end",
        symbol: "none",
        name: t("memory.stage", { stage: rank }),
        lineStyle: { width: ranks.length > 16 ? 1 : 1.5 },
        itemStyle: { color: colors[place] },
        emphasis: { focus: "series", lineStyle: { width: 2.5 } },
        data: curveOf(memory, place, stepS, steps).map(([time, value]) => [time, value / GIB]),
        ...(place === 0 && {
          markLine: {
            silent: true,
            symbol: "none",
            lineStyle: { color: palette.bad, type: "dashed", width: 1.5 },
            label: { formatter: t("memory.limit", { bytes: bytes(limit) }), position: "insideEndTop", color: palette.bad },
            data: [{ yAxis: limit / GIB }],
          },
        }),
      })),
    };
  }, [memory, stepS, limit, palette, t]);
  const fullest = held.reduce((a, b) => (b.peakBytes > a.peakBytes ? b : a));
  const label = t("overTime.label", { count: held.length, rank: fullest.rank, peak: bytes(fullest.peakBytes), time: seconds(fullest.peakAtS) });
  return (
    <ChartCard
      title={t("overTime.title")}
      subtitle={label}
      table={{
        columns: [t("memory.axis"), t("overTime.peak"), t("overTime.at"), t("overTime.mean"), t("overTime.least")],
        rows: held.map(({ rank, peakBytes, peakAtS, meanBytes, leastBytes }) => [String(rank), bytes(peakBytes), seconds(peakAtS), bytes(meanBytes), bytes(leastBytes)]),
      }}
      data={() => [
        ["rank", "time_s", "allocated_bytes"],
        ...memory.rank.flatMap((rank, place) => (memory.time_s[place] ?? []).map((time, index) => [rank, time, memory.bytes[place]?.[index]])),
      ]}
    >
      <Chart option={option} height={400} label={label} />
    </ChartCard>
  );
}
