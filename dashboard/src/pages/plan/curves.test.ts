import { expect, it } from "vitest";

import { curveOf, heldOf, type Columns } from "./curves";

const MEMORY: Columns = { rank: [0, 1], time_s: [[0, 1, 3, 4], [0, 5]], bytes: [[10, 40, 20, 10], [5, 15]] };

it("keeps every step of a short curve, to the end of the step", () => {
  expect(curveOf(MEMORY, 0, 8, 10)).toEqual([[0, 10], [1, 40], [3, 20], [4, 10], [8, 10]]);
});

it("keeps the highest of each span of a long one", () => {
  // Spans of 4 s: 40 is the most of the first; the second holds what it began with.
  expect(curveOf(MEMORY, 0, 8, 2)).toEqual([[0, 40], [4, 10], [8, 10]]);
  const long: Columns = { rank: [0], time_s: [Array.from({ length: 1000 }, (_, at) => at / 1000)], bytes: [Array.from({ length: 1000 }, (_, at) => (at === 777 ? 9 : 1))] };
  const curve = curveOf(long, 0, 1, 50);
  expect(curve).toHaveLength(51);
  expect(Math.max(...curve.map(([, bytes]) => bytes))).toBe(9);
});

it("says what each rank holds: peak and when, least, mean over time", () => {
  expect(heldOf(MEMORY, 8)).toEqual([
    { rank: 0, peakBytes: 40, peakAtS: 1, leastBytes: 10, meanBytes: (10 + 80 + 20 + 40) / 8 },
    { rank: 1, peakBytes: 15, peakAtS: 5, leastBytes: 5, meanBytes: (25 + 45) / 8 },
  ]);
});
