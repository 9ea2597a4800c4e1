import { expect, it } from "vitest";

import type { Analysis } from "./data";
import { slidersOf, slidJob } from "./whatIf";

const JOB = {
  cluster: { hardware: "a", inter_node_bytes_per_s: null, time_factor: 1.2 },
  training: { seq_length: 4096, global_batch_size: 64, router_balance: "auxiliary-loss" },
};

it("changes what was slid, and nothing else", () => {
  expect(slidJob(JOB, {}, 2e10)).toEqual(JOB);
  expect(slidJob(JOB, { network: 2, speed: 1.5, sequence: 2, batch: 0.5, load: 1.25 }, 2e10)).toEqual({
    cluster: { hardware: "a", inter_node_bytes_per_s: 4e10, time_factor: 0.7999999999999999 },
    training: { seq_length: 8192, global_batch_size: 32, expert_load_factor: 1.25, expert_counts: null, router_balance: null },
  });
  expect(slidJob({ ...JOB, cluster: { inter_node_bytes_per_s: 1e10 } }, { network: 0.5 }, 2e10).cluster.inter_node_bytes_per_s).toBe(5e9);
});

it("offers what the plan depends on", () => {
  const tiers = [{ name: "hccs", wiring: "mesh", domain_devices: 8 }, { name: "roce", wiring: "fabric", domain_devices: null }];
  const analysis = (ep: number) => ({ tiers, placement: [{ group: "ep", size: ep, stride: 1 }] }) as unknown as Analysis;
  expect(slidersOf(analysis(1), 8)).toEqual(["speed", "sequence", "batch"]);
  expect(slidersOf(analysis(8), 16)).toEqual(["network", "speed", "sequence", "batch", "load"]);
});
