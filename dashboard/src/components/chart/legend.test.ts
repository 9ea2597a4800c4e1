import { expect, it } from "vitest";

import { roundUp } from "./axis";
import { linesOf, withWholeLegend } from "./legend";

it("counts the lines of a legend", () => {
  expect(linesOf([], 300)).toBe(1);
  expect(linesOf([100, 100], 300)).toBe(1); // 115 + 8 + 115 of 290
  expect(linesOf([100, 100, 100], 300)).toBe(2);
  expect(linesOf([500, 500], 300)).toBe(2);
});

it("gives a chart the lines that its legend needs, on the legend's side", () => {
  const option = { legend: { type: "scroll", bottom: 0 }, grid: { bottom: 30, top: 10 }, series: [{ name: "aaaa" }, { name: "bbbb" }, { name: "aaaa" }, {}] };
  const wide = withWholeLegend(option, 1000, (name) => name.length * 10);
  expect([wide.more, wide.option.grid.bottom, wide.option.legend.type]).toEqual([0, 30, "plain"]);
  const narrow = withWholeLegend(option, 100, (name) => name.length * 10);
  expect([narrow.more, narrow.option.grid.bottom, narrow.option.grid.top]).toEqual([20, 50, 10]);
  const above = withWholeLegend({ ...option, legend: { top: 0, data: ["x", { name: "y" }] } }, 40, () => 30);
  expect([above.more, above.option.grid.top]).toEqual([20, 30]);
  expect(withWholeLegend({ grid: {} }, 10, () => 1).more).toBe(0);
});

it("ends an axis with a round number", () => {
  expect([6062, 61.2, 0.0731, 100, 9.9, 1, 1201].map(roundUp)).toEqual([8000, 80, 0.08, 100, 10, 1, 1500]);
  expect(roundUp(0)).toBe(0);
});
