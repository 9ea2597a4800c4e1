/** What the points of a sweep are called, compared and exported as. */
import type { Schemas } from "../../api/client";
import type { Cell } from "../../components/csv";
import { recomputeText } from "../../components/strategy";
import { marks } from "../../i18n";
import { count } from "../../units/format";
import { formOfJob, LIMITS, paramsOfForm, type Form } from "../newStudy/form";

export type Sweep = Schemas["SweepDocument"];
export type Point = Schemas["SweepPoint"];
/** With a plan: its numbers are there. */
export type Planned = Point & { strategy: NonNullable<Point["strategy"]>; step_time_s: number; tokens_per_s: number };

const AXES = ["hardware", "stack", "target", "seq_length", "global_batch_size"] as const;
type Axis = (typeof AXES)[number];

export const isPlanned = (point: Point): point is Planned => point.strategy != null && point.step_time_s != null && point.tokens_per_s != null;

type Combination = Pick<Point, Axis>;

/** Axes that tell combinations apart: one that follows from those before it, as the stack from the hardware, is left out. */
export function varied(points: readonly Combination[], axes: readonly Axis[] = AXES.filter((axis) => axis !== "target")): Axis[] {
  const kept: Axis[] = [];
  const kinds = (names: readonly Axis[]) => new Set(points.map((point) => JSON.stringify(names.map((axis) => point[axis])))).size;
  for (const axis of axes) if (kinds([...kept, axis]) > kinds(kept)) kept.push(axis);
  return kept;
}

interface Words {
  seq_length: (value: string) => string;
  global_batch_size: (value: string) => string;
}

/** What makes the point other than its neighbours, but for its devices. */
export function nameOf(point: Combination, axes: readonly Axis[], words: Words): string {
  return axes
    .map((axis) => (axis === "seq_length" || axis === "global_batch_size" ? words[axis](count(point[axis])) : point[axis]))
    .filter(Boolean)
    .join(marks().comma);
}

/** The points of a curve, by devices. */
export function pointsOf(sweep: Sweep, numbers: readonly number[]): Planned[] {
  return numbers.flatMap((number) => sweep.points.filter((point) => point.point === number)).filter(isPlanned);
}

/** Curves of one name each; the batch is told only where curves differ in nothing else. */
export function curvesOf(sweep: Sweep, words: Words): { name: string; points: Planned[]; kneeDevices: number | null }[] {
  const axes = varied(sweep.curves, AXES);
  return sweep.curves.map((curve) => ({ name: nameOf(curve, axes, words), points: pointsOf(sweep, curve.points), kneeDevices: curve.knee_devices ?? null }));
}

/** Tokens a second if every device brought as much as at the smallest count. */
export function idealOf(points: readonly Planned[]): [devices: number, tokensPerS: number][] {
  const [first] = points;
  return first ? points.map(({ num_devices: devices }) => [devices, (first.tokens_per_s / first.num_devices) * devices]) : [];
}

const NUMBERS = [
  "point", "hardware", "stack", "target", "num_devices", "global_batch_size", "seq_length", "state", "reason", "plan_id", "step_time_s",
  "step_time_low_s", "step_time_high_s", "tokens_per_s", "tokens_per_s_per_device", "mfu_fraction", "peak_memory_bytes", "headroom_bytes",
  "fit_limit_bytes", "fits_probability", "bottleneck", "linearity_fraction", "marginal_fraction", "effective_time_fraction", "days", "device_days",
  "energy_kwh", "cost_usd", "sure_days", "within_probability", "within",
] as const;
const WITH_INTERVAL: readonly string[] = ["tokens_per_s", "tokens_per_s_per_device", "days", "device_days", "energy_kwh", "cost_usd"];
const STRATEGY = ["tp", "pp", "cp", "ep", "vpp", "dp", "micro_batch_size", "schedule"] as const;

/** A line for each point, as `meshplan sweep --output` writes it: where a number has an interval, its ends follow it. */
export function linesOf(sweep: Sweep): Cell[][] {
  const ended = (name: string) => (WITH_INTERVAL.includes(name) ? [name, `${name}_low`, `${name}_high`] : [name]);
  const numbered = (point: Point, name: (typeof NUMBERS)[number]): Cell[] => {
    const ends = point.intervals?.[name];
    return WITH_INTERVAL.includes(name) ? [point[name], ends?.low, ends?.high] : [point[name]];
  };
  return [
    [...NUMBERS.flatMap(ended), ...STRATEGY],
    ...sweep.points.map((point) => [...NUMBERS.flatMap((name) => numbered(point, name)), ...STRATEGY.map((name) => point.strategy?.[name])]),
  ];
}

/** What the peak leaves below the largest peak that fits. Bytes. */
export const freeBytes = ({ fit_limit_bytes: limit, peak_memory_bytes: peak }: Point): number | null => (limit == null || peak == null ? null : limit - peak);

/** The address of the form of a study of this size; with `isPlan` of this point's plan alone. */
export function studyAddress(sweep: Sweep, point: Point, presets: readonly string[], isPlan: boolean): string {
  const job = sweep.job as Record<string, Record<string, unknown>>;
  const { form } = formOfJob(
    {
      ...job,
      cluster: { ...job.cluster, hardware: point.hardware, num_devices: point.num_devices },
      training: { ...job.training, seq_length: point.seq_length, global_batch_size: point.global_batch_size },
      software: { ...job.software, stack: point.stack, target: point.target },
    },
    presets,
  );
  return `/studies/new?${paramsOfForm({ ...form, ...(isPlan && limitsOf(point)) })}`;
}

function limitsOf({ strategy }: Point): Partial<Form> {
  if (!strategy) return {};
  const { recompute, ...degrees } = strategy;
  const text = recompute.layers_per_stage ? "" : recomputeText(recompute);
  return Object.fromEntries(LIMITS.map((name) => [name, name === "recompute" ? text : String(degrees[name])]));
}
