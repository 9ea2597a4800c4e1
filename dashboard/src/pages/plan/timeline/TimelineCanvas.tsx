import { useEffect, useImperativeHandle, useMemo, useRef, useState, type Ref, type RefObject } from "react";
import { useTranslation } from "../../../i18n";

import { onSurface, pngOf, type Picture } from "../../../components/chart/picture";
import { css } from "../../../theme/color";
import { usePrinting } from "../../../theme/printing";
import { usePalette } from "../../../theme/usePalette";
import { bytes, percent, seconds } from "../../../units/format";
import { Controls } from "./controls";
import type { Look } from "./draw";
import { mostHeight, type Hit, type Shown } from "./layout";
import { inkOn, kindColor, timePoint } from "./look";
import type { Weight, Window } from "./paint";
import { timelineLines, timelineSvg } from "./saved";
import { taskAt, type Timeline } from "./tasks";
import classes from "./Timeline.module.css";

export interface TimelineHandle {
  zoomBy: (factor: number) => void;
  zoomToSelected: () => void;
  picture: Picture;
}

/** What a handle will draw when it is asked. */
export function pictureOf(handle: RefObject<TimelineHandle | null>): Picture {
  const drawn = (): Picture => {
    if (!handle.current) throw new Error("the timeline has gone");
    return handle.current.picture;
  };
  return { png: () => drawn().png(), svg: () => drawn().svg(), numbers: () => drawn().numbers() };
}

interface Props {
  timeline: Timeline;
  /** Null: the whole step. */
  window: Window | null;
  onWindow: (window: Window) => void;
  selected: number | null;
  onSelect: (task: number | null, byKeyboard: boolean) => void;
  shown: Shown;
  weight: Weight | null;
  memoryRank: number | null;
  memoryLimit: number;
  label: string;
  describedBy: string;
  ref: Ref<TimelineHandle>;
}

/** The picture: pans, zooms, and tells what is under the pointer. */
export function TimelineCanvas(props: Props) {
  const { timeline, window, selected, shown, weight, memoryRank, memoryLimit } = props;
  const { t, i18n } = useTranslation("plan");
  const palette = usePalette();
  const isPrinting = usePrinting();
  const canvas = useRef<HTMLCanvasElement>(null);
  const controls = useRef<Controls | null>(null);
  const latest = useRef(props);
  const [hover, setHover] = useState<{ hit: Hit; x: number; y: number } | null>(null);
  const count = useRef<HTMLSpanElement>(null);
  const { numTasks } = timeline;
  const maxHeight = useMemo(() => mostHeight(timeline, shown), [timeline, shown]);

  useEffect(() => {
    latest.current = props;
  });

  const look = useMemo<Look>(() => {
    const colors = timeline.document.kinds.map((kind) => kindColor(palette, kind));
    return {
      palette,
      track: `${palette.text}14`,
      colors,
      inks: colors.map(inkOn),
      family: getComputedStyle(document.body).fontFamily,
      words: {
        rank: (rank) => t("timeline.rank", { rank }),
        bubble: (idle) => t("timeline.bubble", { share: percent(idle / timeline.stepS, 0) }),
        tick: timePoint,
        bytes: (value) => bytes(value),
        memoryOf: (rank) => t("timeline.memoryOf", { rank }),
        limit: t("memory.limit", { bytes: bytes(memoryLimit) }),
      },
    };
    // The words change with the language.
  }, [palette, timeline, memoryLimit, t, i18n.language]);

  useEffect(() => {
    if (!canvas.current) return undefined;
    const created = new Controls(
      canvas.current,
      timeline,
      {
        onWindow: (next) => latest.current.onWindow(next),
        onSelect: (task, byKeyboard) => latest.current.onSelect(task, byKeyboard),
        onHover: (hit, x, y) => setHover((before) => (hit ? { hit, x, y } : before && null)),
        onCount: (inView) => {
          if (count.current) count.current.textContent = t("timeline.inView", { shown: inView, count: numTasks });
        },
      },
      latest.current.window,
    );
    controls.current = created;
    return () => {
      created.dispose();
      controls.current = null;
    };
  }, [timeline, numTasks, t]);

  useEffect(() => controls.current?.setLook(look, memoryLimit), [look, memoryLimit, timeline]);
  useEffect(() => controls.current?.setShown(shown), [shown, timeline, t]);
  useEffect(() => controls.current?.setWindow(window), [window, timeline]);
  useEffect(() => controls.current?.setFocus(selected, weight, memoryRank), [selected, weight, memoryRank, timeline, t]);
  useEffect(() => controls.current?.drawAtOnce(), [isPrinting]);
  useImperativeHandle(props.ref, () => ({
    zoomBy: (factor) => controls.current?.zoomBy(factor),
    zoomToSelected: () => controls.current?.zoomToSelected(),
    picture: {
      png: () => pngOf(onSurface(canvas.current, palette.surface)),
      svg: () => Promise.resolve(timelineSvg(timeline, window ?? { startS: 0, endS: timeline.stepS }, shown, look)),
      numbers: () => timelineLines(timeline, window ?? { startS: 0, endS: timeline.stepS }, shown),
    },
  }));

  return (
    <div className={classes.stage}>
      <canvas
        ref={canvas}
        className={classes.canvas}
        style={{ maxHeight }}
        tabIndex={0}
        role="application"
        aria-label={props.label}
        aria-describedby={props.describedBy}
        data-testid="timeline"
      />
      {hover && <HoverCard timeline={timeline} {...hover} />}
      <span className={classes.count} ref={count} />
    </div>
  );
}

const CARD_PX = 250;

function HoverCard({ timeline, hit, x, y }: { timeline: Timeline; hit: Hit; x: number; y: number }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const task = taskAt(timeline, hit.task);
  const place = useRef<HTMLDivElement>(null);
  if (!task) return null;
  const width = place.current?.parentElement?.clientWidth ?? 1e4;
  const left = x + 16 + CARD_PX > width ? Math.max(x - 16 - CARD_PX, 0) : x + 16;
  const parts = [
    t("timeline.rank", { rank: task.rank }),
    task.microBatch === null ? null : t("timeline.microBatch", { number: task.microBatch }),
    task.chunk === null ? null : t("timeline.chunk", { number: task.chunk }),
  ].filter(Boolean);
  return (
    <div ref={place} className={classes.hover} style={{ left, top: y + 18, width: CARD_PX }} aria-hidden>
      <div className={classes.hoverTitle}>
        <span className={classes.swatch} style={{ background: css(kindColor(palette, task.kind)) }} />
        {t(`kind.${task.kind}`, { defaultValue: task.kind })}
        <span className="number">{seconds(task.endS - task.startS)}</span>
      </div>
      <div>{parts.join(" · ")}</div>
      <div className="number">{t("timeline.fromTo", { from: seconds(task.startS, 5), to: seconds(task.endS, 5) })}</div>
      {hit.count > 1 && <div>{t("timeline.shared", { count: hit.count })}</div>}
    </div>
  );
}
