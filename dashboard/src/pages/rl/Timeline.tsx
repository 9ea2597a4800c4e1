import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import type { Palette } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { count, percent, seconds } from "../../units/format";
import { blocksOf, devicesOf, poolsOf, tailsOf, taskColor, taskOf, type Block, type Step, type Tail } from "./steps";

const LANE_PX = 60;
const LABEL_PX = 34;
const BAR_SHARE = 0.6; // of a lane; its tails stand below
const TAIL_PX = 6; // at most
const TAIL_OPACITY = 0.7;

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

/** A line below the bars for what a task still makes when its devices are on the next: a series of ECharts. */
function tailSeries(name: string, tails: readonly Tail[], pools: readonly string[], palette: Palette) {
  const rows = 1 + Math.max(...tails.map(({ row }) => row));
  return {
    type: "custom",
    name,
    itemStyle: { color: taskColor(palette, "rollout"), opacity: TAIL_OPACITY },
    encode: { x: [1, 2], y: 0 },
    data: tails.map(({ block }): Item => ({ value: [pools.indexOf(block.pool), block.endS, block.madeS], block })),
    renderItem: ({ dataIndex }: { dataIndex: number }, api: Drawing) => {
      const [x, y] = api.coord([api.value(1), api.value(0)]);
      const [right] = api.coord([api.value(2), api.value(0)]);
      const lane = api.size([0, 1])[1];
      const room = Math.min(TAIL_PX, (lane * (1 - BAR_SHARE)) / 2 / rows);
      const top = y + (lane * BAR_SHARE) / 2 + (tails[dataIndex]?.row ?? 0) * room;
      return { type: "rect", shape: { x, y: top, width: Math.max(right - x, 1), height: room * 0.8 }, style: { fill: taskColor(palette, tails[dataIndex]?.block.task ?? "rollout"), opacity: TAIL_OPACITY } };
    },
  };
}

/** The steps once they repeat: a lane for each pool of devices, a block for each task. */
export function Timeline({ step }: { step: Step }) {
  const { t } = useTranslation("rl");
  const palette = usePalette();
  const nameOf = useTaskName();
  const pools = useMemo(() => poolsOf(step.timeline), [step]);
  const blocks = useMemo(() => blocksOf(step.timeline), [step]);
  const tails = useMemo(() => tailsOf(blocks), [blocks]);
  const tasks = useMemo(() => [...new Set(blocks.map(({ task }) => taskOf(task)))], [blocks]);
  const laneOf = (pool: string) => {
    const devices = devicesOf(step, pool);
    return devices === null ? t(`pool.${pool}`, { defaultValue: pool }) : t("poolOf", { pool: t(`pool.${pool}`, { defaultValue: pool }), devices: count(devices) });
  };
  const option = useMemo<EChartsCoreOption>(() => {
    return {
      grid: { left: 8, right: 20, top: 8, bottom: 40 },
      legend: { bottom: 0, left: 0, right: 0, data: [...tasks.map(nameOf), ...(tails.length ? [t("tail")] : [])] },
      xAxis: { type: "value", min: 0, name: t("time"), nameLocation: "middle", nameGap: 24, axisLabel: { formatter: (value: number) => count(value) } },
      yAxis: { type: "category", inverse: true, data: pools.map(laneOf), axisLabel: { width: 110, overflow: "break", lineHeight: 15 } },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { block } }: { data: Item }) =>
          tooltipHtml(t("blockTitle", { task: nameOf(block.task), step: block.step }), [
            { name: t("takes"), value: seconds(block.endS - block.startS) },
            { name: t("from"), value: `${seconds(block.startS)} – ${seconds(block.endS)}` },
            ...(block.madeS > block.endS ? [{ name: t("made"), value: seconds(block.madeS) }] : []),
            ...(block.waitsFor ? [{ name: t("waitsFor"), value: nameOf(block.waitsFor) }] : []),
          ]),
      },
      series: [
        ...tasks.map((task) => ({
          type: "custom",
          name: nameOf(task),
          itemStyle: { color: taskColor(palette, task) },
          encode: { x: [1, 2], y: 0 },
          data: blocks.filter((block) => taskOf(block.task) === task).map((block): Item => ({ value: [pools.indexOf(block.pool), block.startS, block.endS], block })),
          renderItem: ({ dataIndex }: { dataIndex: number }, api: Drawing) => {
            const [x, y] = api.coord([api.value(1), api.value(0)]);
            const [right] = api.coord([api.value(2), api.value(0)]);
            const height = api.size([0, 1])[1] * BAR_SHARE;
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
        ...(tails.length ? [tailSeries(t("tail"), tails, pools, palette)] : []),
      ],
    };
    // Names follow the language, which `t` follows.
  }, [step, pools, blocks, tails, tasks, palette, t]);
  if (blocks.length === 0) return null;
  return (
    <ChartCard
      title={t("timeline")}
      subtitle={`${t("timelineHelp")}${tails.length ? ` ${t("tailHelp")}` : ""}`}
      table={{
        columns: [t("taskColumn"), t("stepColumn"), t("poolColumn"), t("from"), t("to"), t("takes"), ...(tails.length ? [t("made")] : []), t("waitsFor")],
        rows: blocks.map((block) => [nameOf(block.task), String(block.step), laneOf(block.pool), seconds(block.startS), seconds(block.endS), seconds(block.endS - block.startS), ...(tails.length ? [seconds(block.madeS)] : []), block.waitsFor ? nameOf(block.waitsFor) : "–"]),
      }}
      data={() => [
        ["task", "step", "pool", "start_s", "end_s", "made_s", "waits_for"],
        ...blocks.map((block) => [block.task, block.step, block.pool, block.startS, block.endS, block.madeS, block.waitsFor]),
      ]}
    >
      <Chart
        option={option}
        height={pools.length * LANE_PX + 70}
        label={t("timelineLabel", { pools: pools.map((pool) => `${laneOf(pool)} ${percent(step.utilisation[pool], 0)}`).join(marks().list), tasks: [...tasks.map(nameOf), ...(tails.length ? [t("tail")] : [])].join(marks().list) })}
      />
    </ChartCard>
  );
}
