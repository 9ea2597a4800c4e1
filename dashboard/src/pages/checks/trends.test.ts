import { describe, expect, it } from "vitest";

import type { KeptCheck, Line } from "./data";
import { beforeEach, causesOf, changeOf, failedLines, metricsOf, movedParts, partsBetween, shortName, shown, trendOf, usualMetrics, worse } from "./trends";

const line = (id: string, status: Line["status"], metric: string | null, value: number | null, limit: number | null): Line => ({ id, status, sentence: "", metric, value, limit });

const kept = (id: string, more: Partial<KeptCheck> = {}): KeptCheck => ({
  id, created_at_s: 10, owner: null, visibility: "public", archived: false, name: "a", commit: null, branch: null, change_url: null, taken_from: {},
  status: "passed", version: "1", job_sha256: "x", model: "m", hardware: "h", num_devices: 8, priced_with: { version: "1", calibration: "c", hardware_profile: "p" },
  metrics: { step_time_s: 10, peak_memory_bytes: 5 }, lines: [], moved: null, ...more,
});

const OLD = kept("old", { lines: [line("budget.step_time_s.max", "passed", "step_time_s", 10, 12), line("memory", "passed", "peak_memory_bytes", 5, 60)] });
const NEW = kept("new", { status: "broken", metrics: { step_time_s: 13, own_metric: 1 }, lines: [line("budget.step_time_s.max", "failed", "step_time_s", 13, 12)] });
const LOST = kept("lost", { status: "infeasible", metrics: {}, job_sha256: null, priced_with: null, lines: [line("strategy", "failed", null, null, null)] });

describe("a trend", () => {
  it("runs from old to new, with the bounds of each day and what broke", () => {
    const points = trendOf([LOST, NEW, OLD], "step_time_s");
    expect(points.map(({ check, value, max, isBroken }) => [check.id, value, max, isBroken])).toEqual([
      ["old", 10, 12, false],
      ["new", 13, 12, true],
      ["lost", null, null, false],
    ]);
  });

  it("has the limit of the device as the bound of the memory", () => {
    expect(trendOf([OLD], "peak_memory_bytes")[0]).toMatchObject({ value: 5, max: 60, min: null });
  });

  it("is of the metrics that there are, those of a budget among the usual ones", () => {
    expect(metricsOf([NEW, OLD])).toEqual(["step_time_s", "peak_memory_bytes", "own_metric"]);
    expect(usualMetrics([NEW, OLD])).toEqual(["step_time_s", "peak_memory_bytes"]);
    const bounded = kept("b", { metrics: { own_metric: 1, mfu_fraction: 0.4 }, lines: [line("budget.own_metric.min", "passed", "own_metric", 1, 0)] });
    expect(usualMetrics([bounded])).toEqual(["own_metric"]);
  });
});

describe("what moved", () => {
  it("is worse where more is worse or less is", () => {
    expect(changeOf(11, 10)).toBeCloseTo(0.1);
    expect([changeOf(null, 10), changeOf(1, 0), changeOf(1, undefined)]).toEqual([null, null, null]);
    expect([worse("step_time_s", 0.1), worse("step_time_s", -0.1), worse("tokens_per_s", 0.1), worse("headroom_bytes", -0.1), worse("step_time_s", 1e-12), worse("a", null)]).toEqual([1, -1, -1, 1, 0, 0]);
  });

  it("is the job or the tool", () => {
    const other = kept("o", { job_sha256: "y", version: "2", priced_with: { version: "2", calibration: "c", hardware_profile: "q" } });
    expect(causesOf(other, OLD)).toEqual(["job", "version", "hardware_profile"]);
    expect(causesOf(kept("same"), OLD)).toEqual([]);
    expect(causesOf(LOST, OLD)).toEqual([]); // nothing is known of a job that could not be read
    expect(causesOf(OLD, undefined)).toEqual([]);
  });

  it("is told part by part, what moved most first", () => {
    expect(partsBetween({ a: 1, b: 5, gone: 1 }, { a: 1.5, b: 3, new: 0 })).toEqual([
      { part: "b", before: 5, value: 3, change: -2 },
      { part: "gone", before: 1, value: 0, change: -1 },
      { part: "a", before: 1, value: 1.5, change: 0.5 },
    ]);
    expect(partsBetween(undefined, { a: 1 })).toEqual([]);
  });

  it("is drawn where a bar would be seen", () => {
    const part = (name: string, change: number) => ({ part: name, before: 1, value: 1 + change, change });
    expect(movedParts([part("a", -2), part("b", 0.01), part("c", 0.001), part("d", 0)]).map((found) => found.part)).toEqual(["a", "b"]);
    expect(movedParts([part("a", 0)])).toEqual([]);
    expect(movedParts(Array.from({ length: 20 }, (_, place) => part(String(place), 1)))).toHaveLength(10);
  });

  it("is against the check before that could be priced", () => {
    const before = beforeEach([kept("again"), LOST, NEW, OLD]);
    expect(["again", "lost", "new", "old"].map((id) => before.get(id)?.id)).toEqual(["new", "new", "old", undefined]);
    expect(beforeEach([]).size).toBe(0);
  });
});

it("a check is called by its commit, else by its moment", () => {
  expect(shortName(kept("a", { commit: "0123456789abcdef" }), String)).toBe("01234567");
  expect(shortName(OLD, (atS) => `at ${atS}`)).toBe("at 10");
});

it("numbers have the unit of their name", () => {
  expect([shown("step_time_s", 1.5), shown("peak_memory_bytes", 2 ** 30), shown("mfu_fraction", 0.5), shown("device_days", 51.23), shown("device_days", 12_345), shown("x", null)]).toEqual([
    "1.500 s", "1.00 GiB", "50.0 %", "51.2", "12,345", "–",
  ]);
});

it("failed lines are those that failed", () => {
  expect(failedLines(NEW.lines)).toHaveLength(1);
  expect(failedLines(OLD.lines)).toEqual([]);
});
