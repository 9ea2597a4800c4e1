import { Button, Card, Group, Text, Title } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useMemo } from "react";
import { useTranslation } from "../../../i18n";

import { count, percent, seconds } from "../../../units/format";
import type { Task, Timeline } from "./tasks";
import classes from "./Timeline.module.css";

interface Props {
  timeline: Timeline;
  task: Task | null;
  onSelect: (task: number | null, byKeyboard: boolean) => void;
}

/** The chosen task, and the way of its micro batch through the pipeline. */
export function TaskDetail({ timeline, task, onSelect }: Props) {
  const { t } = useTranslation("plan");
  const way = useMemo(() => (task?.microBatch == null ? null : wayOf(timeline, task.microBatch)), [timeline, task?.microBatch]);
  if (!task)
    return (
      <Card>
        <Text c="dimmed" size="sm">
          {t("timeline.chooseTask")}
        </Text>
      </Card>
    );
  const facts: [string, string][] = [
    [t("timeline.fact.kind"), t(`kind.${task.kind}`, { defaultValue: task.kind })],
    [t("timeline.fact.rank"), String(task.rank)],
    [t("timeline.fact.stream"), t(`stream.${task.stream}`, { defaultValue: task.stream })],
    [t("timeline.fact.microBatch"), task.microBatch === null ? "–" : String(task.microBatch)],
    [t("timeline.fact.chunk"), task.chunk === null ? "–" : String(task.chunk)],
    [t("timeline.fact.duration"), seconds(task.endS - task.startS)],
    [t("timeline.fact.start"), seconds(task.startS, 6)],
    [t("timeline.fact.end"), seconds(task.endS, 6)],
    [t("timeline.fact.share"), percent((task.endS - task.startS) / timeline.stepS, 2)],
  ];
  return (
    <Card role="region" aria-label={t("timeline.chosen")}>
      <Group justify="space-between" mb="xs">
        <Title order={2}>{t("timeline.chosen")}</Title>
        <Button variant="subtle" color="gray" size="compact-sm" leftSection={<IconX size={14} />} onClick={() => onSelect(null, false)}>
          {t("timeline.clear")}
        </Button>
      </Group>
      <dl className={classes.detail}>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {way && (
        <Text size="sm" c="dimmed" mt="sm">
          {t("timeline.way", {
            number: task.microBatch,
            tasks: count(way.count),
            start: seconds(way.startS),
            end: seconds(way.endS),
            life: seconds(way.endS - way.startS),
            busy: seconds(way.busyS),
          })}
        </Text>
      )}
    </Card>
  );
}

function wayOf({ document: { tasks } }: Timeline, microBatch: number): { count: number; startS: number; endS: number; busyS: number } {
  const way = { count: 0, startS: Infinity, endS: 0, busyS: 0 };
  tasks.micro_batch.forEach((number, task) => {
    if (number !== microBatch) return;
    const [start, end] = [tasks.start_s[task] ?? 0, tasks.end_s[task] ?? 0];
    way.count++;
    way.startS = Math.min(way.startS, start);
    way.endS = Math.max(way.endS, end);
    way.busyS += end - start;
  });
  return way;
}
