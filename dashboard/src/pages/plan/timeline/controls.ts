/** What mouse, touch and keyboard do to the picture. Lives outside React: moving it renders nothing but the canvas. */
import { Drawing, type Look, type Scene } from "./draw";
import { arrange, clamped, maxScroll, OVERVIEW_PX, taskUnder, timeAt, xAt, zoomed, type Hit, type Layout, type Shown } from "./layout";
import type { Weight, Window } from "./paint";
import type { Timeline } from "./tasks";

export interface Callbacks {
  /** The window has changed; called once the reader pauses. */
  onWindow: (window: Window) => void;
  onSelect: (task: number | null, byKeyboard: boolean) => void;
  onHover: (hit: Hit | null, x: number, y: number) => void;
  onCount: (inView: number) => void;
}

const KEYS_TO_MOVE: Record<string, readonly [zoom: number, pan: number]> = { w: [-1, 0], s: [1, 0], a: [0, -1], d: [0, 1] };
const ZOOM_PER_S = 3;
const PAN_PER_S = 1.1; // windows
const WHEEL_ZOOM = 0.0016;
const CLICK_PX = 4;
const EDGE_PX = 7;
const PAUSE_MS = 180;

type Drag =
  | { kind: "rows"; window: Window; scrollTop: number }
  | { kind: "range"; fromS: number }
  | { kind: "overview"; part: "left" | "right" | "whole"; grabS: number }
  | { kind: "pinch"; window: Window; distance: number; aboutS: number };

