import { describe, expect, it } from "vitest";

import { commandOf, DEFAULTS, fieldOfProblem, formOfJob, formOfLabels, formOfParams, jobOf, labelsOf, limitOf, missingOf, paramsOfForm, requestOf, type Form } from "./form";

const FORM: Form = { ...DEFAULTS, model: "llama-2-7b", hardware: "atlas-800t-a2", devices: "64" };
const FULL: Form = { ...FORM, inter_node: "12.5", seq_length: "8192", stack: "mindspeed-llm", calibration: "0123456789ab", target: "mindspeed-llm", sampler: "tpe", max_trials: "50", seed: "3", tp: "1,2,4", pp: "..8", recompute: "full,none" };

describe("the form", () => {
  it("asks for no more than what was filled in", () => {
    expect(jobOf(FORM, null)).toEqual({ model: "llama-2-7b", cluster: { hardware: "atlas-800t-a2", num_devices: 64 } });
  });

  it("becomes a job in SI units", () => {
    expect(jobOf(FULL, null)).toEqual({
      model: "llama-2-7b",
      cluster: { hardware: "atlas-800t-a2", num_devices: 64, inter_node_bytes_per_s: 12.5e9 },
      training: { seq_length: 8192 },
      software: { stack: "mindspeed-llm", calibration: "0123456789ab", target: "mindspeed-llm" },
      search: { sampler: "tpe", max_trials: 50, seed: 3, tp: [1, 2, 4], pp: { max: 8 }, recompute: ["full", "none"] },
    });
  });

  it("leaves out a sampler's settings where every strategy is searched", () => {
    expect(jobOf({ ...FORM, max_trials: "50", seed: "3" }, null)).toEqual(jobOf(FORM, null));
  });

  it("refines an exhaustive search, and that alone", () => {
    const refined = { ...FORM, refine: "300", refine_front: "true", seed: "4" };
    expect(jobOf(refined, null)).toEqual({ ...jobOf(FORM, null), search: { refine: 300, refine_front: true, seed: 4 } });
    expect(jobOf({ ...refined, refine: "" }, null)).toEqual(jobOf(FORM, null));
    expect(jobOf({ ...refined, sampler: "random" }, null).search).toEqual({ sampler: "random", seed: 4 });
    expect(commandOf(refined, "http://host:1")).toContain("--refine 300 \\\n  --seed 4 \\\n  --server http://host:1 \\\n  --refine-front");
    const stored = { model: { name: "llama-2-7b" }, cluster: { hardware: "h" }, search: { refine: 300, refine_front: true, seed: 4 } };
    expect(formOfJob(stored, ["llama-2-7b"]).form).toMatchObject({ refine: "300", refine_front: "true", seed: "4" });
  });

  it("fine-tunes, with adapters where the task has them", () => {
    const lora = { ...FORM, task: "lora", adapter_rank: "16", seq_length: "4k", global_batch_size: "32" };
    expect(jobOf(lora, null).training).toEqual({ seq_length: 4096, global_batch_size: 32, task: "lora", adapter: { rank: 16 } });
    expect(jobOf({ ...lora, task: "sft" }, null).training).toEqual({ seq_length: 4096, global_batch_size: 32, task: "sft" });
    expect(jobOf({ ...lora, task: "" }, null).training).toEqual({ seq_length: 4096, global_batch_size: 32 });
    expect(commandOf(lora, "http://host:1")).toContain("--task lora \\\n  --adapter-rank 16 \\\n");
    expect(commandOf({ ...lora, task: "sft" }, "http://host:1")).not.toContain("adapter");
    const training = { task: "lora", adapter: { rank: 16 }, seq_length: 4096, global_batch_size: 32 };
    const stored = { model: { name: "llama-2-7b" }, cluster: { hardware: "h" }, training };
    expect(formOfJob(stored, ["llama-2-7b"]).form).toMatchObject({ task: "lora", adapter_rank: "16" });
    expect(formOfJob({ ...stored, training: { task: "pretrain", adapter: null } }, []).form).toMatchObject({ task: "", adapter_rank: "" });
  });

  it("asks for the batch of a fine-tune, which a preset does not know, and for the rank of adapters", () => {
    expect(missingOf(FORM, null)).toEqual([]);
    expect(missingOf({ ...FORM, task: "sft" }, null)).toEqual(["seq_length", "global_batch_size"]);
    expect(missingOf({ ...FORM, task: "qlora", seq_length: "4096", global_batch_size: "8" }, null)).toEqual(["adapter_rank"]);
    expect(missingOf({ ...FORM, task: "dpo", seq_length: "4096", global_batch_size: "8" }, null)).toEqual([]);
    expect(fieldOfProblem({ pointer: "/training/adapter/rank" })).toBe("adapter_rank");
    expect(fieldOfProblem({ pointer: "/training/task" })).toBe("task");
  });

  it("sends what is no number as it is, for the server to refuse", () => {
    expect(jobOf({ ...FORM, devices: "many" }, null).cluster).toEqual({ hardware: "atlas-800t-a2", num_devices: "many" });
  });

  it("survives the address", () => {
    expect(formOfParams(new URLSearchParams(paramsOfForm(FULL).toString()))).toEqual(FULL);
    expect(paramsOfForm(FORM).toString()).toBe("model=llama-2-7b&hardware=atlas-800t-a2&devices=64");
  });

  it("is filled in from a stored job that asks the same", () => {
    const { model, ...rest } = jobOf(FULL, null);
    const stored = { ...(rest as unknown as Record<string, Record<string, unknown>>), model: { name: model } };
    expect(formOfJob(stored, ["llama-2-7b"]).form).toEqual(FULL);
    expect(formOfJob(stored, []).form).toEqual({ ...FULL, source: "config", model: "" });
  });
});

