import { describe, expect, it } from "vitest";

import type { Plan, Study } from "../../../api/queries";
import { barsOf, totals, type Stretch } from "./month";
import { fieldOfProblem, requestOf, type SiteForm } from "./site";

const stretch = (start_s: number, end_s: number, state: Stretch["state"], rest: Partial<Stretch> = {}): Stretch => ({
  start_s, end_s, state, rate: state === "runs" ? 1 : 0, ended_by: null, repeated_s: 0, ...rest,
});

describe("barsOf", () => {
  it("cuts at midnight and shows what was thrown away", () => {
    const bars = barsOf([stretch(0, 90_000, "runs", { ended_by: "node", repeated_s: 1800 }), stretch(90_000, 93_600, "recovers")]);
    expect(bars).toEqual([
      { day: 0, startH: 0, endH: 24, state: "runs", endedBy: null },
      { day: 1, startH: 0, endH: 0.5, state: "runs", endedBy: null },
      { day: 1, startH: 0.5, endH: 1, state: "repeated", endedBy: "node" },
      { day: 1, startH: 1, endH: 2, state: "recovers", endedBy: null },
    ]);
    expect(totals(bars)).toEqual({ runs: 88_200, slow: 0, repeated: 1800, recovers: 3600, waits: 0 });
  });

  it("calls a run below the full rate slow", () => {
    expect(barsOf([stretch(0, 3600, "runs", { rate: 0.9 })])[0]?.state).toBe("slow");
  });
});

const EMPTY: SiteForm = {
  mtbf_s: "", recovery: "", spares: "", repair_s: "", storage_write_bytes_per_s: "", price_per_device_hour_usd: "", elastic: "",
};

it("asks for the plan on the site of the form, in SI units, and keeps the job's own site", () => {
  const job = { model: "m", cluster: { a: 1 }, training: { b: 2 }, software: { c: 3 }, search: {}, delivery: { spares: 7, detection_s: 5 } };
  const study = { job } as unknown as Study;
  const plan = { strategy: { tp: 8 } } as unknown as Plan;
  expect(requestOf(study, plan, { ...EMPTY, mtbf_s: "3.1", spares: "x", elastic: "true" })).toEqual({
    model: "m", cluster: { a: 1 }, training: { b: 2 }, software: { c: 3 }, strategy: { tp: 8 },
    delivery: { histories: 500, spares: "x", detection_s: 5, mtbf_s: 11_160, elastic: true },
  });
});

it("finds the field that a pointer means", () => {
  expect(fieldOfProblem("#/delivery/mtbf_s")).toBe("mtbf_s");
  expect(fieldOfProblem("#/strategy/tp")).toBeNull();
  expect(fieldOfProblem(null)).toBeNull();
});
