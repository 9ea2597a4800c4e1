/** What plans differ in: the axes of the parallel coordinates, and the filters that brushing them makes. */
import { exposedCommunication } from "../../components/communication";
import { recomputeText } from "../../components/strategy";
import type { RankedPlan } from "./data";

type Of = (plan: RankedPlan) => string | number;

/** Choices have few values, each with a place on its axis. */
const CHOICES: Record<string, Of> = {
  tp: ({ strategy }) => strategy.tp,
  pp: ({ strategy }) => strategy.pp,
  vpp: ({ strategy }) => strategy.vpp,
  cp: ({ strategy }) => strategy.cp,
  ep: ({ strategy }) => strategy.ep,
  etp: ({ strategy }) => strategy.etp,
  dp: ({ strategy }) => strategy.dp,
  micro_batch_size: ({ strategy }) => strategy.micro_batch_size,
  schedule: ({ strategy }) => strategy.schedule,
  recompute: ({ strategy }) => recomputeText(strategy.recompute),
  zero_stage: ({ strategy }) => strategy.zero_stage,
  sequence_parallel: ({ strategy }) => (strategy.sequence_parallel ? "on" : "off"),
  moe_dispatcher: ({ strategy }) => strategy.moe_dispatcher ?? "none",
  swap_optimizer: ({ strategy }) => (strategy.features.includes("swap_optimizer") ? "on" : "off"),
};

const MEASURES: Record<string, (plan: RankedPlan) => number> = {
  bubble: ({ estimate }) => (estimate.time_breakdown_s.pipeline_bubble ?? 0) / estimate.step_time_s,
  communication: ({ estimate }) => exposedCommunication(estimate) / estimate.step_time_s,
  memory: ({ estimate }) => estimate.peak_memory_bytes,
  step: ({ estimate }) => estimate.step_time_s,
};

export type Dimension =
  | { key: string; kind: "choice"; value: Of; values: readonly (string | number)[] }
  | { key: string; kind: "measure"; value: (plan: RankedPlan) => number; low: number; high: number };

/** Those in which the plans differ. */
export function dimensionsOf(plans: readonly RankedPlan[]): readonly Dimension[] {
  const found: Dimension[] = [];
  for (const [key, value] of Object.entries(CHOICES)) {
    const values = [...new Set(plans.map(value))].sort(byValue);
    if (values.length > 1) found.push({ key, kind: "choice", value, values });
  }
  for (const [key, value] of Object.entries(MEASURES)) {
    const all = plans.map(value);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    if (high > low) found.push({ key, kind: "measure", value, low, high });
  }
  return found;
}

function byValue(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

const LINE_PX = 13;

/** What stands at the values of an axis: the parts of `a+b` on lines of their own where these have room, so that none is cut. */
export function axisTexts(values: readonly (string | number)[], heightPx: number): readonly string[] {
  const texts = values.map((value) => String(value).replaceAll("+", "\n+"));
  const lines = Math.max(...texts.map((text) => text.split("\n").length));
  return lines * LINE_PX <= heightPx / values.length ? texts : values.map(String);
}

/** What is kept of one dimension. */
export type Filter = { key: string; values: readonly string[] } | { key: string; low: number; high: number };

/** `pp~4~8` keeps two values, `step~16.2~17.1` a range; `null` for what is neither. */
export function filterFromText(text: string): Filter | null {
  const [key = "", ...values] = text.split("~");
  if (!values.length || values.includes("")) return null;
  if (Object.hasOwn(CHOICES, key)) return { key, values };
  const [low, high] = values.map(Number);
  const isRange = values.length === 2 && Number.isFinite(low) && Number.isFinite(high);
  return Object.hasOwn(MEASURES, key) && isRange ? { key, low: low ?? 0, high: high ?? 0 } : null;
}

export function filterText(filter: Filter): string {
  return [filter.key, ...("values" in filter ? filter.values : [filter.low, filter.high])].join("~");
}

export function isKept(plan: RankedPlan, filters: readonly Filter[]): boolean {
  return filters.every((filter) => {
    if ("values" in filter) return filter.values.includes(String(CHOICES[filter.key]?.(plan)));
    const value = MEASURES[filter.key]?.(plan) ?? Number.NaN;
    return value >= filter.low && value <= filter.high;
  });
}

/** What a brush on the dimension's axis keeps; a choice's values stand at 0, 1, 2. */
export function filterOfIntervals(dimension: Dimension, intervals: readonly (readonly [number, number])[]): Filter | null {
  const { key } = dimension;
  const first = intervals[0];
  if (!first) return null;
  if (dimension.kind === "measure") {
    const [low, high] = [Math.min(...first), Math.max(...first)].map((end) => Number(end.toPrecision(5)));
    return { key, low: low ?? 0, high: high ?? 0 };
  }
  const isIn = (place: number) => intervals.some((interval) => place >= Math.min(...interval) && place <= Math.max(...interval));
  const nearest = Math.round((first[0] + first[1]) / 2); // where the brush lies between two
  const inside = dimension.values.filter((_, place) => isIn(place));
  return { key, values: (inside.length ? inside : dimension.values.slice(nearest, nearest + 1)).map(String) };
}

const AROUND = 0.3; // of the distance between two values

export function intervalsOfFilter(dimension: Dimension, filter: Filter | undefined): [number, number][] {
  if (!filter) return [];
  if ("low" in filter) return dimension.kind === "measure" ? [[filter.low, filter.high]] : [];
  if (dimension.kind === "measure") return [];
  const places = dimension.values.flatMap((value, place) => (filter.values.includes(String(value)) ? [place] : []));
  const runs: [number, number][] = [];
  for (const place of places) {
    const last = runs[runs.length - 1];
    if (last && last[1] === place - 1) last[1] = place;
    else runs.push([place, place]);
  }
  return runs.map(([first, last]) => [Math.max(0, first - AROUND), Math.min(dimension.values.length - 1, last + AROUND)]);
}

/** Plans that no other beats in both time and memory, by memory. */
export function paretoFront<Point extends { step: number; memory: number }>(points: readonly Point[]): Point[] {
  const front: Point[] = [];
  for (const point of [...points].sort((a, b) => a.memory - b.memory || a.step - b.step))
    if (point.step < (front[front.length - 1]?.step ?? Infinity)) front.push(point);
  return front;
}
