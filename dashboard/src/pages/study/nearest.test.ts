import { expect, it } from "vitest";

import { changeText, jobWith, studyAddress } from "./nearest";

const JOB = { model: { name: "llama" }, cluster: { hardware: "h", num_devices: 1 }, training: { seq_length: 4096 }, search: { tp: [16], min_headroom: 0.1 } };
const told = (key: string, values: Record<string, unknown> = {}) => `${key}(${Object.values(values).join(" ")})`;

it("changes fields and leaves others out, in a copy", () => {
  expect(jobWith(JOB, { "cluster.num_devices": 8, "search.tp": null, "software.target": "any" })).toEqual({
    ...JOB, cluster: { hardware: "h", num_devices: 8 }, search: { min_headroom: 0.1 }, software: { target: "any" },
  });
  expect(JOB.search.tp).toEqual([16]);
});

it("leads to the form where that has the field", () => {
  const params = (fields: Record<string, unknown>) => studyAddress(JOB, fields, ["llama"]);
  expect(params({ "cluster.num_devices": 8 })).toBe("/studies/new?model=llama&hardware=h&devices=8&seq_length=4096&tp=16");
  expect(params({ "search.tp": null, "search.min_headroom": 0 })).toBe("/studies/new?model=llama&hardware=h&devices=1&seq_length=4096");
  expect(params({ "search.swap_optimizer": true })).toBeNull();
});

it("tells a change field by field", () => {
  expect(changeText({ "search.tp": null, "cluster.num_devices": 2048 }, told)).toBe("study:nearest.free(tp)study:nearest.and()study:nearest.field.num_devices(2,048)");
  expect(changeText({ "search.zero_stage": 2 }, told)).toBe("study:nearest.set(zero_stage 2)");
});
