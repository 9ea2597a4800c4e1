import { expect, it } from "vitest";

import { isWide, logAxis, logTicks, roundUp } from "./axis";

it.each([
  [82, 950, [100, 150, 200, 300, 400, 500, 600, 800]],
  [21_600, 626_000, [50_000, 100_000, 200_000, 500_000]],
  [1, 1000, [1, 10, 100, 1000]],
])("a logarithmic axis from %f to %f has round numbers", (low, high, ticks) => expect(logTicks(low, high)).toEqual(ticks));

it("has numbers within a twentieth", () => expect(logTicks(100, 105)).toEqual([100, 101, 102, 103, 104, 105]));

it("holds every value", () => {
  const { min, max } = logAxis([82, 950, 210], String);
  expect(min).toBeLessThan(82);
  expect(max).toBeGreaterThan(950);
});

it("is for values far apart", () => expect([isWide([28, 49]), isWide([82, 950]), isWide([0, 3])]).toEqual([false, true, false]));

it("ends with a round number", () => expect(roundUp(56.5)).toBe(60));
