import { ActionIcon, Button, Card, Group, Kbd, MultiSelect, Popover, Stack, Switch, Text, Tooltip, UnstyledButton } from "@mantine/core";
import { IconFocusCentered, IconKeyboard, IconZoomIn, IconZoomOut, IconZoomReset } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useId, useMemo, useRef, useState } from "react";
import { useTranslation } from "../../../i18n";

import type { Plan } from "../../../api/queries";
import { CardHead } from "../../../components/CardHead";
import type { Picture } from "../../../components/chart/picture";
import { ErrorState } from "../../../components/ErrorState";
import { fitLimit } from "../../../components/fitLimit";
import { LoadingRows } from "../../../components/Loading";
import { SaveMenu } from "../../../components/SaveMenu";
import { useUrlChange, useUrlList, useUrlText } from "../../../state/url";
import { css } from "../../../theme/color";
import { usePalette } from "../../../theme/usePalette";
import { count, percent, seconds } from "../../../units/format";
import { timelineQuery } from "../data";
import { kindColor } from "./look";
import type { Window } from "./paint";
import { RankTable } from "./RankTable";
import { arranged, fullestRank, kindTotals, taskAt, type Timeline } from "./tasks";
import { TaskDetail } from "./TaskDetail";
import { pictureOf, TimelineCanvas, type TimelineHandle } from "./TimelineCanvas";
import { useTaskSentence } from "./useTaskSentence";
import classes from "./Timeline.module.css";

const DIMMED = 0.2;

