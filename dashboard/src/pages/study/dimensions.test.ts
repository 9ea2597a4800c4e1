import { describe, expect, it } from "vitest";

import type { RankedPlan } from "./data";
import {
  axisTexts,
  dimensionsOf,
  filterFromText,
  filterOfIntervals,
  filterText,
  intervalsOfFilter,
  isKept,
  paretoFront,
  type Dimension,
} from "./dimensions";

function plan(pp: number, stepS: number, memoryBytes: number, bubbleS = 0): RankedPlan {
  const recompute = { granularity: "none", method: null, num_layers: null, modules: [], layers_per_stage: null };
  return {
    strategy: { tp: 1, pp, vpp: 1, cp: 1, ep: 1, etp: 1, dp: 8 / pp, micro_batch_size: 1, schedule: "1f1b", zero_stage: 1, recompute, features: [] },
    estimate: { step_time_s: stepS, peak_memory_bytes: memoryBytes, time_breakdown_s: { matmul: stepS - bubbleS, pipeline_bubble: bubbleS } },
  } as unknown as RankedPlan;
}

const PLANS = [plan(1, 10, 50), plan(2, 11, 30, 1), plan(8, 12, 40, 3)];
const named = (key: string): Dimension => {
  const found = dimensionsOf(PLANS).find((dimension) => dimension.key === key);
  if (!found) throw new Error(key);
  return found;
};

describe("dimensions", () => {
  it("are those in which plans differ", () => {
    expect(dimensionsOf(PLANS).map(({ key }) => key)).toEqual(["pp", "dp", "bubble", "memory", "step"]);
    expect(dimensionsOf(PLANS.slice(0, 1))).toEqual([]);
  });

  it("order numbers as numbers", () => {
    expect(named("pp")).toMatchObject({ values: [1, 2, 8] });
  });
});

describe("filters", () => {
  it.each(["pp~4~8", "step~16.2~17.1", "recompute~full:2~layernorm+mlp_act", "memory~1000000000~65000000000"])("%s is read and written", (text) => {
    const filter = filterFromText(text);
    expect(filter && filterText(filter)).toBe(text);
  });

  it.each(["", "pp", "pp~", "nothing~1", "step~a~b", "step~1", "step~1~2~3", "constructor~1"])("%s is none", (text) => {
    expect(filterFromText(text)).toBeNull();
  });

  it("keep what is in all of them", () => {
    const kept = (...texts: string[]) => PLANS.filter((each) => isKept(each, texts.map((text) => filterFromText(text)!))).map(({ strategy }) => strategy.pp);
    expect(kept()).toEqual([1, 2, 8]);
    expect(kept("pp~1~8")).toEqual([1, 8]);
    expect(kept("pp~1~8", "step~11~12")).toEqual([8]);
    expect(kept("bubble~0.2~1")).toEqual([8]);
  });

  it("come from brushes and become them", () => {
    expect(filterOfIntervals(named("pp"), [[0.7, 2]])).toEqual({ key: "pp", values: ["2", "8"] });
    expect(filterOfIntervals(named("pp"), [[0.2, 0.7]])).toEqual({ key: "pp", values: ["1"] });
    expect(filterOfIntervals(named("step"), [[11.500001, 10]])).toEqual({ key: "step", low: 10, high: 11.5 });
    expect(filterOfIntervals(named("step"), [])).toBeNull();
    expect(intervalsOfFilter(named("pp"), { key: "pp", values: ["1", "8"] })).toEqual([[0, 0.3], [1.7, 2]]);
    expect(intervalsOfFilter(named("pp"), { key: "pp", values: ["1", "2"] })).toEqual([[0, 1.3]]);
    expect(intervalsOfFilter(named("step"), { key: "step", low: 10, high: 11 })).toEqual([[10, 11]]);
    expect(intervalsOfFilter(named("step"), undefined)).toEqual([]);
  });
});

it("the front is what no other plan beats in time and memory", () => {
  const points = [
    { step: 10, memory: 50 },
    { step: 12, memory: 40 },
    { step: 11, memory: 30 },
    { step: 11, memory: 45 },
  ];
  expect(paretoFront(points)).toEqual([{ step: 11, memory: 30 }, { step: 10, memory: 50 }]);
});

it("values of many parts are told apart by lines where these have room", () => {
  const values = ["layernorm+mlp_act", "layernorm+mlp_act+mla_up_proj", 4];
  expect(axisTexts(values, 274)).toEqual(["layernorm\n+mlp_act", "layernorm\n+mlp_act\n+mla_up_proj", "4"]);
  expect(axisTexts(values, 3 * 3 * 13 - 1)).toEqual(values.map(String));
});
