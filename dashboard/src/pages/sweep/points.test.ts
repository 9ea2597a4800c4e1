import { describe, expect, it } from "vitest";

import { curvesOf, freeBytes, idealOf, linesOf, studyAddress, varied, type Planned, type Point, type Sweep } from "./points";

const WORDS = { seq_length: (value: string) => `seq ${value}`, global_batch_size: (value: string) => `batch ${value}` };

const STRATEGY = {
  tp: 2, pp: 4, vpp: 2, cp: 1, ep: 1, dp: 8, micro_batch_size: 1, zero_stage: 1, schedule: "interleaved-1f1b",
  recompute: { granularity: "full", method: "uniform", num_layers: 1, modules: [] },
};

function point(number: number, changes: Partial<Point> = {}): Point {
  return {
    point: number, hardware: "h", stack: "s", target: "t", num_devices: 8 * number, global_batch_size: 64, seq_length: 4096, state: "proved",
    reason: null, strategy: STRATEGY, step_time_s: 10, step_time_low_s: 8, step_time_high_s: 15, tokens_per_s: 100 * number, ...changes,
  } as unknown as Point;
}

function sweep(points: Point[], rest: Partial<Sweep> = {}): Sweep {
  const curve = { hardware: "h", stack: "s", target: "t", seq_length: 4096, global_batch_size: 64, points: points.map((each) => each.point), knee_devices: 16 };
  const job = { model: { name: "llama" }, cluster: { hardware: "h", num_devices: 1 }, training: { precision: "bf16" }, search: { tp: [1, 2, 4] } };
  return { job, points, curves: [curve], pareto: [], structures: [], constraints: {}, ...rest } as unknown as Sweep;
}

it("draws the ideal through the smallest count", () => {
  const points = [point(1), point(4, { tokens_per_s: 300 })] as Planned[];
  expect(idealOf(points)).toEqual([[8, 100], [32, 400]]);
  expect(idealOf([])).toEqual([]);
});

describe("names", () => {
  it("tell only what varies", () => {
    expect(varied([point(1), point(2)])).toEqual([]);
    expect(varied([point(1), point(2, { seq_length: 8192 })])).toEqual(["seq_length"]);
  });

  it("leave out what follows from the rest", () => {
    const other = { hardware: "k", stack: "other", target: "u" };
    expect(varied([point(1), point(2, other)])).toEqual(["hardware"]);
    expect(varied([point(1), point(2, other), point(3, { hardware: "k" })])).toEqual(["hardware", "stack"]);
  });

  it("of curves tell them apart", () => {
    const base = sweep([point(1), point(2)]);
    const other = { ...base.curves[0]!, seq_length: 8192, knee_devices: null, points: [2] };
    const found = curvesOf({ ...base, curves: [...base.curves, other] }, WORDS);
    expect(found.map(({ name, kneeDevices, points }) => [name, kneeDevices, points.length])).toEqual([["seq 4,096", 16, 2], ["seq 8,192", null, 1]]);
    expect(curvesOf(base, WORDS)[0]?.name).toBe("");
  });
});

it("exports refused points as lines without numbers", () => {
  const [names, first, second] = linesOf(sweep([point(1), point(2, { state: "refused", reason: "no, never", strategy: null, step_time_s: null, tokens_per_s: null })]));
  expect(first?.[names?.indexOf("tp") ?? -1]).toBe(2);
  expect(second?.[names?.indexOf("reason") ?? -1]).toBe("no, never");
  expect(second?.[names?.indexOf("tp") ?? -1]).toBeUndefined();
});

it("exports the ends of an interval beside its number, as the command does", () => {
  const [names, line] = linesOf(sweep([point(1, { days: 30, intervals: { days: { low: 24, high: 45 } } })]));
  expect(names?.slice(names.indexOf("days"), names.indexOf("days") + 3)).toEqual(["days", "days_low", "days_high"]);
  expect(line?.slice(names?.indexOf("days"), (names?.indexOf("days") ?? 0) + 3)).toEqual([30, 24, 45]);
});

it("says what is free below the limit by which plans are judged", () => {
  expect(freeBytes(point(1, { peak_memory_bytes: 50, headroom_bytes: 14, fit_limit_bytes: 60 }))).toBe(10);
  expect(freeBytes(point(1, { peak_memory_bytes: 50 }))).toBeNull();
});

describe("studyAddress", () => {
  const of = (isPlan: boolean, presets = ["llama"]) =>
    new URLSearchParams(studyAddress(sweep([point(2)]), point(2), presets, isPlan).split("?")[1]);

  it("leads to a study of that size, with the limits of the job", () => {
    const params = of(false);
    expect(Object.fromEntries(params)).toMatchObject({ model: "llama", hardware: "h", devices: "16", seq_length: "4096", global_batch_size: "64", tp: "1,2,4" });
    expect(params.has("pp")).toBe(false);
  });

  it("or of the plan alone", () => {
    expect(Object.fromEntries(of(true))).toMatchObject({ tp: "2", pp: "4", vpp: "2", recompute: "full", micro_batch_size: "1", zero_stage: "1" });
  });

  it("takes a model that is no preset from this tab", () => {
    expect(of(false, []).get("source")).toBe("config");
  });
});