export function TimelineTab({ studyId, plan }: { studyId: string; plan: Plan }) {
  const { t } = useTranslation("plan");
  const { data, error, isPending, refetch } = useQuery(timelineQuery(studyId, plan.plan_id));
  const timeline = useMemo(() => data && arranged(data), [data]);
  if (isPending) return <LoadingRows rows={12} />;
  if (error)
    return <ErrorState error={error} action={<Button variant="default" onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />;
  return timeline && <TimelineView plan={plan} timeline={timeline} />;
}

function parsedWindow(text: string): Window | null {
  const [startS, endS] = text.split(",").map(Number);
  return startS !== undefined && endS !== undefined && endS > startS && startS >= 0 ? { startS, endS } : null;
}

const digits = (value: number, step: number): string => value.toFixed(Math.min(12, Math.max(0, Math.ceil(-Math.log10(step)) + 4)));

function TimelineView({ plan, timeline }: { plan: Plan; timeline: Timeline }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const change = useUrlChange();
  const [windowText] = useUrlText("window");
  const [taskText, setTaskText] = useUrlText("task");
  const [ranks, setRanks] = useUrlList("ranks");
  const [streams, setStreams] = useUrlList("streams");
  const [kindName, setKindName] = useUrlText("kind");
  const [follow, setFollow] = useUrlText("follow", "on");
  const [said, setSaid] = useState("");
  const sentence = useTaskSentence();
  const handle = useRef<TimelineHandle>(null);
  // Asked for when a file is wanted: the picture is that of this moment.
  const picture = useMemo<Picture>(() => pictureOf(handle), []);
  const helpId = useId();
  const { document } = timeline;

  const view = useMemo(() => parsedWindow(windowText), [windowText]);
  const selected = /^\d+$/.test(taskText) && Number(taskText) < timeline.numTasks ? Number(taskText) : null;
  const task = selected === null ? null : taskAt(timeline, selected);
  const microBatch = follow === "on" ? (task?.microBatch ?? null) : null;
  const kind = document.kinds.indexOf(kindName);
  const totals = useMemo(() => kindTotals(timeline), [timeline]);
  const sharesOf = (isCompute: boolean) =>
    percent([...totals.values()].reduce((sum, kind) => sum + (kind.isCompute === isCompute ? kind.seconds : 0), 0) / (timeline.stepS * document.num_ranks));
  const used = useMemo(
    () => [...new Set(timeline.lanes.map(({ stream }) => stream))].map((stream) => document.streams[stream] ?? "").filter(Boolean),
    [timeline, document],
  );
  const shown = useMemo(
    () => ({
      ranks: ranks.length ? new Set(ranks.map(Number)) : null,
      streams: streams.length ? new Set(streams.map((name) => document.streams.indexOf(name))) : null,
    }),
    [ranks, streams, document],
  );
  const weight = useMemo(() => {
    if (microBatch === null && kind < 0) return null;
    const { kind: kinds, micro_batch: batches } = document.tasks;
    return (index: number) => ((kind < 0 || kinds[index] === kind) && (microBatch === null || batches[index] === microBatch) ? 1 : DIMMED);
  }, [document, kind, microBatch]);
  const fullest = useMemo(() => fullestRank(document.memory), [document]);

  const onWindow = useCallback(
    ({ startS, endS }: Window) => {
      const isWhole = startS <= 0 && endS >= timeline.stepS * (1 - 1e-9);
      change({ window: isWhole ? null : `${digits(startS, endS - startS)},${digits(endS, endS - startS)}` });
    },
    [change, timeline],
  );
  const onSelect = useCallback(
    (index: number | null, byKeyboard: boolean) => {
      setTaskText(index === null ? "" : String(index));
      const chosen = index === null || !byKeyboard ? null : taskAt(timeline, index);
      if (chosen) setSaid(sentence(chosen));
    },
    [setTaskText, timeline, sentence],
  );

  const label = t("timeline.label", { ranks: document.num_ranks, tasks: count(timeline.numTasks), step: seconds(timeline.stepS) });
  return (
    <Stack gap="md">
      <Card>
        <CardHead title={t("timeline.title")}>
          <Group gap={4}>
            <IconAction label={t("timeline.zoomIn")} icon={IconZoomIn} onClick={() => handle.current?.zoomBy(1 / 1.6)} />
            <IconAction label={t("timeline.zoomOut")} icon={IconZoomOut} onClick={() => handle.current?.zoomBy(1.6)} />
            <IconAction label={t("timeline.whole")} icon={IconZoomReset} onClick={() => change({ window: null })} />
            <IconAction label={t("timeline.toTask")} icon={IconFocusCentered} onClick={() => handle.current?.zoomToSelected()} disabled={!task} />
            <SaveMenu title={t("timeline.title")} picture={picture} size={34} />
            <KeyHelp id={helpId} />
          </Group>
        </CardHead>
        <Group gap="sm" mb="xs" align="flex-end">
          <MultiSelect
            size="xs"
            w={220}
            label={t("timeline.ranks")}
            placeholder={ranks.length ? "" : t("timeline.allRanks", { count: document.num_ranks })}
            data={Array.from({ length: document.num_ranks }, (_, rank) => ({ value: String(rank), label: t("timeline.rank", { rank }) }))}
            value={[...ranks]}
            onChange={setRanks}
            searchable
            clearable
          />
          <MultiSelect
            size="xs"
            w={220}
            label={t("timeline.streams")}
            placeholder={streams.length ? "" : t("timeline.allStreams")}
            data={used.map((name) => ({ value: name, label: t(`stream.${name}`, { defaultValue: name }) }))}
            value={streams.filter((name) => used.includes(name))}
            onChange={setStreams}
            clearable
          />
          <Switch
            mb={6}
            size="sm"
            checked={follow === "on"}
            onChange={(event) => setFollow(event.currentTarget.checked ? "on" : "off")}
            label={t("timeline.follow")}
          />
        </Group>
        <div className={classes.legend} role="group" aria-label={t("timeline.kinds")}>
          {document.kinds.map((name, index) => {
            const total = totals.get(index);
            if (!total) return null;
            const isOn = kind === index;
            return (
              <UnstyledButton
                key={name}
                className={classes.kind}
                aria-pressed={isOn}
                data-faint={kind >= 0 && !isOn}
                onClick={() => setKindName(isOn ? "" : name)}
              >
                <span className={classes.swatch} style={{ background: css(kindColor(palette, name)) }} />
                {t(`kind.${name}`, { defaultValue: name })}
                <Text span size="xs" c="dimmed" className="number">
                  {percent(total.seconds / (timeline.stepS * document.num_ranks))}
                </Text>
              </UnstyledButton>
            );
          })}
        </div>
        <Text size="xs" c="dimmed" mb="xs">
          {t("timeline.kindsNote", { compute: sharesOf(true), others: sharesOf(false) })}
        </Text>
        <TimelineCanvas
          ref={handle}
          timeline={timeline}
          window={view}
          onWindow={onWindow}
          selected={selected}
          onSelect={onSelect}
          shown={shown}
          weight={weight}
          memoryRank={task?.rank ?? fullest}
          memoryLimit={fitLimit(plan.estimate)}
          label={label}
          describedBy={helpId}
        />
        <div className="visually-hidden" role="status">
          {said}
        </div>
      </Card>
      <TaskDetail timeline={timeline} task={task} onSelect={onSelect} />
      <RankTable timeline={timeline} />
    </Stack>
  );
}

interface ActionProps {
  label: string;
  icon: typeof IconZoomIn;
  onClick: () => void;
  disabled?: boolean;
}

function IconAction({ label, icon: Icon, onClick, disabled = false }: ActionProps) {
  return (
    <Tooltip label={label}>
      <ActionIcon variant="default" size={34} aria-label={label} onClick={onClick} disabled={disabled}>
        <Icon size={16} stroke={1.6} />
      </ActionIcon>
    </Tooltip>
  );
}

const KEYS = [
  [["W", "S"], "zoom"],
  [["A", "D"], "pan"],
  [["←", "→"], "neighbour"],
  [["↑", "↓"], "lane"],
  [["Home", "End"], "ends"],
  [["F"], "toTask"],
  [["0"], "whole"],
  [["Esc"], "clear"],
] as const;
const GESTURES = ["wheel", "drag", "shiftDrag", "shiftWheel"] as const;

function KeyHelp({ id }: { id: string }) {
  const { t } = useTranslation("plan");
  return (
    <>
      <span id={id} className="visually-hidden">
        {t("timeline.help")}
      </span>
      <Popover position="bottom-end" withArrow trapFocus>
        <Popover.Target>
          <ActionIcon variant="default" size={34} aria-label={t("timeline.controls")}>
            <IconKeyboard size={16} stroke={1.6} />
          </ActionIcon>
        </Popover.Target>
        <Popover.Dropdown tabIndex={-1}>
          <dl className={classes.keys}>
            {KEYS.map(([names, name]) => (
              <KeyRow key={name} text={t(`timeline.key.${name}`)}>
                {names.map((each) => (
                  <Kbd key={each} mr={4} size="xs">
                    {each}
                  </Kbd>
                ))}
              </KeyRow>
            ))}
            {GESTURES.map((name) => (
              <KeyRow key={name} text={t(`timeline.key.${name}`)}>
                {t(`timeline.gesture.${name}`)}
              </KeyRow>
            ))}
          </dl>
        </Popover.Dropdown>
      </Popover>
    </>
  );
}

function KeyRow({ children, text }: { children: React.ReactNode; text: string }) {
  return (
    <>
      <dt>{children}</dt>
      <dd>{text}</dd>
    </>
  );
}
