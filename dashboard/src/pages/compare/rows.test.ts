import type { TFunction } from "../../i18n";
import { expect, it } from "vitest";

import type { Item } from "./data";
import { entryFromText, entryText } from "./entries";
import { jobRows, partRows, resultRows, strategyRows } from "./rows";

const t = ((key: string) => key) as unknown as TFunction;

function item(letter: string, devices: number, stepS: number, features: string[]): Item {
  const recompute = { granularity: "full", method: "uniform", num_layers: 1, modules: [], layers_per_stage: null };
  return {
    entry: { studyId: letter, planId: null },
    letter,
    study: { job: { cluster: { num_devices: devices }, training: { seq_length: 4096, train_tokens: 100 } } },
    plan: {
      strategy: { tp: 1, pp: 2, vpp: 1, cp: 1, ep: 1, etp: 1, dp: 4, micro_batch_size: 1, num_microbatches: 8, schedule: "1f1b", recompute, layer_layout: [[16, 16]], features },
      estimate: { step_time_s: stepS, tokens_per_s: 10 / stepS, headroom_bytes: 1, time_breakdown_s: { matmul: stepS - 1, host: 1, tp_comm: 0 } },
      launchable_on: [],
    },
  } as unknown as Item;
}

const ITEMS = [item("A", 64, 10, ["fused_norm"]), item("B", 128, 5, ["fused_norm", "swap_optimizer"])];
const rowOf = (rows: { key: string }[], key: string) => rows.find((row) => row.key === key);

it("tells results apart, and which is better", () => {
  const rows = resultRows(ITEMS, t);
  expect(rowOf(rows, "step")).toMatchObject({ texts: ["10.00 s", "5.000 s"], values: [10, 5], better: "lower", differs: true });
  expect(rowOf(rows, "training")).toMatchObject({ values: [100, 50] });
  expect(rowOf(rows, "headroom")).toMatchObject({ differs: false });
});

it("knows which numbers are shares, whose differences are points", () => {
  expect(resultRows(ITEMS, t).filter(({ shares }) => shares).map(({ key }) => key)).toEqual(["mfu", "sure"]);
});

it("tells strategies apart, one switch a line", () => {
  const rows = strategyRows(ITEMS, t);
  expect(rowOf(rows, "pp")).toMatchObject({ texts: ["2", "2"], differs: false });
  expect(rowOf(rows, "feature.fused_norm")).toMatchObject({ differs: false });
  expect(rowOf(rows, "feature.swap_optimizer")).toMatchObject({ texts: ["off", "on"], differs: true });
});

it("tells of a job only what differs", () => {
  expect(jobRows(ITEMS).map(({ key }) => key)).toEqual(["cluster.num_devices"]);
  expect(jobRows([ITEMS[0]!, ITEMS[0]!])).toEqual([]);
});

it("orders parts by size and leaves out what is nowhere", () => {
  const rows = partRows(ITEMS, ({ time_breakdown_s }) => time_breakdown_s, String, t);
  expect(rows.map(({ key }) => key)).toEqual(["matmul", "host"]);
  expect(rows[0]).toMatchObject({ values: [9, 4] });
});

it("bears items without a plan", () => {
  const rows = resultRows([ITEMS[0]!, { ...ITEMS[1]!, plan: null }], t);
  expect(rowOf(rows, "step")).toMatchObject({ texts: ["10.00 s", "–"], values: [10, null] });
});

it.each(["0123abcd", "0123abcd:4567"])("%s is an entry", (text) => {
  const entry = entryFromText(text);
  expect(entry && entryText(entry)).toBe(text);
});

it.each(["", ":", "a:b:c", "a b", "../x", "x".repeat(65)])("%s is none", (text) => {
  expect(entryFromText(text)).toBeNull();
});
