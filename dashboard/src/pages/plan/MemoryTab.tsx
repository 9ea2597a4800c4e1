import { Stack, Title } from "@mantine/core";
import type { TFunction } from "../../i18n";
import { Suspense, useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import type { Plan } from "../../api/queries";
import { ChartCard } from "../../components/ChartCard";
import { roundUp } from "../../components/chart/axis";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { DataTable, type Column } from "../../components/DataTable";
import { LoadingRows } from "../../components/Loading";
import { WhenVisible } from "../../components/WhenVisible";
import { lazyPart } from "../../components/lazyPart";
import { partColors } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { bytes, seconds } from "../../units/format";
import { Analysed } from "./Analysed";
import type { Analysis, Stage } from "./data";

const GIB = 2 ** 30;
const MEMORY_OVER_TIME_PX = 480;
const MemoryOverTime = lazyPart(async () => (await import("./MemoryOverTime")).MemoryOverTime);

const Verified = lazyPart(async () => (await import("./Verified")).Verified);

export function MemoryTab({ studyId, plan }: { studyId: string; plan: Plan }) {
  return (
    <Analysed studyId={studyId} plan={plan}>
      {(analysis) => (
        <Stack gap="md">
          <StageMemory analysis={analysis} />
          <WhenVisible height={MEMORY_OVER_TIME_PX}>
            <Suspense fallback={<LoadingRows />}>
              <MemoryOverTime studyId={studyId} plan={plan} limit={analysis.fit_limit_bytes} />
            </Suspense>
          </WhenVisible>
          <StageTable analysis={analysis} />
          <Suspense fallback={null}>
            <Verified studyId={studyId} planId={plan.plan_id} />
          </Suspense>
        </Stack>
      )}
    </Analysed>
  );
}

/** Parts that any stage has, the largest of all stages first. */
function partsOf(stages: readonly Stage[]): string[] {
  const most = new Map<string, number>();
  for (const { memory_bytes } of stages)
    for (const [part, value] of Object.entries(memory_bytes)) most.set(part, Math.max(most.get(part) ?? 0, value));
  return [...most].filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).map(([part]) => part);
}

function StageMemory({ analysis }: { analysis: Analysis }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const { stages, fit_limit_bytes: limit } = analysis;
  const worst = stages.reduce((a, b) => (b.peak_memory_bytes > a.peak_memory_bytes ? b : a), stages[0] as Stage);
  const option = useMemo<EChartsCoreOption>(() => {
    const parts = partsOf(stages);
    const colors = partColors(palette, parts);
    const name = (part: string) => t(`common:part.${part}`, { defaultValue: part });
    const limitText = t("memory.limit", { bytes: bytes(limit) });
    return {
      grid: { left: 12, right: 20, top: 24, bottom: 52 },
      legend: { bottom: 0, left: 0, right: 0 },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: (points: { dataIndex: number; seriesName: string; value: number; marker: string }[]) => {
          const stage = stages[points[0]?.dataIndex ?? 0];
          const lines = [...points]
            .sort((a, b) => b.value - a.value)
            .filter(({ value }) => value > 0)
            .map(({ marker, seriesName, value }) => `${marker}${seriesName} <b>${bytes(value * GIB)}</b>`);
          return [`<b>${t("memory.stage", { stage: stage?.stage })}${marks().colon}${bytes(stage?.peak_memory_bytes)}</b>`, ...lines].join("<br>");
        },
      },
      xAxis: { type: "category", name: t("memory.axis"), nameLocation: "middle", nameGap: 26, data: stages.map(({ stage }) => String(stage)) },
      yAxis: { type: "value", name: "GiB", max: ({ max }: { max: number }) => roundUp(Math.max(max, limit / GIB) * 1.06) },
      series: parts.map((part, index) => ({
        type: "bar",
        stack: "memory",
        name: name(part),
        barMaxWidth: 64,
        itemStyle: { color: colors[part], borderColor: palette.surface, borderWidth: 0.6 },
        data: stages.map(({ memory_bytes }) => (memory_bytes[part] ?? 0) / GIB),
        ...(index === 0 && {
          markLine: {
            silent: true,
            symbol: "none",
            lineStyle: { color: palette.bad, type: "dashed", width: 1.5 },
            label: { formatter: limitText, position: "insideEndTop", color: palette.bad },
            data: [{ yAxis: limit / GIB }],
          },
        }),
      })),
    };
  }, [stages, limit, palette, t]);
  const label = t("memory.label", {
    count: stages.length,
    stage: worst.stage,
    peak: bytes(worst.peak_memory_bytes),
    limit: bytes(limit),
  });
  return (
    <ChartCard title={t("memory.title")} subtitle={label}>
      <Chart option={option} height={380} label={label} />
    </ChartCard>
  );
}

function StageTable({ analysis: { stages, fit_limit_bytes: limit } }: { analysis: Analysis }) {
  const { t } = useTranslation("plan");
  const columns = useMemo<Column<Stage>[]>(() => {
    const time = (key: "forward_s" | "backward_s"): Column<Stage> => ({
      key,
      header: t(`memory.${key}`),
      help: t("memory.timeHelp"),
      numeric: true,
      value: (stage) => stage[key],
      cell: (stage) => seconds(stage[key]),
    });
    return [
      { key: "stage", header: t("memory.axis"), fixed: true, numeric: true, value: ({ stage }) => stage, cell: ({ stage }) => stage },
      {
        key: "layers",
        header: t("memory.layers"),
        value: ({ num_layers }) => num_layers,
        cell: (stage) => <div style={{ minWidth: 150 }}>{holds(stage, t)}</div>,
      },
      time("forward_s"),
      time("backward_s"),
      {
        key: "peak",
        csv: "peak_memory_bytes",
        header: t("memory.peak"),
        numeric: true,
        value: ({ peak_memory_bytes }) => peak_memory_bytes,
        cell: ({ peak_memory_bytes }) => bytes(peak_memory_bytes),
      },
      {
        key: "free",
        csv: "free_bytes",
        header: t("memory.free"),
        numeric: true,
        value: ({ peak_memory_bytes }) => limit - peak_memory_bytes,
        cell: ({ peak_memory_bytes }) => bytes(limit - peak_memory_bytes),
      },
      ...partsOf(stages).map<Column<Stage>>((part) => ({
        key: part,
        csv: `${part}_bytes`,
        header: t(`common:part.${part}`, { defaultValue: part }),
        numeric: true,
        value: ({ memory_bytes }) => memory_bytes[part],
        cell: ({ memory_bytes }) => bytes(memory_bytes[part]),
      })),
    ];
  }, [stages, limit, t]);
  return (
    <DataTable
      label={t("memory.table")}
      toolbar={<Title order={2}>{t("memory.table")}</Title>}
      rows={stages}
      columns={columns}
      rowKey={({ stage }) => String(stage)}
      prefix="stage-"
    />
  );
}

function holds(stage: Stage, t: TFunction): string {
  const parts = [
    stage.num_embeddings > 0 && t("memory.embedding"),
    stage.num_moe_layers > 0 && stage.num_moe_layers < stage.num_layers
      ? t("memory.mixedLayers", { count: stage.num_layers, moe: stage.num_moe_layers })
      : t(stage.num_moe_layers > 0 ? "memory.moeLayers" : "memory.denseLayers", { count: stage.num_layers }),
    stage.num_heads > 0 && t("memory.head"),
  ];
  return parts.filter(Boolean).join(marks().comma);
}
