import { describe, expect, it } from "vitest";

import { groupsOf, sharesOf } from "./shapeOf";

describe("groupsOf", () => {
  it("names every block that the model has, and no other", () => {
    const dense = { num_layers: 2, hidden_size: 8, ffn_hidden_size: 16, num_attention_heads: 4, mla: null, moe: null };
    expect(groupsOf(dense).map(({ key }) => key)).toEqual(["model", "attention", "mlp"]);
    const both = { ...dense, mla: { kv_lora_rank: 4 }, moe: { num_experts: 8, capacity_factor: null, moe_layer_freq: [0, 1] } };
    expect(groupsOf(both).map(({ key }) => key)).toEqual(["model", "attention", "mla", "mlp", "moe"]);
    expect(groupsOf(both)[4]?.facts).toEqual([["num_experts", 8], ["capacity_factor", null], ["moe_layer_freq", "[0,1]"]]);
  });
});

describe("sharesOf", () => {
  it("adds up to all parameters, prediction layers on top", () => {
    const shares = sharesOf({ total: 100, embedding: 10, head: 10, mtp: 5 });
    expect(shares.reduce((sum, { parameters }) => sum + parameters, 0)).toBe(105);
    expect(sharesOf({ total: 100, embedding: 10, head: 0, mtp: 0 }).map(({ key }) => key)).toEqual(["layers", "embedding"]);
  });
});
