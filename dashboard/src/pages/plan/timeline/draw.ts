/** Draws the picture. Everything visible is drawn anew in each frame; only the overview is kept. */
import type { Rgb } from "../../../theme/color";
import type { Palette } from "../../../theme/palette";
import { AXIS_PX, MEMORY_PX, OVERVIEW_PX, ticks, xAt, type Layout, type Row } from "./layout";
import { Line, type Weight, type Window } from "./paint";
import { firstAfter, highest, type Timeline } from "./tasks";

export interface Words {
  rank: (rank: number) => string;
  bubble: (seconds: number) => string;
  tick: (timeS: number, stepS: number, axisS?: number) => string;
  bytes: (value: number) => string;
  memoryOf: (rank: number) => string;
  limit: string;
}

export interface Look {
  palette: Palette;
  track: string;
  colors: readonly Rgb[];
  /** Text on each colour. */
  inks: readonly string[];
  family: string;
  words: Words;
}

export interface Scene {
  timeline: Timeline;
  layout: Layout;
  window: Window;
  scrollTop: number;
  weight: Weight | null;
  selected: number | null;
  hovered: number | null;
  memoryRank: number | null;
  memoryLimit: number;
  pointerTime: number | null;
}

const MOST_LABELS = 900;
const LABEL_PX = 26;
const LABEL_HEIGHT_PX = 10;

