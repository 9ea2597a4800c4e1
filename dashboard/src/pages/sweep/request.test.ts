import { describe, expect, it } from "vitest";

import { DEFAULTS, fieldOfProblem, jobOfText, requestOf, type Form } from "./request";

const FORM: Form = { ...DEFAULTS, model: "llama-2-7b", hardware: "atlas-800t-a2", devices: "8,16" };

describe("requestOf", () => {
  it("sends single values with the job and several with the sweep", () => {
    const form = { ...FORM, batch: "256", sequence: "4096,8192", software: "mindspeed-llm", tokens: "1e12", deadline: "40", price: "1.5", objective: "cost" };
    expect(requestOf(form, null)).toEqual({
      model: "llama-2-7b",
      cluster: { hardware: "atlas-800t-a2" },
      training: { global_batch_size: 256, train_tokens: 1e12 },
      software: { stack: "mindspeed-llm" },
      search: { deadline_days: 40, objective: "cost" },
      delivery: { price_per_device_hour_usd: 1.5 },
      sweep: { devices: [8, 16], seq_length: [4096, 8192] },
    });
  });

  it("takes ranges of devices, and a most alone", () => {
    expect(requestOf({ ...FORM, devices: "64..512" }, null)).toMatchObject({ sweep: { devices: { min: 64, max: 512 } } });
    const { sweep } = requestOf({ ...FORM, devices: "..4096" }, null) as unknown as { sweep: unknown };
    expect(sweep).toEqual({ devices_at_most: 4096 });
  });

  it("compares several products and stacks, of which the first is the job's", () => {
    const form = { ...FORM, hardware: "atlas-800t-a2,h100-sxm-80gb", software: "mindspeed-llm,megatron-lm" };
    expect(requestOf(form, null)).toMatchObject({
      cluster: { hardware: "atlas-800t-a2" },
      sweep: { hardware: ["atlas-800t-a2", "h100-sxm-80gb"], software: ["mindspeed-llm", "megatron-lm"] },
    });
  });

  it("lays the form over a job, and leaves the job as it was", () => {
    const job = { model: { name: "own" }, cluster: "h100-sxm-80gb", training: { seq_length: 4096, global_batch_size: 64 }, sweep: { devices_at_most: 8 }, assumed: {} };
    const before = structuredClone(job);
    expect(requestOf({ ...DEFAULTS, source: "job", devices: "16", batch: "128" }, job)).toEqual({
      model: { name: "own" },
      cluster: { hardware: "h100-sxm-80gb" },
      training: { seq_length: 4096, global_batch_size: 128 },
      sweep: { devices: 16 },
      assumed: {},
    });
    expect(job).toEqual(before);
  });

  it("lets the server say what is wrong with a number that is none", () => {
    expect(requestOf({ ...FORM, devices: "many", deadline: "soon" }, null)).toMatchObject({ sweep: { devices: "many" }, search: { deadline_days: "soon" } });
  });
});

it("reads a job, or the job of an answer", () => {
  expect(jobOfText('{"model": "a"}')).toEqual({ model: "a" });
  expect(jobOfText('{"job": {"model": "b"}, "plans": []}')).toEqual({ model: "b" });
  for (const none of ["", "model: a", "[1]", "3", "null"]) expect(jobOfText(none)).toBeNull();
});

it("finds the field that a pointer means", () => {
  expect(fieldOfProblem("#/sweep/devices")).toBe("devices");
  expect(fieldOfProblem("#/sweep/devices/min")).toBe("devices");
  expect(fieldOfProblem("#/sweep/devices_at_most")).toBe("devices");
  expect(fieldOfProblem("#/search/deadline_days")).toBe("deadline");
  expect(fieldOfProblem("#/search/top")).toBeNull();
  expect(fieldOfProblem(null)).toBeNull();
});
