/** Zoom of a chart with two axes of numbers: dragging chooses a rectangle, a double click shows all again. */
import type { ECharts } from "./echarts";

const LEAST_PX = 8; // a shorter drag is a click

export interface Range {
  x: [number, number];
  y: [number, number];
}

interface At {
  offsetX: number;
  offsetY: number;
}

/** The values between two corners; null where they are no rectangle. */
export function rangeOf(from: readonly number[], to: readonly number[]): Range | null {
  const [x1, y1, x2, y2] = [from[0], from[1], to[0], to[1]];
  if (x1 === undefined || y1 === undefined || x2 === undefined || y2 === undefined || x1 === x2 || y1 === y2) return null;
  return { x: [Math.min(x1, x2), Math.max(x1, x2)], y: [Math.min(y1, y2), Math.max(y1, y2)] };
}

/** Calls `onZoom` with what the reader drags over, `null` after a double click; draws the frame into `frame`. Returns what ends it. */
export function followDrags(chart: ECharts, frame: HTMLElement, onZoom: (range: Range | null) => void): () => void {
  const canvas = chart.getZr();
  const inGrid = ({ offsetX, offsetY }: At) => chart.containPixel({ gridIndex: 0 }, [offsetX, offsetY]);
  let from: At | null = null;
  const down = (event: At) => {
    from = inGrid(event) ? { offsetX: event.offsetX, offsetY: event.offsetY } : null;
  };
  const move = (event: At) => {
    if (!from) return;
    Object.assign(frame.style, {
      display: "block",
      left: `${Math.min(from.offsetX, event.offsetX)}px`,
      top: `${Math.min(from.offsetY, event.offsetY)}px`,
      width: `${Math.abs(from.offsetX - event.offsetX)}px`,
      height: `${Math.abs(from.offsetY - event.offsetY)}px`,
    });
  };
  const up = (event: At) => {
    const start = from;
    from = null;
    frame.style.display = "none";
    if (!start || Math.abs(start.offsetX - event.offsetX) < LEAST_PX || Math.abs(start.offsetY - event.offsetY) < LEAST_PX) return;
    const valueAt = ({ offsetX, offsetY }: At) => chart.convertFromPixel({ gridIndex: 0 }, [offsetX, offsetY]);
    const range = rangeOf(valueAt(start), valueAt(event));
    if (range) onZoom(range);
  };
  const all = () => onZoom(null);
  const leave = () => {
    from = null;
    frame.style.display = "none";
  };
  const handlers = { mousedown: down, mousemove: move, mouseup: up, dblclick: all, globalout: leave } as const;
  for (const [event, handler] of Object.entries(handlers)) canvas.on(event, handler as never);
  return () => {
    if (!chart.isDisposed()) for (const [event, handler] of Object.entries(handlers)) canvas.off(event, handler as never);
  };
}
