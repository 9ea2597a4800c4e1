/**
 * One lane as one line of pixels. Every task leaves its colour on every pixel that it touches: where several share a pixel
 * their colours mix by time, and a task far narrower than a pixel still shows at `FAINTEST`. Cost: the tasks in the window
 * plus the pixels of the line, however the tasks are spread.
 */
import type { Rgb } from "../../../theme/color";
import { firstAfter, type Lane } from "./tasks";

export interface Window {
  startS: number;
  endS: number;
}

/** How a task stands out: 1 as usual, less where the reader looks at others. */
export type Weight = (task: number) => number;

const FAINTEST = 0.55;
/** From this width tasks are set on whole pixels, with one pixel of ground after each: neighbours of one kind stay apart. */
export const SEPARATED_PX = 4;

/** Sums of one line, kept between calls. */
export class Line {
  private readonly red: Float32Array;
  private readonly green: Float32Array;
  private readonly blue: Float32Array;
  private readonly covered: Float32Array;
  private readonly strongest: Float32Array;

  constructor(readonly width: number) {
    this.red = new Float32Array(width);
    this.green = new Float32Array(width);
    this.blue = new Float32Array(width);
    this.covered = new Float32Array(width);
    this.strongest = new Float32Array(width);
  }

  /** Paints the tasks of a window into `out` (RGBA, from `offset`). Returns how many there are. */
  paint(lane: Lane, window: Window, colors: readonly Rgb[], weight: Weight | null, out: Uint8ClampedArray, offset: number): number {
    const { width } = this;
    for (const sums of [this.red, this.green, this.blue, this.covered, this.strongest]) sums.fill(0);
    const pixelsPerS = width / (window.endS - window.startS);
    const { start, end, kind, tasks } = lane;
    const first = firstAfter(lane, window.startS);
    let position = first;
    for (; position < start.length; position++) {
      const from = ((start[position] ?? 0) - window.startS) * pixelsPerS;
      if (from >= width) break;
      const to = ((end[position] ?? 0) - window.startS) * pixelsPerS;
      const color = colors[kind[position] ?? 0];
      if (color) this.add(from, to, color, weight ? weight(tasks[position] ?? 0) : 1);
    }
    for (let x = 0, place = offset; x < width; x++, place += 4) {
      const covered = this.covered[x] ?? 0;
      if (covered === 0) {
        out[place + 3] = 0;
        continue;
      }
      out[place] = (this.red[x] ?? 0) / covered;
      out[place + 1] = (this.green[x] ?? 0) / covered;
      out[place + 2] = (this.blue[x] ?? 0) / covered;
      out[place + 3] = 255 * (this.strongest[x] ?? 0) * Math.min(1, Math.max(FAINTEST, covered));
    }
    return position - first;
  }

  private add(from: number, to: number, color: Rgb, weight: number): void {
    const { width } = this;
    if (to - from >= SEPARATED_PX) {
      const last = Math.min(Math.round(to) - 1, width);
      for (let x = Math.max(Math.round(from), 0); x < last; x++) this.cover(x, 1, color, weight);
      return;
    }
    const left = Math.max(from, 0);
    const right = Math.min(to, width);
    const lastPixel = Math.min(Math.floor(right), width - 1);
    for (let x = Math.floor(left); x <= lastPixel; x++) {
      const part = Math.min(right, x + 1) - Math.max(left, x);
      // What only touches a pixel's edge belongs to its neighbour, unless it has no length at all.
      if (part > 0 || right <= left) this.cover(x, Math.max(part, 1e-6), color, weight);
    }
  }

  private cover(x: number, part: number, [r, g, b]: Rgb, weight: number): void {
    this.red[x] = (this.red[x] ?? 0) + part * r;
    this.green[x] = (this.green[x] ?? 0) + part * g;
    this.blue[x] = (this.blue[x] ?? 0) + part * b;
    this.covered[x] = (this.covered[x] ?? 0) + part;
    if (weight > (this.strongest[x] ?? 0)) this.strongest[x] = weight;
  }
}
