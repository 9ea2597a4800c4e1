import { describe, expect, it } from "vitest";

import { DEFAULTS, fieldOfProblem, formOfJob, formOfPlan, requestOf, type Form } from "./request";
import type { Plan } from "./steps";

const FORM: Form = {
  ...DEFAULTS, model: "qwen2.5-math-7b", hardware: "h20-sxm-96gb", devices: "64", prompts: "512", samples: "16", mean: "1640", cap: "28672",
};
const JOB = {
  model: "qwen2.5-math-7b",
  cluster: { hardware: "h20-sxm-96gb", num_devices: 64 },
  post_training: { algorithm: "grpo", prompts: 512, samples: 16, lengths: { mean: 1640, cap: 28672 } },
};

describe("requestOf", () => {
  it("leaves out what is empty", () => {
    expect(requestOf(FORM)).toEqual(JOB);
  });

  it("asks a search for no split and no one staleness, which it tries", () => {
    const form = { ...FORM, staleness: "1", partial: "yes", rollout_devices: "32", max_staleness: "2", queue: "yes", queue_rate: "2.5" };
    expect(requestOf(form)).toEqual({ ...JOB, post_training: { ...JOB.post_training, max_staleness: 2, queue: true, queue_bytes_per_s: 2.5e9 } });
  });

  it("asks an estimate for them", () => {
    const form: Form = { ...FORM, ask: "estimate", placement: "separate", staleness: "1", partial: "yes", rollout_devices: "32", max_staleness: "2", tp: "2", rollout_tp: "4" };
    expect(requestOf(form)).toEqual({
      ...JOB,
      post_training: { ...JOB.post_training, placement: "separate", rollout_devices: 32, staleness: { steps: 1, partial: true } },
      strategy: { tp: 2 },
      rollout: { tp: 4 },
    });
  });

  it("sends what is no number as text", () => {
    expect(requestOf({ ...FORM, prompts: "many" })).toMatchObject({ post_training: { prompts: "many" } });
  });
});

it("finds the field that a pointer means", () => {
  expect(fieldOfProblem("#/post_training/lengths/mean")).toBe("mean");
  expect(fieldOfProblem("#/cluster/num_devices")).toBe("devices");
  expect(fieldOfProblem("#/post_training/lengths")).toBeNull();
  expect(fieldOfProblem(null)).toBeNull();
});

it("fills the form with a plan of a search, as its estimate must be asked for", () => {
  const plan = {
    placement: "separate", rollout_devices: 16, train_devices: 48, staleness_steps: 3,
    strategy: { tp: 4, pp: 1, cp: 1, ep: 1 }, rollout: { tp: 2, ep: 1 },
  } as unknown as Plan;
  expect(formOfPlan(plan)).toEqual({
    ask: "estimate", placement: "separate", rollout_devices: "16", train_devices: "48", staleness: "3", partial: "yes",
    tp: "4", pp: "1", cp: "1", ep: "1", rollout_tp: "2", rollout_ep: "",
  });
  const colocated = { ...plan, placement: "fully-colocated", rollout_devices: 64, train_devices: 64, staleness_steps: 0 };
  expect(formOfPlan(colocated)).toMatchObject({ rollout_devices: "", train_devices: "", staleness: "", partial: "" });
});

describe("formOfJob", () => {
  const form: Form = { ...DEFAULTS, model: "qwen3-8b", hardware: "h100-sxm-80gb", devices: "64", prompts: "256", mean: "2000", queue: "yes", queue_rate: "2", rollout_tp: "4" };

  it("asks what the job asks", () => {
    const job = requestOf(form) as unknown as Record<string, unknown>;
    expect({ ...DEFAULTS, ...formOfJob({ ...job, schema_version: 1 }) }).toEqual(form);
    expect(job).toEqual(requestOf({ ...DEFAULTS, ...formOfJob(job) }));
  });

  it("leaves alone what says more than the form does", () => {
    const job = requestOf(form) as unknown as Record<string, unknown>;
    expect(formOfJob({ ...job, model: { hidden_size: 4096 } })).toBeNull();
    expect(formOfJob({ ...job, search: { top: 3 } })).toBeNull();
  });
});