export class Controls {
  private readonly drawing: Drawing;
  private layout: Layout;
  private shown: Shown = { ranks: null, streams: null };
  private look: Look | null = null;
  private selected: number | null | undefined;
  private hovered: number | null = null;
  private weight: Weight | null = null;
  private memoryRank: number | null = null;
  private memoryLimit = 0;
  private pointerTime: number | null = null;
  private scrollTop = 0;
  private window: Window;
  private drag: Drag | null = null;
  private origin = { x: 0, y: 0 };
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private readonly held = new Set<string>();
  private frame = 0;
  private heldSince = 0;
  private pause: ReturnType<typeof setTimeout> | undefined;
  private readonly remove = new AbortController();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly timeline: Timeline,
    private readonly callbacks: Callbacks,
    window: Window | null,
  ) {
    this.drawing = new Drawing(canvas);
    this.window = clamped(window ?? { startS: 0, endS: timeline.stepS }, timeline.stepS);
    this.layout = arrange(timeline, this.shown, canvas.clientWidth, canvas.clientHeight);
    const { signal } = this.remove;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false, signal });
    canvas.addEventListener("pointerdown", (event) => this.onPointerDown(event), { signal });
    canvas.addEventListener("pointermove", (event) => this.onPointerMove(event), { signal });
    canvas.addEventListener("pointerup", (event) => this.onPointerUp(event), { signal });
    canvas.addEventListener("pointercancel", (event) => this.endDrag(event.pointerId), { signal });
    canvas.addEventListener("pointerleave", () => this.setPointer(null, 0, 0), { signal });
    canvas.addEventListener("dblclick", () => this.zoomToSelected(), { signal });
    canvas.addEventListener("keydown", (event) => this.onKeyDown(event), { signal });
    canvas.addEventListener("keyup", (event) => this.held.delete(event.key.toLowerCase()), { signal });
    canvas.addEventListener("blur", () => this.held.clear(), { signal });
    const observer = new ResizeObserver(() => this.rearrange());
    observer.observe(canvas);
    signal.addEventListener("abort", () => observer.disconnect());
  }

  dispose(): void {
    this.remove.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.pause);
  }

  setLook(look: Look, memoryLimit: number): void {
    this.look = look;
    this.memoryLimit = memoryLimit;
    this.redraw();
  }

  setShown(shown: Shown): void {
    this.shown = shown;
    this.rearrange();
  }

  setFocus(selected: number | null, weight: Weight | null, memoryRank: number | null): void {
    const before = this.selected;
    this.selected = selected;
    if (selected !== null && selected !== before) {
      this.showLane(selected);
      // When the page opens, the window is the address's to say.
      if (before !== undefined) this.showTime(selected);
    }
    this.weight = weight;
    this.memoryRank = memoryRank;
    this.redraw();
  }

  /** From outside: the address, a button. */
  setWindow(window: Window | null): void {
    const next = clamped(window ?? { startS: 0, endS: this.timeline.stepS }, this.timeline.stepS);
    const slack = (next.endS - next.startS) * 1e-4;
    if (Math.abs(next.startS - this.window.startS) < slack && Math.abs(next.endS - this.window.endS) < slack) return;
    this.window = next;
    this.redraw();
  }

  zoomBy(factor: number): void {
    this.moveTo(zoomed(this.window, factor, (this.window.startS + this.window.endS) / 2, this.timeline.stepS));
  }

  zoomToSelected(): void {
    if (this.selected == null) return;
    const { start_s, end_s } = this.timeline.document.tasks;
    const [start, end] = [start_s[this.selected] ?? 0, end_s[this.selected] ?? 0];
    const margin = Math.max(end - start, this.timeline.stepS * 1e-6) * 2;
    this.moveTo({ startS: start - margin, endS: end + margin });
  }

  private moveTo(window: Window): void {
    this.window = clamped(window, this.timeline.stepS);
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.callbacks.onWindow(this.window), PAUSE_MS);
    this.redraw();
  }

  private scrollTo(top: number): void {
    this.scrollTop = Math.min(Math.max(top, 0), maxScroll(this.layout));
    this.redraw();
  }

  private rearrange(): void {
    this.layout = arrange(this.timeline, this.shown, this.canvas.clientWidth, this.canvas.clientHeight);
    this.scrollTo(this.scrollTop);
  }

  /** In the size that the canvas has now; for paper, which does not wait for a frame. */
  drawAtOnce(): void {
    this.rearrange();
    cancelAnimationFrame(this.frame);
    this.drawNow(performance.now());
  }

  private redraw(): void {
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.drawNow(now));
  }

  private drawNow(now: number): void {
    this.frame = 0;
    if (!this.look || this.layout.width < 1) return;
    if (this.held.size > 0) this.moveHeld(now);
    const scene: Scene = {
      timeline: this.timeline,
      layout: this.layout,
      window: this.window,
      scrollTop: this.scrollTop,
      weight: this.weight,
      selected: this.selected ?? null,
      hovered: this.hovered,
      memoryRank: this.memoryRank,
      memoryLimit: this.memoryLimit,
      pointerTime: this.pointerTime,
    };
    this.drawing.draw(scene, this.look);
    this.canvas.dataset.tasks = String(this.drawing.drawn);
    this.canvas.dataset.window = `${this.window.startS},${this.window.endS}`;
    this.callbacks.onCount(this.drawing.drawn);
  }

  private moveHeld(now: number): void {
    const passed = Math.min((now - this.heldSince) / 1000, 0.1);
    this.heldSince = now;
    let [zoom, pan] = [0, 0];
    for (const key of this.held) {
      zoom += KEYS_TO_MOVE[key]?.[0] ?? 0;
      pan += KEYS_TO_MOVE[key]?.[1] ?? 0;
    }
    const { stepS } = this.timeline;
    const about = this.pointerTime ?? (this.window.startS + this.window.endS) / 2;
    const next = zoom ? zoomed(this.window, Math.exp(zoom * ZOOM_PER_S * passed), about, stepS) : this.window;
    const by = pan * PAN_PER_S * passed * (next.endS - next.startS);
    this.moveTo({ startS: next.startS + by, endS: next.endS + by });
  }

  private point(event: { clientX: number; clientY: number }): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private setPointer(hit: Hit | null, x: number, y: number, timeS: number | null = null): void {
    this.hovered = hit?.task ?? null;
    this.pointerTime = timeS;
    this.callbacks.onHover(hit, x, y);
    this.redraw();
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault();
    const { x } = this.point(event);
    const scale = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const [dx, dy] = [event.deltaX * scale, event.deltaY * scale];
    const width = this.window.endS - this.window.startS;
    if (x < this.layout.gutter) this.scrollTo(this.scrollTop + dy);
    else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
      const by = ((dx || dy) / this.layout.plot) * width;
      this.moveTo({ startS: this.window.startS + by, endS: this.window.endS + by });
    } else {
      const factor = Math.exp(Math.min(Math.max(dy, -400), 400) * WHEEL_ZOOM);
      this.moveTo(zoomed(this.window, factor, timeAt(this.layout, this.window, x), this.timeline.stepS));
    }
  }

  private get whole(): Window {
    return { startS: 0, endS: this.timeline.stepS };
  }

  private onPointerDown(event: PointerEvent): void {
    if (event.button !== 0) return;
    const { x, y } = this.point(event);
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x, y });
    this.origin = { x, y };
    const timeS = timeAt(this.layout, this.window, x);
    const [first, second] = [...this.pointers.values()];
    if (first && second) {
      const middle = timeAt(this.layout, this.window, (first.x + second.x) / 2);
      this.drag = { kind: "pinch", window: this.window, distance: Math.max(Math.abs(first.x - second.x), 10), aboutS: middle };
    } else if (y < OVERVIEW_PX && x >= this.layout.gutter) this.dragOverview(x);
    else if (event.shiftKey) this.drag = { kind: "range", fromS: timeS };
    else this.drag = { kind: "rows", window: this.window, scrollTop: this.scrollTop };
  }

  private dragOverview(x: number): void {
    const [left, right] = [xAt(this.layout, this.whole, this.window.startS), xAt(this.layout, this.whole, this.window.endS)];
    const timeS = timeAt(this.layout, this.whole, x);
    if (Math.abs(x - left) < EDGE_PX) this.drag = { kind: "overview", part: "left", grabS: 0 };
    else if (Math.abs(x - right) < EDGE_PX) this.drag = { kind: "overview", part: "right", grabS: 0 };
    else {
      const width = this.window.endS - this.window.startS;
      const isInside = x > left && x < right;
      this.drag = { kind: "overview", part: "whole", grabS: isInside ? timeS - this.window.startS : width / 2 };
      if (!isInside) this.moveTo({ startS: timeS - width / 2, endS: timeS + width / 2 });
    }
  }

  private onPointerMove(event: PointerEvent): void {
    const { x, y } = this.point(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, { x, y });
    const { drag, layout } = this;
    if (!drag) {
      const isPlot = x >= layout.gutter && y > OVERVIEW_PX;
      const hit = taskUnder(layout, this.window, this.scrollTop, x, y);
      this.setPointer(hit, x, y, isPlot ? timeAt(layout, this.window, x) : null);
      this.canvas.style.cursor = y < OVERVIEW_PX ? "ew-resize" : hit ? "pointer" : isPlot ? "grab" : "default";
      return;
    }
    if (drag.kind === "rows") {
      const secondsPerPixel = (drag.window.endS - drag.window.startS) / layout.plot;
      const by = (this.origin.x - x) * secondsPerPixel;
      this.scrollTo(drag.scrollTop + this.origin.y - y);
      if (Math.abs(this.origin.x - x) >= CLICK_PX || this.window !== drag.window)
        this.moveTo({ startS: drag.window.startS + by, endS: drag.window.endS + by });
      this.canvas.style.cursor = "grabbing";
    } else if (drag.kind === "overview") this.moveOverview(drag, timeAt(layout, this.whole, x));
    else if (drag.kind === "pinch") {
      const [first, second] = [...this.pointers.values()];
      if (!first || !second) return;
      const factor = drag.distance / Math.max(Math.abs(first.x - second.x), 10);
      const next = zoomed(drag.window, factor, drag.aboutS, this.timeline.stepS);
      const by = drag.aboutS - timeAt(layout, next, (first.x + second.x) / 2);
      this.moveTo({ startS: next.startS + by, endS: next.endS + by });
    } else this.setPointer(null, x, y, timeAt(layout, this.window, x));
  }

  private moveOverview({ part, grabS }: Drag & { kind: "overview" }, timeS: number): void {
    const { startS, endS } = this.window;
    if (part === "left") this.moveTo({ startS: Math.min(timeS, endS), endS });
    else if (part === "right") this.moveTo({ startS, endS: Math.max(timeS, startS) });
    else this.moveTo({ startS: timeS - grabS, endS: timeS - grabS + endS - startS });
  }

  private onPointerUp(event: PointerEvent): void {
    const { x, y } = this.point(event);
    const { drag } = this;
    const isClick = Math.hypot(x - this.origin.x, y - this.origin.y) < CLICK_PX;
    if (drag?.kind === "range" && !isClick) {
      const toS = timeAt(this.layout, this.window, x);
      this.moveTo({ startS: Math.min(drag.fromS, toS), endS: Math.max(drag.fromS, toS) });
    } else if (isClick && (drag?.kind === "rows" || drag?.kind === "range")) {
      const hit = taskUnder(this.layout, this.window, this.scrollTop, x, y);
      this.callbacks.onSelect(hit?.task ?? null, false);
    }
    this.endDrag(event.pointerId);
  }

  private endDrag(pointer: number): void {
    this.pointers.delete(pointer);
    this.drag = null;
    this.canvas.style.cursor = "default";
  }

  private onKeyDown(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key in KEYS_TO_MOVE) {
      if (this.held.size === 0) this.heldSince = performance.now() - 16;
      this.held.add(key);
      this.redraw();
    } else if (key === "arrowleft") this.step(-1);
    else if (key === "arrowright") this.step(1);
    else if (key === "arrowup") this.changeLane(-1);
    else if (key === "arrowdown") this.changeLane(1);
    else if (key === "home") this.stepTo(0);
    else if (key === "end") this.stepTo(Infinity);
    else if (key === "f" || key === "enter") this.zoomToSelected();
    else if (key === "0") this.moveTo(this.whole);
    else if (key === "+" || key === "=") this.zoomBy(1 / 1.5);
    else if (key === "-") this.zoomBy(1.5);
    else if (key === "pageup") this.scrollTo(this.scrollTop - this.layout.rowsHeight * 0.9);
    else if (key === "pagedown") this.scrollTo(this.scrollTop + this.layout.rowsHeight * 0.9);
    else if (key === "escape" && this.selected != null) this.callbacks.onSelect(null, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private get rows() {
    return this.layout.blocks.flatMap((block) => block.rows);
  }

  /** The first task of the window, where the keyboard begins. */
  private start(): number | null {
    for (const { lane } of this.rows) {
      const position = lane.start.findIndex((time) => time >= this.window.startS);
      if (position >= 0) return lane.tasks[position] ?? null;
    }
    return null;
  }

  private step(by: number): void {
    if (this.selected == null) return this.choose(this.start());
    this.stepTo((this.timeline.positionOf[this.selected] ?? 0) + by);
  }

  private stepTo(position: number): void {
    const from = this.selected ?? this.start();
    if (from === null) return;
    const lane = this.timeline.lanes[this.timeline.laneOf[from] ?? 0];
    if (lane) this.choose(lane.tasks[Math.min(Math.max(position, 0), lane.tasks.length - 1)] ?? null);
  }

  /** The task nearest in time in the next lane up or down. */
  private changeLane(by: number): void {
    if (this.selected == null) return this.choose(this.start());
    const { rows } = this;
    const laneIndex = this.timeline.laneOf[this.selected];
    const next = rows[rows.findIndex((row) => row.laneIndex === laneIndex) + by];
    if (!next) return;
    const { start_s, end_s } = this.timeline.document.tasks;
    const middle = ((start_s[this.selected] ?? 0) + (end_s[this.selected] ?? 0)) / 2;
    let best = 0;
    const distance = (position: number) => Math.abs(((next.lane.start[position] ?? 0) + (next.lane.end[position] ?? 0)) / 2 - middle);
    next.lane.start.forEach((_, position) => (best = distance(position) < distance(best) ? position : best));
    this.choose(next.lane.tasks[best] ?? null);
  }

  private choose(task: number | null): void {
    if (task !== null) this.callbacks.onSelect(task, true);
  }

  /** Moves as little as brings the task into the window. */
  private showTime(task: number): void {
    const { start_s, end_s } = this.timeline.document.tasks;
    const [start, end] = [start_s[task], end_s[task]];
    if (start === undefined || end === undefined) return;
    const { startS, endS } = this.window;
    const width = endS - startS;
    if (end < startS + width * 0.02) this.moveTo({ startS: start - width * 0.2, endS: start + width * 0.8 });
    else if (start > endS - width * 0.02) this.moveTo({ startS: end - width * 0.8, endS: end + width * 0.2 });
  }

  /** Scrolls as little as shows the task's lane. */
  private showLane(task: number): void {
    const row = this.rows.find(({ laneIndex }) => laneIndex === this.timeline.laneOf[task]);
    if (!row) return;
    const bottom = row.top + row.height - this.layout.rowsHeight;
    if (row.top < this.scrollTop || bottom > this.scrollTop) this.scrollTo(row.top < this.scrollTop ? row.top : bottom);
  }
}
