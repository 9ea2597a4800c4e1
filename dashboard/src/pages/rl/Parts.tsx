import { Card, Progress, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { CardHead } from "../../components/CardHead";
import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { usePalette } from "../../theme/usePalette";
import { count, number, percent, seconds } from "../../units/format";
import { devicesOf, taskColor, taskOf, type Step } from "./steps";
import { useTaskName } from "./Timeline";

const ROW_PX = 30;

/** Seconds of each task on its own devices, and how busy these are. */
export function Parts({ step }: { step: Step }) {
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Tasks step={step} />
      <Busy step={step} />
    </SimpleGrid>
  );
}

function Tasks({ step }: { step: Step }) {
  const { t } = useTranslation("rl");
  const palette = usePalette();
  const nameOf = useTaskName();
  const parts = useMemo(() => Object.entries(step.parts_s).filter(([, time]) => time > 0), [step]);
  const waits = (task: string) => {
    const cause = step.blocked_by[task];
    return cause ? nameOf(cause) : "–";
  };
  const option = useMemo<EChartsCoreOption>(
    () => ({
      grid: { left: 8, right: 72, top: 4, bottom: 26 },
      xAxis: { type: "value", name: t("time"), nameLocation: "middle", nameGap: 24 },
      yAxis: { type: "category", inverse: true, data: parts.map(([task]) => nameOf(task)) },
      tooltip: {
        trigger: "item",
        formatter: ({ dataIndex }: { dataIndex: number }) => {
          const [task, time] = parts[dataIndex] ?? ["", 0];
          return tooltipHtml(nameOf(task), [
            { name: t("takes"), value: seconds(time) },
            { name: t("ofStep"), value: percent(time / step.step_time_s) },
            { name: t("waitsFor"), value: waits(task) },
          ]);
        },
      },
      series: [
        {
          type: "bar",
          barMaxWidth: 18,
          label: { show: true, position: "right", color: palette.text, formatter: ({ value }: { value: number }) => seconds(value, 3) },
          data: parts.map(([task, value]) => ({ value, itemStyle: { color: taskColor(palette, task) } })),
        },
      ],
    }),
    [step, parts, palette, t],
  );
  return (
    <ChartCard
      title={t("parts")}
      subtitle={t("partsHelp")}
      table={{ columns: [t("taskColumn"), t("takes"), t("ofStep"), t("waitsFor")], rows: parts.map(([task, time]) => [nameOf(task), seconds(time), percent(time / step.step_time_s), waits(task)]) }}
      data={() => [["task", "seconds", "waits_for"], ...parts.map(([task, time]) => [task, time, step.blocked_by[taskOf(task)] ?? ""])]}
    >
      <Chart option={option} height={parts.length * ROW_PX + 50} label={t("partsLabel", { parts: parts.map(([task, time]) => `${nameOf(task)} ${seconds(time, 3)}`).join(marks().list) })} />
    </ChartCard>
  );
}

function Busy({ step }: { step: Step }) {
  const { t } = useTranslation("rl");
  const pools = Object.entries(step.utilisation);
  return (
    <Card component="section" aria-labelledby="rl-busy">
      <CardHead title={t("busy")} id="rl-busy" help={t("busyHelp")} mb="sm" />
      <Stack gap="sm">
        {pools.map(([pool, share]) => {
          const devices = devicesOf(step, pool);
          const name = t(`pool.${pool}`, { defaultValue: pool });
          return (
            <div key={pool}>
              <Text size="sm" component="div" style={{ display: "flex", justifyContent: "space-between", gap: 12 }}>
                <span>{devices === null ? name : t("poolOf", { pool: name, devices: count(devices) })}</span>
                <span className="number">{percent(Math.min(share, 1), 0)}</span>
              </Text>
              <Progress value={Math.min(share, 1) * 100} size="lg" aria-label={`${name}${marks().colon}${percent(Math.min(share, 1), 0)}`} />
            </div>
          );
        })}
        <Text size="sm">
          {t("rolloutFacts", {
            instances: count(step.rollout_layout.instances),
            devices: count(step.rollout_layout.instance_devices),
            flight: count(step.rollout.in_flight),
            preemptions: count(step.rollout.preemptions),
          })}{" "}
          {t("lengthFacts", {
            mean: number(step.rollout.mean_length, 4),
            longest: count(step.rollout.longest_length),
            cut: percent(step.rollout.truncated_fraction),
            tail: seconds(step.rollout.tail_s, 3),
          })}
        </Text>
      </Stack>
    </Card>
  );
}