it.each([
  ["8", 8],
  ["1, 2,4", [1, 2, 4]],
  ["2..8", { min: 2, max: 8 }],
  ["2..", { min: 2 }],
  ["full", "full"],
  ["true,false", [true, false]],
])("the limit %s", (text, expected) => expect(limitOf(text)).toEqual(expected));

it("writes the command as a shell takes it", () => {
  expect(commandOf({ ...FULL, tp: "1, 2" }, "http://host:1")).toBe(
    [
      "meshplan search llama-2-7b", "--hardware atlas-800t-a2", "--devices 64", "--inter-node-bytes-per-s 12500000000", "--seq-length 8192",
      "--stack mindspeed-llm", "--calibration 0123456789ab", "--target mindspeed-llm", "--sampler tpe", "--max-trials 50", "--seed 3", "--tp '1, 2'", "--pp ..8", "--recompute full,none",
      "--server http://host:1",
    ].join(" \\\n  "),
  );
});

it("writes the request with its key where one is needed", () => {
  const request = requestOf({ model: "it's", cluster: {} } as never, {}, "http://host:1", true);
  expect(request).toContain(`"model": "it'\\''s"`);
  expect(request).toContain("$MESHPLAN_API_KEY");
});

it.each([
  ["#/cluster/num_devices", "devices"],
  ["#/cluster/hardware", "hardware"],
  ["#/model", "model"],
  ["#/model/num_layers", "model"],
  ["#/training/seq_length", "seq_length"],
  ["#/search/tp", "tp"],
  ["#/search/pp/min", "pp"],
  ["#/search/time_limit_s", "time_limit"],
  ["#/software/target", "target"],
  ["#/strategy/tp", "tp"],
  ["#", null],
  [null, null],
])("the problem at %s belongs to %s", (pointer, field) => expect(fieldOfProblem({ pointer })).toBe(field));

describe("what the study is called", () => {
  const named: Form = { ...FORM, name: " tender A ", tags: "b, a", note: "it's\nurgent" };

  it("travels beside the job", () => {
    expect(jobOf(named, null)).toEqual(jobOf(FORM, null));
    expect(labelsOf(named)).toEqual({ name: "tender A", tag: ["a", "b"], note: "it's\nurgent" });
    expect(labelsOf(FORM)).toEqual({});
    expect(commandOf(named, "http://host:1")).toContain("--server http://host:1 \\\n  --name 'tender A' \\\n  --tag a,b \\\n  --note 'it'\\''s\nurgent'");
    expect(requestOf(jobOf(FORM, null), labelsOf(named), "http://host:1", false)).toContain("curl 'http://host:1/v1/studies?name=tender%20A&note=it%27s%0Aurgent&tag=a&tag=b'");
  });

  it("is counted on by the next study, which has its tags", () => {
    expect(formOfLabels({ name: "tender A", tags: ["a", "b"] })).toEqual({ name: "tender A (2)", tags: "a, b" });
    expect(formOfLabels({ name: "", tags: [] })).toEqual({ name: "", tags: "" });
  });

  it("is refused beside its own field", () => {
    expect(["name", "tag", "note", "priority"].map((parameter) => fieldOfProblem({ parameter, pointer: null }))).toEqual(["name", "tags", "note", null]);
  });
});
