import type { Estimate } from "../../api/queries";

export interface PartDifference {
  part: string;
  seconds: number;
}

/** How one step differs from another: the share, and the parts that matter, largest first. */
export interface Comparison {
  /** Of the other's step time; positive: slower. */
  fraction: number;
  loses: PartDifference[];
  saves: PartDifference[];
  memoryBytes: number;
}

const MOST = 2;
/** Parts below this share of the whole difference are not worth a word. */
const LEAST = 1 / 20;

export function compared(one: Estimate, other: Estimate): Comparison {
  const extra = one.step_time_s - other.step_time_s;
  const names = [...new Set([...Object.keys(one.time_breakdown_s), ...Object.keys(other.time_breakdown_s)])];
  const parts = names
    .map((part) => ({ part, seconds: (one.time_breakdown_s[part] ?? 0) - (other.time_breakdown_s[part] ?? 0) }))
    .filter(({ seconds }) => Math.abs(seconds) > Math.abs(extra) * LEAST)
    .sort((a, b) => Math.abs(b.seconds) - Math.abs(a.seconds));
  return {
    fraction: extra / other.step_time_s,
    loses: parts.filter(({ seconds }) => seconds > 0).slice(0, MOST),
    saves: parts.filter(({ seconds }) => seconds < 0).slice(0, MOST),
    memoryBytes: one.peak_memory_bytes - other.peak_memory_bytes,
  };
}

/** Parts of a breakdown that are not nothing, largest first. */
export function largest(parts: Readonly<Record<string, number>>): { part: string; value: number }[] {
  return Object.entries(parts)
    .map(([part, value]) => ({ part, value }))
    .filter(({ value }) => value > 0)
    .sort((a, b) => b.value - a.value || a.part.localeCompare(b.part));
}
