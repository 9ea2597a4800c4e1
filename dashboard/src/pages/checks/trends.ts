/** Checks of a history as what charts and tables show of them. */
import { bytes, compact, count, duration, number, percent, seconds, tokensPerSecond } from "../../units/format";
import type { CheckDocument, KeptCheck, Line } from "./data";

/** In this order; others that a budget names stand behind them. */
const METRICS = [
  "step_time_s", "peak_memory_bytes", "tokens_per_s", "mfu_fraction", "headroom_bytes", "device_days",
  "delivered_days", "delivered_tokens_per_day", "effective_time_fraction", "mtbf_s", "slowdown_against_best_fraction",
];
/** Shown unless the reader chooses others; with those that a budget bounds. */
const USUAL = ["step_time_s", "peak_memory_bytes", "tokens_per_s"];
const HIGHER_IS_BETTER = /^(tokens_per_s|mfu_|headroom_|memory_limit|fit_limit|fits_prob|mtbf_|effective_|delivered_tokens)/;
const COMMIT_LETTERS = 8;

export interface Point {
  check: KeptCheck;
  /** Null where the job could not be priced. */
  value: number | null;
  max: number | null;
  min: number | null;
  /** A bound, or the tolerance against the baseline, of this very metric is broken. */
  isBroken: boolean;
}

/** Metrics that any of the checks has. */
export function metricsOf(checks: readonly KeptCheck[]): string[] {
  const found = new Set(checks.flatMap(({ metrics }) => Object.keys(metrics)));
  const others = [...found].filter((metric) => !METRICS.includes(metric)).sort();
  return [...METRICS.filter((metric) => found.has(metric)), ...others];
}

export function usualMetrics(checks: readonly KeptCheck[]): string[] {
  const bounded = new Set(checks.flatMap(({ lines }) => lines.filter(({ id }) => id.startsWith("budget.")).map(({ metric }) => metric)));
  return metricsOf(checks).filter((metric) => USUAL.includes(metric) || bounded.has(metric));
}

const isOf = (line: Line, metric: string): boolean => line.metric === metric;

function boundOf(check: KeptCheck, metric: string, end: "min" | "max"): number | null {
  const given = check.lines.find((line) => line.id === `budget.${metric}.${end}`)?.limit;
  // That it fits is looked at without being asked for.
  const device = end === "max" ? check.lines.find((line) => line.id === "memory" && isOf(line, metric))?.limit : undefined;
  return given ?? device ?? null;
}

/** Oldest first. `checks` are newest first, as the server lists them. */
export function trendOf(checks: readonly KeptCheck[], metric: string): Point[] {
  return [...checks].reverse().map((check) => ({
    check,
    value: check.metrics[metric] ?? null,
    max: boundOf(check, metric, "max"),
    min: boundOf(check, metric, "min"),
    isBroken: check.lines.some((line) => isOf(line, metric) && line.status === "failed"),
  }));
}

/** By which part of the value before it changed; null where either is missing. */
export function changeOf(value: number | null | undefined, before: number | null | undefined): number | null {
  return value == null || before == null || before === 0 ? null : value / before - 1;
}

/** Whether a change of the metric is for the worse: 1, for the better: -1, or none: 0. */
export function worse(metric: string, change: number | null): -1 | 0 | 1 {
  if (change === null || Math.abs(change) < 1e-9) return 0;
  return change > 0 === HIGHER_IS_BETTER.test(metric) ? -1 : 1;
}

export type Cause = "job" | "version" | "calibration" | "hardware_profile";

/** What is another in this check than in the one before it; empty where nothing is, or where nothing is known. */
export function causesOf(check: KeptCheck, before: KeptCheck | undefined): Cause[] {
  if (!before) return [];
  const causes: Cause[] = check.job_sha256 !== null && before.job_sha256 !== null && check.job_sha256 !== before.job_sha256 ? ["job"] : [];
  if (check.version !== before.version) causes.push("version");
  const [now, then] = [check.priced_with, before.priced_with];
  if (now && then) causes.push(...(["calibration", "hardware_profile"] as const).filter((part) => now[part] !== then[part]));
  return causes;
}

/** By id, the check before each in its history that could be priced; `checks` are newest first. */
export function beforeEach(checks: readonly KeptCheck[]): Map<string, KeptCheck> {
  const found = new Map<string, KeptCheck>();
  let before: KeptCheck | undefined;
  for (const check of [...checks].reverse()) {
    if (before) found.set(check.id, before);
    if (check.job_sha256 !== null) before = check;
  }
  return found;
}

/** What a check is called in lists and on axes: its commit, else its moment. */
export function shortName(check: KeptCheck, moment: (atS: number) => string): string {
  return check.commit === null ? moment(check.created_at_s) : check.commit.slice(0, COMMIT_LETTERS);
}

export const failedLines = (lines: readonly Line[]): Line[] => lines.filter(({ status }) => status === "failed");

export interface Part {
  part: string;
  before: number;
  value: number;
  change: number;
}

/** Parts of two breakdowns, those that moved most first; none where either has none. */
export function partsBetween(before: Readonly<Record<string, number>> | undefined, now: Readonly<Record<string, number>> | undefined): Part[] {
  if (!before || !now) return [];
  return [...new Set([...Object.keys(now), ...Object.keys(before)])]
    .map((part) => ({ part, before: before[part] ?? 0, value: now[part] ?? 0 }))
    .filter(({ before: old, value }) => old !== 0 || value !== 0)
    .map((part) => ({ ...part, change: part.value - part.before }))
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

const MOST_PARTS = 10;
const LEAST_SHARE = 1 / 1000; // of what moved most: less is a bar that nobody sees

/** Those worth a bar. */
export function movedParts(parts: readonly Part[]): Part[] {
  const most = parts.reduce((high, { change }) => Math.max(high, Math.abs(change)), 0);
  return parts.filter(({ change }) => change !== 0 && Math.abs(change) >= most * LEAST_SHARE).slice(0, MOST_PARTS);
}

export interface Moved {
  time: Part[];
  memory: Part[];
}

/** Against the baseline that the check was given, as its answer says. */
export const movedAgainstBaseline = ({ baseline }: CheckDocument): Moved | null =>
  baseline && { time: baseline.time_parts, memory: baseline.memory_parts };

/** Against the check before it. */
export function movedSince(before: CheckDocument, now: CheckDocument): Moved {
  return {
    time: partsBetween(before.estimate?.time_breakdown_s, now.estimate?.time_breakdown_s),
    memory: partsBetween(before.estimate?.memory_breakdown_bytes, now.estimate?.memory_breakdown_bytes),
  };
}

/** The number with its unit. */
export function shown(metric: string, value: number | null | undefined): string {
  if (value == null) return "–";
  if (metric.endsWith("_bytes")) return bytes(value);
  if (/_(fraction|probability)$/.test(metric)) return percent(value);
  if (/^tokens_per_s/.test(metric)) return tokensPerSecond(value);
  if (metric === "mtbf_s") return duration(value);
  if (metric.endsWith("_s")) return seconds(value);
  if (metric === "delivered_tokens_per_day") return compact(value);
  return Math.abs(value) >= 1000 ? count(value) : number(value);
}
