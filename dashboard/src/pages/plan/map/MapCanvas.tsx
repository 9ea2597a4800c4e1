import { useElementSize } from "@mantine/hooks";
import { useContext, useEffect, useMemo, useRef, type KeyboardEvent, type PointerEvent } from "react";

import { onSurface, PictureOf, pngOf } from "../../../components/chart/picture";
import { usePalette } from "../../../theme/usePalette";
import type { Analysis } from "../data";
import { cellBoxes, frames, mapSvg, paintBoxes, paintMap, type Box } from "./draw";
import { deviceLines, membersOf, type Placed } from "./groups";
import { arrangeMap, cellAfter, cellUnder, type MapLayout } from "./layout";
import classes from "./Map.module.css";

const RATIO = 2; // pixels of the canvas for one of the page: sharp everywhere, and as a saved picture

export interface Marked {
  group: Placed;
  color: string;
}

interface Props {
  analysis: Analysis;
  devices: number;
  /** Whose position gives a cell its colour. */
  by: Placed;
  /** Groups of the rank that are framed, each in its colour. */
  marked: readonly Marked[];
  /** What the reader looks at: pointed to, or else chosen. */
  rank: number | null;
  chosen: number | null;
  onPoint: (rank: number | null) => void;
  onChoose: (rank: number | null, byKeyboard: boolean) => void;
  /** Told once it is known how many devices share a cell. */
  onScale: (perCell: number) => void;
  label: string;
  describedBy: string;
}

/** The cells: pointed to, chosen with a click or the keys. */
export function MapCanvas({ analysis, devices, by, marked, rank, chosen, onPoint, onChoose, onScale, label, describedBy }: Props) {
  const palette = usePalette();
  const { ref, width } = useElementSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const setPicture = useContext(PictureOf);
  const { devices_per_node: perNode, tiers, placement } = analysis;
  const layout = useMemo(
    () => (width > 0 ? arrangeMap(devices, perNode, tiers.map(({ domain_devices: held }) => held), width) : null),
    [devices, perNode, tiers, width],
  );
  const boxes = useMemo(() => layout && cellBoxes(layout, by, devices, palette), [layout, by, devices, palette]);
  const cells = useMemo(() => layout && boxes && drawn(layout, width, boxes), [layout, width, boxes]);
  const marks = useMemo<Box[]>(() => {
    if (!layout || rank === null) return [];
    const own = frames(layout, [rank], palette.text);
    const largestFirst = [...marked].sort((a, b) => b.group.size - a.group.size);
    return [...largestFirst.flatMap(({ group, color }) => frames(layout, membersOf(group, rank), color)), ...own];
  }, [layout, rank, marked, palette]);

  useEffect(() => {
    if (layout) onScale(layout.perCell);
  }, [layout, onScale]);

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context && layout && cells) paintMap(context, cells, RATIO, layout, marks);
  }, [layout, cells, marks]);

  useEffect(() => {
    if (!layout || !boxes) return undefined;
    setPicture?.({
      png: () => pngOf(onSurface(canvas.current, palette.surface)),
      svg: () => Promise.resolve(mapSvg(layout, width, boxes, marks, palette)),
      numbers: () => deviceLines(placement, devices, perNode),
    });
    return () => setPicture?.(null);
  }, [setPicture, layout, width, boxes, marks, palette, placement, devices, perNode]);

  const at = ({ nativeEvent: { offsetX, offsetY } }: PointerEvent) => {
    const cell = layout && cellUnder(layout, offsetX, offsetY);
    return cell === null || !layout ? null : cell * layout.perCell;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!layout || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") onChoose(null, true);
    const next = chosen === null && event.key.startsWith("Arrow") ? 0 : cellAfter(layout, Math.floor((chosen ?? 0) / layout.perCell), event.key);
    if (next === null) return;
    event.preventDefault();
    onChoose(next * layout.perCell, true);
  };
  return (
    <div ref={ref} className={classes.stage}>
      {layout && (
        <canvas
          ref={canvas}
          className={classes.canvas}
          width={width * RATIO}
          height={layout.height * RATIO}
          style={{ height: layout.height }}
          tabIndex={0}
          role="application"
          aria-label={label}
          aria-describedby={describedBy}
          data-testid="placement-map"
          data-cells={layout.cells}
          onPointerMove={(event) => onPoint(at(event))}
          onPointerLeave={() => onPoint(null)}
          onClick={(event) => onChoose(at(event as unknown as PointerEvent), false)}
          onKeyDown={onKeyDown}
        />
      )}
    </div>
  );
}

function drawn({ height }: MapLayout, width: number, boxes: readonly Box[]): HTMLCanvasElement {
  const whole = Object.assign(document.createElement("canvas"), { width: width * RATIO, height: height * RATIO });
  const context = whole.getContext("2d");
  context?.scale(RATIO, RATIO);
  if (context) paintBoxes(context, boxes);
  return whole;
}
