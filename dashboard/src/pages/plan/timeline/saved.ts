/** The timeline as files: what the window shows, drawn with lines in place of pixels, and as rows. */
import type { Cell } from "../../../components/csv";
import { css } from "../../../theme/color";
import type { Look } from "./draw";
import { arrange, ticks, xAt, type Shown } from "./layout";
import type { Window } from "./paint";
import { firstAfter, taskAt, type Timeline } from "./tasks";

const WIDTH_PX = 1600;
const TICKS = 10;
const NEAR_PX = 0.3; // tasks of a kind nearer than that are one line of the drawing

const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

export function timelineSvg(timeline: Timeline, window: Window, shown: Shown, look: Look): string {
  const layout = arrange(timeline, shown, WIDTH_PX, 1e6);
  const { palette, words } = look;
  const top = 24;
  const height = top + layout.contentHeight + 8;
  const text = (x: number, y: number, content: string, rest = "") => `<text x="${x}" y="${y}" fill="${palette.text}" dominant-baseline="middle" ${rest}>${escaped(content)}</text>`;
  const { times, stepS } = ticks(window, TICKS);
  const axis = times.map((time) => {
    const x = xAt(layout, window, time).toFixed(1);
    return `<path d="M${x} ${top - 6}V${height}" stroke="${palette.grid}"/>${text(Number(x) + 4, top / 2, words.tick(time, stepS), `font-size="11"`)}`;
  });
  const lanes = layout.blocks.flatMap(({ rank, top: first, height: tall, rows }) => [
    text(4, top + first + tall / 2, words.rank(rank)),
    ...rows.flatMap(({ lane, top: y, height: high }) =>
      blocksOf(lane, window, layout.gutter, layout.plot).map(
        ({ from, to, kind }) => `<rect x="${from.toFixed(2)}" y="${top + y}" width="${Math.max(to - from, 0.1).toFixed(2)}" height="${high}" fill="${css(look.colors[kind] ?? [128, 128, 128])}"/>`,
      ),
    ),
  ]);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH_PX}" height="${height}" viewBox="0 0 ${WIDTH_PX} ${height}" font-family="${escaped(look.family)}" font-size="12">`,
    `<rect width="100%" height="100%" fill="${palette.surface}"/>`,
    ...axis,
    ...lanes,
    "</svg>",
  ].join("\n");
}

interface Block {
  from: number;
  to: number;
  kind: number;
}

/** The tasks of a lane in the window; neighbours of one kind that no eye tells apart are one block. */
export function blocksOf(lane: Timeline["lanes"][number], window: Window, left: number, width: number): Block[] {
  const scale = width / (window.endS - window.startS);
  const blocks: Block[] = [];
  for (let place = firstAfter(lane, window.startS); place < lane.start.length; place++) {
    const [start, end, kind] = [lane.start[place] ?? 0, lane.end[place] ?? 0, lane.kind[place] ?? 0];
    if (start > window.endS) break;
    const from = left + Math.max(start - window.startS, 0) * scale;
    const to = left + Math.min(end - window.startS, window.endS - window.startS) * scale;
    const last = blocks.at(-1);
    if (last && last.kind === kind && from - last.to < NEAR_PX && to - from < NEAR_PX) last.to = to;
    else blocks.push({ from, to, kind });
  }
  return blocks;
}

/** Every task in the window, as columns. */
export function timelineLines(timeline: Timeline, window: Window, shown: Shown): Cell[][] {
  const rows: Cell[][] = [["rank", "stream", "kind", "chunk", "micro_batch", "start_s", "end_s"]];
  for (let index = 0; index < timeline.numTasks; index++) {
    const task = taskAt(timeline, index);
    if (!task || task.endS < window.startS || task.startS > window.endS || (shown.ranks && !shown.ranks.has(task.rank))) continue;
    if (shown.streams && !shown.streams.has(timeline.document.streams.indexOf(task.stream))) continue;
    rows.push([task.rank, task.stream, task.kind, task.chunk, task.microBatch, task.startS, task.endS]);
  }
  return rows;
}
