import { Button, Card, Group, Stack, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useCallback, useId, useMemo, useRef } from "react";
import { useTranslation } from "../../i18n";

import type { Plan } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { ErrorState } from "../../components/ErrorState";
import { fitLimit } from "../../components/fitLimit";
import { LoadingRows } from "../../components/Loading";
import { SaveMenu } from "../../components/SaveMenu";
import { useUrlText } from "../../state/url";
import { usePalette } from "../../theme/usePalette";
import { seconds } from "../../units/format";
import { timelineQuery } from "../plan/data";
import { css } from "../../theme/color";
import { kindColor } from "../plan/timeline/look";
import { arranged, fullestRank, taskAt, type Timeline } from "../plan/timeline/tasks";
import { pictureOf, TimelineCanvas, type TimelineHandle } from "../plan/timeline/TimelineCanvas";
import { useTaskSentence } from "../plan/timeline/useTaskSentence";
import classes from "./Compare.module.css";
import type { Item } from "./data";

interface Window {
  startS: number;
  endS: number;
}

const ALL = { ranks: null, streams: null };
const AROUND_RANKS_PX = 160; // overview, axis and memory
const RANK_PX = 46;
const [LOWEST_PX, HIGHEST_PX] = [260, 460];

function windowFromText(text: string): Window | null {
  const [startS, endS] = text.split("~").map(Number);
  return startS !== undefined && endS !== undefined && startS >= 0 && endS > startS ? { startS, endS } : null;
}

/** The simulated steps below each other on one scale of time; zooming one zooms all. */
export function Timelines({ items }: { items: readonly (Item & { plan: Plan })[] }) {
  const { t } = useTranslation("compare");
  const [isWanted, setWanted] = useUrlText("timelines");
  const [windowText, setWindowText] = useUrlText("window");
  const helpId = useId();
  const view = useMemo(() => windowFromText(windowText), [windowText]);
  const answers = useQueries({
    queries: items.map(({ entry, plan }) => ({ ...timelineQuery(entry.studyId, plan.plan_id), enabled: isWanted === "on" })),
  });
  const longest = Math.max(...items.map(({ plan }) => plan.estimate.step_time_s));
  const onWindow = useCallback(
    ({ startS, endS }: Window) => setWindowText(startS <= 0 && endS >= longest * (1 - 1e-9) ? "" : `${startS.toPrecision(9)}~${endS.toPrecision(9)}`),
    [setWindowText, longest],
  );
  return (
    <Card>
      <CardHead title={t("timelines.title")} help={<span id={helpId}>{t("timelines.help")}</span>}>
        {view && (
          <Button variant="default" size="xs" onClick={() => setWindowText("")}>
            {t("timelines.whole")}
          </Button>
        )}
        <Button variant="default" size="xs" aria-expanded={isWanted === "on"} onClick={() => setWanted(isWanted === "on" ? "" : "on")}>
          {t(isWanted === "on" ? "timelines.hide" : "timelines.show")}
        </Button>
      </CardHead>
      {isWanted === "on" && (
        <Stack gap="md">
          <Legend documents={answers.flatMap(({ data }) => data ?? [])} />
          {items.map((item, place) => {
            const { data, error, refetch } = answers[place] ?? {};
            if (error)
              return (
                <ErrorState
                  key={item.letter}
                  title={item.letter}
                  detail={error.message}
                  action={
                    <Button variant="default" onClick={() => void refetch?.()}>
                      {t("common:error.retry")}
                    </Button>
                  }
                />
              );
            if (!data) return <LoadingRows key={item.letter} rows={5} />;
            return <One key={item.letter} item={item} document={data} view={view} onWindow={onWindow} longest={longest} helpId={helpId} />;
          })}
        </Stack>
      )}
    </Card>
  );
}

/** What the colours mean. */
function Legend({ documents }: { documents: readonly Timeline["document"][] }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const kinds = [...new Set(documents.flatMap(({ kinds: names, tasks }) => [...new Set(tasks.kind)].map((kind) => names[kind] ?? "")))];
  return (
    <Group gap="md" component="ul" className={classes.legend}>
      {kinds.map((kind) => (
        <li key={kind}>
          <span className={classes.swatch} style={{ background: css(kindColor(palette, kind)) }} />
          {t(`kind.${kind}`, { defaultValue: kind })}
        </li>
      ))}
    </Group>
  );
}

interface OneProps {
  item: Item & { plan: Plan };
  document: Timeline["document"];
  view: Window | null;
  onWindow: (window: Window) => void;
  longest: number;
  helpId: string;
}

function One({ item: { letter, plan }, document, view, onWindow, longest, helpId }: OneProps) {
  const { t } = useTranslation("compare");
  const timeline = useMemo(() => arranged(document), [document]);
  const [taskText, setTaskText] = useUrlText(`task-${letter}`);
  const task = /^\d+$/.test(taskText) ? taskAt(timeline, Number(taskText)) : null;
  const sentence = useTaskSentence();
  const handle = useRef<TimelineHandle>(null);
  const picture = useMemo(() => pictureOf(handle), []);
  const { memory, num_ranks: numRanks } = document;
  const fullest = useMemo(() => fullestRank(memory), [memory]);
  const height = Math.min(HIGHEST_PX, Math.max(LOWEST_PX, AROUND_RANKS_PX + numRanks * RANK_PX));
  const share = view ? 1 : Math.min(1, timeline.stepS / longest);
  const name = t("timelines.of", { letter, step: seconds(timeline.stepS), rank: plan.rank });
  return (
    <div>
      <Group justify="space-between" gap="xs" mb={4} wrap="nowrap">
        <Text size="sm" fw={550}>
          {name}
        </Text>
        <SaveMenu title={name} picture={picture} />
      </Group>
      {/* The whole step is as wide as it is long; a window is the same for all. */}
      <div className={classes.timeline} style={{ "--share": share, "--height": `${height}px` } as React.CSSProperties}>
        <TimelineCanvas
          ref={handle}
          timeline={timeline}
          window={view}
          onWindow={onWindow}
          selected={task?.index ?? null}
          onSelect={(index) => setTaskText(index === null ? "" : String(index))}
          shown={ALL}
          weight={null}
          memoryRank={fullest}
          memoryLimit={fitLimit(plan.estimate)}
          label={name}
          describedBy={helpId}
        />
      </div>
      <Text size="sm" c="dimmed" role="status">
        {task && sentence(task)}
      </Text>
    </div>
  );
}
