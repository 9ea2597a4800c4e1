import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { usePalette } from "../../theme/usePalette";
import { count, percent, seconds } from "../../units/format";
import { blocksOf, devicesOf, poolsOf, taskColor, taskOf, type Block, type Step } from "./steps";

const LANE_PX = 54;
const LABEL_PX = 34;

interface Drawing {
  value: (dimension: number) => number;
  coord: (point: [number, number]) => [number, number];
  size: (span: [number, number]) => [number, number];
}

interface Item {
  value: [number, number, number];
  block: Block;
}

export function useTaskName() {
  const { t } = useTranslation("rl");
  return (name: string) => t(`task.${taskOf(name)}`, { defaultValue: name.replaceAll("_", " ") });
}

/** The steps once they repeat: a lane for each pool of devices, a block for each task. */
export function Timeline({ step }: { step: Step }) {
  const { t } = useTranslation("rl");
  const palette = usePalette();
  const nameOf = useTaskName();
  const pools = useMemo(() => poolsOf(step.timeline), [step]);
  const blocks = useMemo(() => blocksOf(step.timeline), [step]);
  const tasks = useMemo(() => [...new Set(blocks.map(({ task }) => taskOf(task)))], [blocks]);
  const laneOf = (pool: string) => {
    const devices = devicesOf(step, pool);
    return devices === null ? t(`pool.${pool}`, { defaultValue: pool }) : t("poolOf", { pool: t(`pool.${pool}`, { defaultValue: pool }), devices: count(devices) });
  };
  const option = useMemo<EChartsCoreOption>(() => {
    return {
      grid: { left: 8, right: 20, top: 8, bottom: 40 },
      legend: { bottom: 0, left: 0, right: 0, data: tasks.map(nameOf) },
      xAxis: { type: "value", min: 0, name: t("time"), nameLocation: "middle", nameGap: 24, axisLabel: { formatter: (value: number) => count(value), hideOverlap: true } },
      yAxis: { type: "category", inverse: true, data: pools.map(laneOf), axisLabel: { width: 110, overflow: "break", lineHeight: 15 } },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { block } }: { data: Item }) =>
          tooltipHtml(t("blockTitle", { task: nameOf(block.task), step: block.step }), [
            { name: t("takes"), value: seconds(block.endS - block.startS) },
            { name: t("from"), value: `${seconds(block.startS)} – ${seconds(block.endS)}` },
            ...(block.waitsFor ? [{ name: t("waitsFor"), value: nameOf(block.waitsFor) }] : []),
          ]),
      },
      series: tasks.map((task) => ({
        type: "custom",
        name: nameOf(task),
        itemStyle: { color: taskColor(palette, task) },
        encode: { x: [1, 2], y: 0 },
        data: blocks.filter((block) => taskOf(block.task) === task).map((block): Item => ({ value: [pools.indexOf(block.pool), block.startS, block.endS], block })),
        renderItem: ({ dataIndex }: { dataIndex: number }, api: Drawing) => {
          const [x, y] = api.coord([api.value(1), api.value(0)]);
          const [right] = api.coord([api.value(2), api.value(0)]);
          const height = api.size([0, 1])[1] * 0.7;
          const width = Math.max(right - x, 1);
          const block = blocks.filter((each) => taskOf(each.task) === task)[dataIndex];
          return {
            type: "group",
            children: [
              { type: "rect", shape: { x, y: y - height / 2, width, height }, style: { fill: taskColor(palette, task), stroke: palette.surface, lineWidth: 0.6 } },
              ...(width >= LABEL_PX && block
                ? [{ type: "text", style: { text: String(block.step), x: x + width / 2, y, fill: palette.surface, align: "center", verticalAlign: "middle", fontSize: 12, fontWeight: 600 } }]
                : []),
            ],
          };
        },
      })),
    };
    // Names follow the language, which `t` follows.
  }, [step, pools, blocks, tasks, palette, t]);
  if (blocks.length === 0) return null;
  return (
    <ChartCard
      title={t("timeline")}
      subtitle={t("timelineHelp")}
      table={{
        columns: [t("taskColumn"), t("stepColumn"), t("poolColumn"), t("from"), t("to"), t("takes"), t("waitsFor")],
        rows: blocks.map((block) => [nameOf(block.task), String(block.step), laneOf(block.pool), seconds(block.startS), seconds(block.endS), seconds(block.endS - block.startS), block.waitsFor ? nameOf(block.waitsFor) : "–"]),
      }}
      data={() => [
        ["task", "step", "pool", "start_s", "end_s", "waits_for"],
        ...blocks.map((block) => [block.task, block.step, block.pool, block.startS, block.endS, block.waitsFor]),
      ]}
    >
      <Chart
        option={option}
        height={pools.length * LANE_PX + 70}
        label={t("timelineLabel", { pools: pools.map((pool) => `${laneOf(pool)} ${percent(step.utilisation[pool], 0)}`).join(", "), tasks: tasks.map(nameOf).join(", ") })}
      />
    </ChartCard>
  );
}
