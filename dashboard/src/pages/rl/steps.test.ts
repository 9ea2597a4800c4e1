import { describe, expect, it } from "vitest";

import { blocksOf, changeOf, devicesOf, instanceText, layoutText, poolsOf, tailsOf, taskOf, type Step } from "./steps";

const bar = (task: string, step: number, pools: string[], start_s: number, end_s: number) => ({ task, step, pools, start_s, end_s, waits_for: "" });

describe("blocks", () => {
  const bars = [bar("sync", 42, ["rollout", "train"], 9, 10), bar("reward", 42, ["train"], 0, 0), bar("rollout", 43, ["rollout"], 0, 9)];

  it("stand on every pool that a task holds, without tasks that take no time, and count steps from 1", () => {
    expect(blocksOf(bars).map(({ task, step, pool }) => [task, step, pool])).toEqual([["sync", 1, "rollout"], ["sync", 1, "train"], ["rollout", 2, "rollout"]]);
  });

  it("have tails where what they make comes later, in rows of their own where those overlap", () => {
    const made = (start_s: number, end_s: number, made_s: number | null) => ({ ...bar("rollout", 1, ["rollout"], start_s, end_s), made_s });
    const tails = tailsOf(blocksOf([made(0, 10, 25), made(10, 20, 35), made(20, 30, 30.01), made(25, 35, 50), made(35, 40, null)]));
    expect(tails.map(({ block, row }) => [block.endS, block.madeS, row])).toEqual([[10, 25, 0], [20, 35, 1], [35, 50, 0]]);
  });

  it("have pools in the order of a batch", () => {
    expect(poolsOf(bars)).toEqual(["rollout", "train"]);
    expect(poolsOf([bar("a", 1, ["reference"], 0, 1), bar("b", 1, ["all"], 0, 1)])).toEqual(["all", "reference"]);
    expect(poolsOf([])).toEqual([]);
  });
});

it("knows the devices of a pool", () => {
  const step = { num_devices: 64, rollout_devices: 56, train_devices: 48, reference_devices: 8 } as Step;
  expect(["rollout", "train", "reference", "all", "other"].map((pool) => devicesOf(step, pool))).toEqual([56, 48, 8, 56, null]);
});

it("takes the pieces of a queue for one task", () => {
  expect([taskOf("update 3"), taskOf("old_log_prob"), taskOf("rollout 16")]).toEqual(["update", "old_log_prob", "rollout"]);
});

it("writes layouts short", () => {
  expect(layoutText({ tp: 4, pp: 1, cp: 1, ep: 8, dp: 12 })).toBe("TP4 EP8 DP12");
  expect(instanceText({ tp: 1, pp: 1, dp: 1, ep: 1, instances: 64, instance_devices: 1, num_devices: 64 })).toBe("64 × TP1");
  expect(instanceText({ tp: 2, pp: 1, dp: 4, ep: 8, instances: 4, instance_devices: 8, num_devices: 32 })).toBe("4 × TP2 EP8");
});

it("translates the server's variants, and leaves those it does not know", () => {
  expect(changeOf("staleness 4")).toEqual({ key: "staleness", steps: 4 });
  expect(changeOf("without a queue")).toEqual({ key: "noQueue" });
  expect(changeOf("something else")).toBeNull();
});