export class Drawing {
  private readonly context: CanvasRenderingContext2D;
  private readonly rows = document.createElement("canvas");
  private readonly overview = document.createElement("canvas");
  private overviewKey: unknown[] = [];
  private line = new Line(1);
  private image: ImageData | null = null;
  /** Tasks in the window of the last frame. */
  drawn = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d", { alpha: true });
    if (!context) throw new Error("this browser draws no canvas");
    this.context = context;
  }

  draw(scene: Scene, look: Look): void {
    const { context, canvas } = this;
    const { layout } = scene;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(layout.width * ratio), Math.round(layout.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, layout.width, layout.height);
    context.textBaseline = "middle";
    this.drawOverview(scene, look, ratio);
    this.drawAxis(scene, look);
    this.drawRows(scene, look, ratio);
    if (layout.memoryTop !== null) this.drawMemory(scene, look, layout.memoryTop);
  }

  private font(look: Look, size: number, weight = 400): void {
    this.context.font = `${weight} ${size}px ${look.family}`;
  }

  /** All compute lanes of the step, and the window in them. */
  private drawOverview(scene: Scene, look: Look, ratio: number): void {
    const { context, overview } = this;
    const { layout, timeline, window, weight } = scene;
    const key = [timeline, look.colors, layout.plot, ratio, weight];
    if (key.some((part, index) => part !== this.overviewKey[index])) {
      this.overviewKey = key;
      const lanes = timeline.lanes.filter(({ stream, place }) => stream === timeline.lanes[0]?.stream && place === 0);
      [overview.width, overview.height] = [Math.round(layout.plot * ratio), Math.max(lanes.length, 1)];
      const inside = overview.getContext("2d");
      const image = new ImageData(overview.width, overview.height);
      const line = new Line(overview.width);
      const whole = { startS: 0, endS: timeline.stepS };
      lanes.forEach((lane, row) => line.paint(lane, whole, look.colors, weight, image.data, row * overview.width * 4));
      inside?.putImageData(image, 0, 0);
    }
    context.fillStyle = look.track;
    context.fillRect(layout.gutter, 0, layout.plot, OVERVIEW_PX);
    context.imageSmoothingEnabled = true;
    context.drawImage(overview, layout.gutter, 1, layout.plot, OVERVIEW_PX - 2);
    const whole = { startS: 0, endS: timeline.stepS };
    const [from, to] = [xAt(layout, whole, window.startS), xAt(layout, whole, window.endS)];
    context.fillStyle = look.palette.surface;
    context.globalAlpha = 0.72;
    context.fillRect(layout.gutter, 0, from - layout.gutter, OVERVIEW_PX);
    context.fillRect(to, 0, layout.width - to, OVERVIEW_PX);
    context.globalAlpha = 1;
    context.strokeStyle = look.palette.text;
    context.lineWidth = 1.5;
    context.strokeRect(from + 0.75, 0.75, Math.max(to - from - 1.5, 2), OVERVIEW_PX - 1.5);
    this.font(look, 11);
    context.fillStyle = look.palette.muted;
    context.textAlign = "right";
    context.fillText(look.words.tick(timeline.stepS, timeline.stepS / 1000, timeline.stepS), layout.gutter - 8, OVERVIEW_PX / 2);
  }

  private drawAxis({ layout, window, pointerTime }: Scene, look: Look): void {
    const { context } = this;
    const top = layout.rowsTop - AXIS_PX;
    const { stepS, times } = ticks(window, layout.plot / 110);
    this.font(look, 11);
    context.textAlign = "left";
    context.strokeStyle = look.palette.grid;
    context.lineWidth = 1;
    for (const time of times) {
      const x = Math.round(xAt(layout, window, time)) + 0.5;
      context.beginPath();
      context.moveTo(x, top + 6);
      context.lineTo(x, layout.memoryTop === null ? layout.height : layout.memoryTop + MEMORY_PX);
      context.stroke();
      const text = look.words.tick(time, stepS);
      if (x + 4 + context.measureText(text).width > layout.width) continue;
      context.fillStyle = look.palette.muted;
      context.fillText(text, x + 4, top + AXIS_PX / 2);
    }
    if (pointerTime === null) return;
    const x = xAt(layout, window, pointerTime);
    const text = look.words.tick(pointerTime, stepS / 100, stepS);
    const width = context.measureText(text).width + 10;
    const left = Math.min(Math.max(x - width / 2, layout.gutter), layout.width - width);
    context.fillStyle = look.palette.text;
    context.beginPath();
    context.roundRect(left, top + 3, width, AXIS_PX - 6, 4);
    context.fill();
    context.fillStyle = look.palette.surface;
    context.fillText(text, left + 5, top + AXIS_PX / 2);
  }

  private drawRows(scene: Scene, look: Look, ratio: number): void {
    const { context } = this;
    const { layout, scrollTop, window } = scene;
    const visible = layout.blocks.filter(({ top, height }) => top + height > scrollTop && top < scrollTop + layout.rowsHeight);
    const rows = visible.flatMap((block) => block.rows);
    context.save();
    context.beginPath();
    context.rect(0, layout.rowsTop, layout.width, layout.rowsHeight);
    context.clip();
    context.translate(0, layout.rowsTop - scrollTop);

    for (const { rank, top, height } of visible) {
      this.font(look, 12, 500);
      context.textAlign = "left";
      context.fillStyle = look.palette.text;
      const isTall = height >= 28;
      const middle = top + (isTall ? Math.min(height / 2, 22) - 6 : height / 2);
      context.fillText(look.words.rank(rank), 4, middle);
      if (layout.gutter < 100) continue;
      this.font(look, 11);
      context.fillStyle = look.palette.muted;
      const bubble = look.words.bubble(scene.timeline.document.bubble_s[rank] ?? 0);
      if (isTall) context.fillText(bubble, 4, middle + 13);
      else {
        context.textAlign = "right";
        context.fillText(bubble, layout.gutter - 8, middle);
      }
    }

    context.fillStyle = look.track;
    for (const { top, height } of rows) context.fillRect(layout.gutter, top, layout.plot, height);
    this.drawLanes(rows, scene, look, ratio);
    this.drawLabels(rows, scene, look);
    this.outline(scene.hovered, scene, look, 1);
    this.outline(scene.selected, scene, look, 2);
    context.restore();

    if (scene.pointerTime !== null) {
      const x = Math.round(xAt(layout, window, scene.pointerTime)) + 0.5;
      context.strokeStyle = look.palette.muted;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, layout.rowsTop);
      context.lineTo(x, layout.height);
      context.stroke();
    }
    const overflow = layout.contentHeight - layout.rowsHeight;
    if (overflow > 0) {
      const size = (layout.rowsHeight * layout.rowsHeight) / layout.contentHeight;
      context.fillStyle = look.palette.muted;
      context.globalAlpha = 0.6;
      context.beginPath();
      context.roundRect(layout.width - 5, layout.rowsTop + (scrollTop / overflow) * (layout.rowsHeight - size), 4, size, 2);
      context.fill();
      context.globalAlpha = 1;
    }
  }

  /** Lanes as lines of one pixel in a canvas of their own, each drawn as high as its row. */
  private drawLanes(rows: readonly Row[], scene: Scene, look: Look, ratio: number): void {
    const { layout, window, weight } = scene;
    const width = Math.max(Math.round(layout.plot * ratio), 1);
    const count = Math.max(rows.length, 1);
    if (this.line.width !== width) this.line = new Line(width);
    if (!this.image || this.image.width !== width || this.image.height !== count) {
      this.image = new ImageData(width, count);
      [this.rows.width, this.rows.height] = [width, count];
    }
    const { data } = this.image;
    this.drawn = 0;
    rows.forEach(({ lane }, row) => (this.drawn += this.line.paint(lane, window, look.colors, weight, data, row * width * 4)));
    this.rows.getContext("2d")?.putImageData(this.image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    rows.forEach(({ top, height }, row) =>
      this.context.drawImage(this.rows, 0, row, width, 1, layout.gutter, top, layout.plot, height),
    );
  }

  /** Micro batches on tasks that have room for them. */
  private drawLabels(rows: readonly Row[], scene: Scene, look: Look): void {
    const { context } = this;
    const { layout, window, timeline, weight } = scene;
    const pixelsPerS = layout.plot / (window.endS - window.startS);
    const batches = timeline.document.tasks.micro_batch;
    context.textAlign = "center";
    let left = MOST_LABELS;
    for (const { lane, top, height } of rows) {
      if (height < LABEL_HEIGHT_PX) continue;
      this.font(look, Math.min(height - 1, 11), 500);
      for (let position = firstAfter(lane, window.startS); position < lane.start.length && left > 0; position++) {
        const start = lane.start[position] ?? 0;
        if (start > window.endS) break;
        const from = Math.max((start - window.startS) * pixelsPerS, 0);
        const to = Math.min(((lane.end[position] ?? 0) - window.startS) * pixelsPerS, layout.plot);
        const task = lane.tasks[position] ?? 0;
        const batch = batches[task];
        if (to - from < LABEL_PX || batch == null || batch < 0 || (weight && weight(task) < 1)) continue;
        context.fillStyle = look.inks[lane.kind[position] ?? 0] ?? look.palette.text;
        context.fillText(String(batch), layout.gutter + (from + to) / 2, top + height / 2 + 0.5);
        left--;
      }
    }
  }

  private outline(task: number | null, { timeline, layout, window }: Scene, look: Look, lineWidth: number): void {
    if (task === null) return;
    const laneIndex = timeline.laneOf[task];
    const row = layout.blocks.flatMap((block) => block.rows).find((candidate) => candidate.laneIndex === laneIndex);
    const position = timeline.positionOf[task] ?? 0;
    const [start, end] = [row?.lane.start[position], row?.lane.end[position]];
    if (!row || start === undefined || end === undefined || end < window.startS || start > window.endS) return;
    const from = Math.max(xAt(layout, window, start), layout.gutter - 2);
    const to = Math.min(xAt(layout, window, end), layout.width + 2);
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(layout.gutter, row.top - 4, layout.plot, row.height + 8);
    context.clip();
    context.strokeStyle = look.palette.text;
    context.lineWidth = lineWidth;
    context.strokeRect(from - 1, row.top - 1, Math.max(to - from + 1, 3), row.height + 2);
    context.restore();
  }

  /** The memory of one rank: the most in each pixel, so that no peak is lost. */
  private drawMemory(scene: Scene, look: Look, top: number): void {
    const { context } = this;
    const { layout, window, timeline, memoryRank, memoryLimit } = scene;
    const { memory } = timeline.document;
    const place = memoryRank === null ? -1 : memory.rank.indexOf(memoryRank);
    const [times, bytes] = [memory.time_s[place], memory.bytes[place]];
    context.fillStyle = look.track;
    context.fillRect(layout.gutter, top, layout.plot, MEMORY_PX);
    if (!times || !bytes || memoryRank === null) return;
    const most = Math.max(memoryLimit, highest(bytes)) * 1.06;
    const y = (value: number) => top + MEMORY_PX - (value / most) * MEMORY_PX;
    const columns = new Float64Array(Math.ceil(layout.plot)).fill(-1);
    const pixelsPerS = layout.plot / (window.endS - window.startS);
    times.forEach((time, index) => {
      const until = times[index + 1] ?? timeline.stepS;
      if (until < window.startS || time > window.endS) return;
      const from = Math.max(Math.floor((time - window.startS) * pixelsPerS), 0);
      const to = Math.min(Math.floor((until - window.startS) * pixelsPerS), columns.length - 1);
      for (let x = from; x <= to; x++) columns[x] = Math.max(columns[x] ?? -1, bytes[index] ?? 0);
    });
    const [r, g, b] = look.colors[0] ?? [0, 0, 0];
    const bottom = top + MEMORY_PX;
    context.beginPath();
    context.moveTo(layout.gutter, bottom);
    columns.forEach((value, x) => {
      const height = y(Math.max(value, 0));
      context.lineTo(layout.gutter + x, height);
      context.lineTo(layout.gutter + x + 1, height);
    });
    context.lineTo(layout.width, bottom);
    context.fillStyle = `rgb(${r} ${g} ${b} / 0.3)`;
    context.fill();
    context.strokeStyle = `rgb(${r} ${g} ${b})`;
    context.lineWidth = 1.5;
    context.stroke();

    context.strokeStyle = look.palette.bad;
    context.setLineDash([5, 4]);
    context.lineWidth = 1.2;
    context.beginPath();
    context.moveTo(layout.gutter, y(memoryLimit));
    context.lineTo(layout.width, y(memoryLimit));
    context.stroke();
    context.setLineDash([]);
    this.font(look, 11);
    context.textAlign = "left";
    context.fillStyle = look.palette.text;
    context.fillText(look.words.memoryOf(memoryRank), 4, top + 10, layout.gutter - 8);
    context.fillStyle = look.palette.muted;
    if (layout.gutter >= 100) context.fillText(look.words.bytes(highest(bytes)), 4, top + 25);
    context.fillStyle = look.palette.bad;
    context.textAlign = "right";
    // Beside a step that is much longer, a picture may be narrower than the word.
    if (context.measureText(look.words.limit).width + 8 <= layout.plot) context.fillText(look.words.limit, layout.width - 8, y(memoryLimit) + 9);
  }
}
