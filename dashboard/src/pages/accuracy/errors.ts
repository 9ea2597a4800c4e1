/** How far predictions are off, over any set of runs. */
import type { Schemas } from "../../api/client";

export type Run = Schemas["PublishedRun"];

/** `unseen`: every run of the same document left out of the fit and of all that was tuned, the figure that docs/accuracy.md leads with. `shipped`: the constants that price a job. */
export const VIEWS = ["unseen", "shipped"] as const;
export type View = (typeof VIEWS)[number];

export const CATEGORIES = ["dense_single", "dense_multi", "long", "moe", "slice"] as const;

export interface Errors {
  count: number;
  median: number;
  mean: number;
  p90: number;
  bias: number;
  /** Share of measured times inside their interval; null where no run has one. */
  coverage: number | null;
}

/** What a run counts with: predicted / measured - 1. */
export function errorOf(run: Run, view: View): number | null {
  return view === "unseen" ? (run.publication_left_out_error_fraction ?? null) : run.error_fraction;
}

function isInside(run: Run, view: View): boolean | null {
  if (view === "unseen") return run.left_out_inside;
  const { low_s: low, high_s: high, measured_step_time_s: measured } = run;
  return low === null || high === null || measured === null ? null : low <= measured && measured <= high;
}

/** The time that the error stands for. [s] */
export function predictedOf(run: Run, view: View): number | null {
  const error = errorOf(run, view);
  return error === null || run.measured_step_time_s === null ? null : run.measured_step_time_s * (1 + error);
}

/** A configuration counts once, and not where its measurement is in doubt. */
export function isJudged({ is_latest, suspect }: Run): boolean {
  return is_latest && suspect === null;
}

export function errorsOf(runs: readonly Run[], view: View): Errors | null {
  const known = runs.filter((run) => errorOf(run, view) !== null);
  const inside = known.map((run) => isInside(run, view)).filter((found) => found !== null);
  const errors = known.map((run) => errorOf(run, view) ?? 0);
  return summarised(errors, inside.length ? inside.filter(Boolean).length / inside.length : null);
}

/** Median, mean and p90 of the errors' sizes; bias is their median with its sign. */
export function summarised(errors: readonly number[], coverage: number | null = null): Errors | null {
  if (!errors.length) return null;
  const sizes = errors.map(Math.abs);
  return {
    count: errors.length,
    median: quantile(sizes, 0.5),
    mean: sizes.reduce((sum, size) => sum + size, 0) / sizes.length,
    p90: quantile(sizes, 0.9),
    bias: quantile(errors, 0.5),
    coverage,
  };
}

/** Linear between neighbours, as NumPy's. */
export function quantile(values: readonly number[], fraction: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * fraction;
  const below = sorted[Math.floor(place)] ?? NaN;
  const above = sorted[Math.ceil(place)] ?? NaN;
  return below + (above - below) * (place - Math.floor(place));
}
