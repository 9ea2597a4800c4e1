import { expect, it } from "vitest";

import { numbersOf, ratesOf } from "./numbers";

const stated = { value: 1, unit: "1", source: "a", basis: "vendor", note: "" };

it("sorts numbers into parts and leaves the points of curves out", () => {
  const paths = ["matmul_flops_per_s.bf16", "hbm_bytes", "power_w", "tiers.1.latency_s", "tiers.1.curves.0.time_s.3"];
  const found = numbersOf(Object.fromEntries(paths.map((path) => [path, stated])), [{ name: "hccs" }, { name: "roce" }]);
  expect(found.map(({ part, field, of }) => [part, field, of])).toEqual([
    ["device", "matmul_flops_per_s", "BF16"],
    ["memory", "hbm_bytes", ""],
    ["cost", "power_w", ""],
    ["network", "latency_s", "RoCE"],
  ]);
});

it("divides sizes by times", () => {
  expect(ratesOf({ message_bytes: [1000, 4000], time_s: [0.1, 0.2] })).toEqual([[1000, 10000], [4000, 20000]]);
});
