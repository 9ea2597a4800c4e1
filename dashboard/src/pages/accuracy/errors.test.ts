import { describe, expect, it } from "vitest";

import { errorsOf, isJudged, predictedOf, quantile, summarised, type Run } from "./errors";

const run = (changes: Partial<Run>) =>
  ({ is_latest: true, suspect: null, measured_step_time_s: 10, low_s: 9, high_s: 12, error_fraction: 0.1, publication_left_out_error_fraction: null, left_out_inside: null, ...changes }) as Run;

describe("quantile", () => {
  it("is NumPy's", () => {
    expect(quantile([3, 1, 2], 0.5)).toBe(2);
    expect(quantile([1, 2, 3, 4], 0.9)).toBeCloseTo(3.7);
    expect(quantile([5], 0.9)).toBe(5);
  });
});

describe("errors", () => {
  it("has sizes in median, mean and p90, and the sign in bias", () => {
    const found = summarised([-0.1, 0.2, -0.4]);
    expect(found?.median).toBeCloseTo(0.2);
    expect(found?.mean).toBeCloseTo(0.7 / 3);
    expect(found?.p90).toBeCloseTo(0.36);
    expect(found?.bias).toBeCloseTo(-0.1);
    expect(summarised([])).toBeNull();
  });

  it("counts runs that the view has an error of, and intervals where there are some", () => {
    const runs = [run({}), run({ measured_step_time_s: 20 }), run({ error_fraction: null }), run({ publication_left_out_error_fraction: -0.5, left_out_inside: false })];
    expect(errorsOf(runs, "shipped")).toMatchObject({ count: 3, coverage: 2 / 3 });
    expect(errorsOf(runs, "unseen")).toMatchObject({ count: 1, bias: -0.5, coverage: 0 });
    expect(predictedOf(run({ publication_left_out_error_fraction: -0.5 }), "unseen")).toBe(5);
    expect(predictedOf(run({}), "unseen")).toBeNull();
  });

  it("judges the newest run of a configuration that is not in doubt", () => {
    expect([run({}), run({ is_latest: false }), run({ suspect: "hand-typed" })].map(isJudged)).toEqual([true, false, false]);
  });
});
