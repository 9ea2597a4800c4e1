import { describe, expect, it } from "vitest";

import { intervalText, rangeText, withStep } from "./interval";

const STEP = { step_time_s: 10, step_time_low_s: 8, step_time_high_s: 16 };
const told = (key: string, values: object = {}) => `${key} ${JSON.stringify(values)}`;

describe("an interval", () => {
  it("grows with the step, and shrinks where the number is a rate", () => {
    expect(withStep(STEP, 100)).toEqual({ low: 80, high: 160 });
    expect(withStep(STEP, 100, "shrinks")).toEqual({ low: 62.5, high: 125 });
  });

  it("is absent where the step has none, or the number is unknown", () => {
    expect(withStep({ ...STEP, step_time_low_s: null }, 100)).toBeNull();
    expect(withStep(STEP, null)).toBeNull();
  });

  it("is worded in one way, and its absence too", () => {
    const days = (value: number) => `${value} d`;
    expect(intervalText(told, { low: 80, high: 160 }, days)).toBe('common:interval {"low":"80\u00a0d","high":"160\u00a0d"}');
    expect(intervalText(told, null, days)).toBe("common:noInterval {}");
    expect([rangeText({ low: 1, high: 2 }, days), rangeText(null, days)]).toEqual(["1 d – 2 d", "–"]);
  });
});
