import { describe, expect, it } from "vitest";

import type { Rgb } from "../../../theme/color";
import { Line } from "./paint";
import { arranged, kindTotals, nearest, rankTotals, taskAt, type TimelineDocument } from "./tasks";

type Row = [rank: number, stream: number, kind: number, microBatch: number, start: number, end: number];

function timeline(rows: Row[], stepS = 10): TimelineDocument {
  return {
    schema_version: 1,
    step_time_s: stepS,
    num_ranks: 1 + Math.max(0, ...rows.map(([rank]) => rank)),
    streams: ["compute", "p2p", "optimizer", "swap"],
    kinds: ["forward", "backward", "p2p"],
    tasks: {
      rank: rows.map((row) => row[0]),
      stream: rows.map((row) => row[1]),
      kind: rows.map((row) => row[2]),
      chunk: rows.map(() => 0),
      micro_batch: rows.map((row) => row[3]),
      start_s: rows.map((row) => row[4]),
      end_s: rows.map((row) => row[5]),
    },
    memory: { rank: [0], time_s: [[0, 5]], bytes: [[7, 9]] },
    bubble_s: [1, 2],
  };
}

const COLORS: Rgb[] = [[200, 0, 0], [0, 200, 0], [0, 0, 200]];

function painted(rows: Row[], width: number, startS = 0, endS = 10): { pixels: Uint8ClampedArray; count: number } {
  const [lane] = arranged(timeline(rows)).lanes;
  const pixels = new Uint8ClampedArray(width * 4);
  if (!lane) throw new Error("no lane");
  return { pixels, count: new Line(width).paint(lane, { startS, endS }, COLORS, null, pixels, 0) };
}

const alpha = (pixels: Uint8ClampedArray) => pixels.filter((_, index) => index % 4 === 3);

describe("a line of pixels", () => {
  it("shows every task of 10,000 in 100 pixels, and nothing between them", () => {
    const rows: Row[] = Array.from({ length: 10_000 }, (_, i) => [0, 0, i % 2, i, i * 5e-4, i * 5e-4 + 1e-6]);
    const { pixels, count } = painted(rows, 100);
    expect(count).toBe(10_000);
    expect([...alpha(pixels)].map((a) => a > 130)).toEqual(Array.from({ length: 100 }, (_, x) => x < 50));
  });

  it("shows a task of a millionth of a pixel, and one of no length", () => {
    expect([...alpha(painted([[0, 0, 0, 0, 5.05, 5.05 + 1e-9]], 100).pixels)].findIndex((a) => a > 130)).toBe(50);
    expect([...alpha(painted([[0, 0, 0, 0, 5.05, 5.05]], 100).pixels)].findIndex((a) => a > 130)).toBe(50);
  });

  it("mixes the colours of a pixel by time", () => {
    const { pixels } = painted([[0, 0, 0, 0, 0, 7.5], [0, 0, 1, 0, 7.5, 10]], 1);
    expect([...pixels]).toEqual([150, 50, 0, 255]);
  });

  it("leaves a pixel of ground after a wide task, none that hides a neighbour", () => {
    const { pixels } = painted([[0, 0, 0, 0, 0, 5], [0, 0, 0, 1, 5, 10]], 10);
    expect([...alpha(pixels)].map(Boolean)).toEqual([true, true, true, true, false, true, true, true, true, false]);
  });

  it("paints the window only", () => {
    const rows: Row[] = Array.from({ length: 100 }, (_, i) => [0, 0, 0, i, i / 10, (i + 1) / 10]);
    const { pixels, count } = painted(rows, 64, 2, 3);
    expect(count).toBe(10);
    expect(alpha(pixels).some((a) => a > 0)).toBe(true);
  });

  it("dims what has less weight, not what shares its pixel with more", () => {
    const [lane] = arranged(timeline([[0, 0, 0, 0, 0, 4], [0, 0, 0, 1, 4, 8]])).lanes;
    const pixels = new Uint8ClampedArray(8);
    if (lane) new Line(2).paint(lane, { startS: 0, endS: 8 }, COLORS, (task) => (task === 0 ? 1 : 0.2), pixels, 0);
    expect([...alpha(pixels)]).toEqual([255, 51]);
  });
});

describe("lanes", () => {
  it("are by rank and stream, and apart where tasks of one stream run at once", () => {
    const { lanes, laneOf, positionOf } = arranged(
      timeline([[1, 0, 0, 0, 0, 1], [0, 1, 2, 0, 0, 2], [0, 0, 0, 1, 3, 4], [0, 0, 0, 0, 0, 3], [0, 1, 2, 1, 1, 3]]),
    );
    expect(lanes.map(({ rank, stream, place, tasks }) => [rank, stream, place, [...tasks]])).toEqual([
      [0, 0, 0, [3, 2]],
      [0, 1, 0, [1]],
      [0, 1, 1, [4]],
      [1, 0, 0, [0]],
    ]);
    expect([...laneOf]).toEqual([3, 1, 0, 0, 2]);
    expect([...positionOf]).toEqual([0, 0, 1, 0, 0]);
  });

  it("hold the optimizer beside what else the device computes", () => {
    const { lanes } = arranged(timeline([[0, 2, 0, -1, 5, 6], [0, 0, 0, 0, 0, 5]]));
    expect(lanes.map(({ stream, tasks }) => [stream, [...tasks]])).toEqual([[0, [1, 0]]]);
  });

  it("find the task at a time, the nearest within reach, and say how many are there", () => {
    const [lane] = arranged(timeline([[0, 0, 0, 0, 1, 2], [0, 0, 0, 1, 2, 2.1], [0, 0, 0, 2, 4, 5]])).lanes;
    if (!lane) throw new Error("no lane");
    expect(nearest(lane, 1.5, 0.1)).toEqual({ position: 0, count: 1 });
    expect(nearest(lane, 2.05, 0.2)).toEqual({ position: 1, count: 2 });
    expect(nearest(lane, 3.95, 0.1)).toEqual({ position: 2, count: 1 });
    expect(nearest(lane, 3, 0.1)).toBeNull();
  });

  it("add up by rank and by kind", () => {
    const found = arranged(timeline([[0, 0, 0, 0, 0, 4], [0, 1, 2, 0, 3, 6], [1, 0, 1, -1, 1, 2], [0, 3, 2, 0, 0, 9], [1, 2, 0, -1, 2, 3]]));
    expect(rankTotals(found)).toEqual([
      { rank: 0, computeS: 4, communicationS: 3, exposedS: 2, bubbleS: 1, peakBytes: 9 },
      { rank: 1, computeS: 2, communicationS: 0, exposedS: 0, bubbleS: 2, peakBytes: null },
    ]);
    expect(kindTotals(found).get(2)).toEqual({ seconds: 12, count: 2, isCompute: false });
    expect(taskAt(found, 2)).toMatchObject({ kind: "backward", microBatch: null, chunk: 0, startS: 1, endS: 2 });
    expect(taskAt(found, 5)).toBeNull();
  });
});
