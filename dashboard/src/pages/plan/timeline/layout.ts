/** Where things are in the picture, in CSS pixels, and what is at a point of it. */
import type { Window } from "./paint";
import { nearest, type Lane, type Timeline } from "./tasks";

export const OVERVIEW_PX = 44;
export const AXIS_PX = 24;
export const MEMORY_PX = 76;
const GAP_PX = 6;
const RANK_GAP_PX = 3;
const TALLEST_PX = 32;
const LOWEST_PX = 9;
const SIDE_SHARE = 0.55; // height of a lane beside compute over that of the compute lane
const SPARSE_SHARE = 0.3; // and of one with next to nothing in it, such as the exchange of gradients
const SPARSE_TASKS = 8;
const REACH_PX = 3;

export interface Row {
  lane: Lane;
  laneIndex: number;
  /** From the top of all rows. */
  top: number;
  height: number;
}

export interface Block {
  rank: number;
  top: number;
  height: number;
  rows: Row[];
}

export interface Shown {
  ranks: ReadonlySet<number> | null;
  streams: ReadonlySet<number> | null;
}

export interface Layout {
  width: number;
  height: number;
  gutter: number;
  plot: number;
  rowsTop: number;
  rowsHeight: number;
  /** Height of all rows; more than `rowsHeight` scrolls. */
  contentHeight: number;
  memoryTop: number | null;
  blocks: Block[];
}

export function arrange(timeline: Timeline, shown: Shown, width: number, height: number): Layout {
  const gutter = width < 640 ? 64 : 138;
  const memory = timeline.document.memory.rank.length > 0 ? MEMORY_PX + GAP_PX : 0;
  const rowsTop = OVERVIEW_PX + GAP_PX + AXIS_PX;
  const rowsHeight = Math.max(height - rowsTop - memory, 40);

  const byRank = new Map<number, { lane: Lane; laneIndex: number }[]>();
  timeline.lanes.forEach((lane, laneIndex) => {
    if (shown.ranks && !shown.ranks.has(lane.rank)) return;
    if (shown.streams && !shown.streams.has(lane.stream)) return;
    byRank.set(lane.rank, [...(byRank.get(lane.rank) ?? []), { lane, laneIndex }]);
  });
  const share = (lane: Lane) => (lane.stream === timeline.lanes[0]?.stream ? 1 : lane.tasks.length > SPARSE_TASKS ? SIDE_SHARE : SPARSE_SHARE);
  const shares = [...byRank.values()].flat().reduce((sum, { lane }) => sum + share(lane), 0);
  const unit = Math.min(TALLEST_PX, Math.max(LOWEST_PX, (rowsHeight - byRank.size * RANK_GAP_PX) / Math.max(shares, 1)));

  const blocks: Block[] = [];
  let top = 0;
  for (const [rank, lanes] of byRank) {
    const start = top;
    const rows = lanes.map(({ lane, laneIndex }) => {
      const row = { lane, laneIndex, top, height: Math.max(Math.floor(unit * share(lane)), 4) };
      top += row.height + 1;
      return row;
    });
    blocks.push({ rank, top: start, height: top - start, rows });
    top += RANK_GAP_PX - 1;
  }
  return {
    width,
    height,
    gutter,
    plot: Math.max(width - gutter, 1),
    rowsTop,
    rowsHeight,
    contentHeight: top,
    memoryTop: memory ? height - MEMORY_PX : null,
    blocks,
  };
}

/** The height at which lanes grow no more. */
export function mostHeight(timeline: Timeline, shown: Shown): number {
  const { rowsTop, contentHeight, memoryTop, height } = arrange(timeline, shown, 0, 1e6);
  return rowsTop + contentHeight + (memoryTop === null ? 0 : height - memoryTop + GAP_PX);
}

export const maxScroll = ({ contentHeight, rowsHeight }: Layout): number => Math.max(0, contentHeight - rowsHeight);

export function timeAt(layout: Layout, window: Window, x: number): number {
  return window.startS + ((x - layout.gutter) / layout.plot) * (window.endS - window.startS);
}

export function xAt(layout: Layout, window: Window, timeS: number): number {
  return layout.gutter + ((timeS - window.startS) / (window.endS - window.startS)) * layout.plot;
}

export function rowAt(layout: Layout, scrollTop: number, y: number): Row | null {
  if (y < layout.rowsTop || y >= layout.rowsTop + layout.rowsHeight) return null;
  const inside = y - layout.rowsTop + scrollTop;
  const block = layout.blocks.find(({ top, height }) => inside >= top && inside < top + height);
  return block?.rows.find(({ top, height }) => inside >= top && inside < top + height + 1) ?? null;
}

export interface Hit {
  task: number;
  /** Tasks within reach of the pointer: more than one where they are narrower than it. */
  count: number;
}

export function taskUnder(layout: Layout, window: Window, scrollTop: number, x: number, y: number): Hit | null {
  const row = x >= layout.gutter ? rowAt(layout, scrollTop, y) : null;
  if (!row) return null;
  const secondsPerPixel = (window.endS - window.startS) / layout.plot;
  const timeS = timeAt(layout, window, x);
  const exact = nearest(row.lane, timeS, secondsPerPixel / 2);
  const found = exact ?? nearest(row.lane, timeS, REACH_PX * secondsPerPixel);
  const task = found && row.lane.tasks[found.position];
  return found && task !== undefined && task !== null ? { task, count: found.count } : null;
}

/** A window of at least `leastS` inside the step, as wide as asked for where there is room. */
export function clamped({ startS, endS }: Window, stepS: number, leastS = stepS * 1e-7): Window {
  const width = Math.min(Math.max(endS - startS, leastS), stepS);
  const start = Math.min(Math.max(startS, 0), stepS - width);
  return { startS: start, endS: start + width };
}

export function zoomed(window: Window, factor: number, aboutS: number, stepS: number): Window {
  const next = { startS: aboutS - (aboutS - window.startS) * factor, endS: aboutS + (window.endS - aboutS) * factor };
  return clamped(next, stepS);
}

/** Round times for an axis, at most `most` of them. */
export function ticks({ startS, endS }: Window, most: number): { stepS: number; times: number[] } {
  const rough = (endS - startS) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const stepS = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough) ?? rough;
  const first = Math.ceil(startS / stepS);
  const count = Math.max(0, Math.floor(endS / stepS + 1e-9) - first + 1);
  return { stepS, times: Array.from({ length: count }, (_, i) => (first + i) * stepS) };
}
