import { expect, it } from "vitest";

import type { Look } from "./draw";
import { blocksOf, timelineLines, timelineSvg } from "./saved";
import { arranged, type TimelineDocument } from "./tasks";

const DOCUMENT: TimelineDocument = {
  schema_version: 1,
  step_time_s: 10,
  num_ranks: 2,
  streams: ["compute", "p2p"],
  kinds: ["forward", "p2p"],
  tasks: {
    rank: [0, 0, 0, 1], stream: [0, 0, 1, 0], kind: [0, 0, 1, 0], chunk: [0, 0, -1, 0], micro_batch: [0, 1, -1, 0],
    start_s: [0, 4, 2, 6], end_s: [2, 6, 4, 10],
  },
  memory: { rank: [], time_s: [], bytes: [] },
  bubble_s: [0, 0],
};
const LOOK = {
  palette: { text: "#000", grid: "#eee", surface: "#fff" }, colors: [[1, 2, 3], [4, 5, 6]], family: 'a "b"',
  words: { rank: (rank: number) => `rank <${rank}>`, tick: (time: number) => `${time} s` },
} as unknown as Look;
const ALL = { ranks: null, streams: null };

it("draws a rectangle for each task in the window, and its text escaped", () => {
  const svg = timelineSvg(arranged(DOCUMENT), { startS: 0, endS: 10 }, ALL, LOOK);
  expect(svg.match(/<rect [^>]*fill="rgb\(1 2 3\)"/g)).toHaveLength(3);
  expect(svg.match(/<rect [^>]*fill="rgb\(4 5 6\)"/g)).toHaveLength(1);
  expect(svg).toContain("rank &lt;0>");
  expect(svg).toContain('font-family="a &quot;b&quot;"');
  expect(timelineSvg(arranged(DOCUMENT), { startS: 6.5, endS: 10 }, ALL, LOOK).match(/<rect [^>]*fill="rgb/g)).toHaveLength(1);
});

it("cuts tasks at the window and joins those that no eye tells apart", () => {
  const [lane] = arranged(DOCUMENT).lanes;
  if (!lane) throw new Error("no lane");
  expect(blocksOf(lane, { startS: 1, endS: 5 }, 100, 400)).toEqual([{ from: 100, to: 200, kind: 0 }, { from: 400, to: 500, kind: 0 }]);
  expect(blocksOf(lane, { startS: 0, endS: 10_000 }, 0, 100)).toEqual([{ from: 0, to: 0.06, kind: 0 }]);
});

it("lists the tasks of the chosen ranks and streams in the window", () => {
  const lines = (window: { startS: number; endS: number }, shown: Parameters<typeof timelineLines>[2]) => timelineLines(arranged(DOCUMENT), window, shown).slice(1);
  expect(lines({ startS: 0, endS: 10 }, ALL)).toHaveLength(4);
  expect(lines({ startS: 0, endS: 1 }, ALL)).toEqual([[0, "compute", "forward", 0, 0, 0, 2]]);
  expect(lines({ startS: 0, endS: 10 }, { ranks: new Set([1]), streams: null })).toEqual([[1, "compute", "forward", 0, 0, 6, 10]]);
  expect(lines({ startS: 0, endS: 10 }, { ranks: null, streams: new Set([1]) })).toEqual([[0, "p2p", "p2p", null, null, 2, 4]]);
});
