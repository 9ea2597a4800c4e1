import { expect, it } from "vitest";

import type { RankedPlan } from "./data";
import { importanceOf, sharedVariance } from "./importance";

it("is all where a group has one value, and nothing where groups do not matter", () => {
  expect(sharedVariance([1, 1, 3, 3], ["a", "a", "b", "b"])).toBe(1);
  expect(sharedVariance([1, 3, 1, 3], ["a", "a", "b", "b"])).toBe(0);
  expect(sharedVariance([1, 2, 3], ["a", "b", "c"])).toBe(0); // each alone: nothing can be told
  expect(sharedVariance([2, 2, 2, 2], ["a", "a", "b", "b"])).toBe(0);
});

it("is epsilon squared in between", () => {
  // Means 1.5 and 3.5: within 0.5 + 0.5 = 1 over 2 degrees of freedom; total 5 over 3.
  expect(sharedVariance([1, 2, 3, 4], ["a", "a", "b", "b"])).toBeCloseTo(1 - 0.5 / (5 / 3));
});

it("puts what moves the step time first, with its best value", () => {
  const plan = (tp: number, pp: number, step: number, memory: number) => ({ strategy: { tp, pp }, estimate: { step_time_s: step, peak_memory_bytes: memory } }) as unknown as RankedPlan;
  const plans = [plan(1, 2, 10, 5), plan(1, 4, 10.1, 1), plan(2, 2, 20, 5), plan(2, 4, 20.1, 1)];
  const choice = (key: "tp" | "pp", values: number[]) => ({ key, kind: "choice" as const, value: ({ strategy }: RankedPlan) => strategy[key], values });
  const found = importanceOf(plans, [choice("pp", [2, 4]), choice("tp", [1, 2])]);
  expect(found.map(({ key }) => key)).toEqual(["tp", "pp"]);
  expect(found[0]).toMatchObject({ best: 1, memory: 0 });
  expect(found[0]?.nextSlowerFraction).toBeCloseTo(1);
  expect(found[0]?.stepTime).toBeGreaterThan(0.99);
  expect(found[1]).toMatchObject({ best: 2, memory: 1, stepTime: 0 });
});
