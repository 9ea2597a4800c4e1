/** The form as text, and the request that it stands for. */
import type { Schemas } from "../../api/client";
import { numberOrText, type Written } from "../../units/written";

export const DEFAULTS = {
  ask: "search", model: "", hardware: "", devices: "", algorithm: "grpo", prompts: "", samples: "", prompt_tokens: "", mean: "", cap: "", sigma: "",
  quantile_level: "", quantile_length: "", group_share: "", updates: "", kept: "", placement: "", rollout_devices: "", train_devices: "",
  staleness: "", partial: "", max_staleness: "", queue: "", queue_rate: "", tp: "", pp: "", cp: "", ep: "", rollout_tp: "", rollout_ep: "",
  precision: "", engine: "",
} as const;
export type Field = keyof typeof DEFAULTS;
export type Form = Readonly<Record<Field, string>>;

export const ALGORITHMS = ["grpo", "ppo", "dapo"] as const;
export const PLACEMENTS = ["fully-colocated", "train-infer-colocated", "separate", "hybrid"] as const;
export const PRECISIONS = ["bf16", "fp16", "fp8", "int8"] as const;
export const ENGINES = ["per-tensor", "bucketed", "pipelined", "sharded"] as const;

/** Where each field stands in the job. */
const PATHS: Partial<Record<Field, string>> = {
  model: "model",
  hardware: "cluster.hardware",
  devices: "cluster.num_devices",
  algorithm: "post_training.algorithm",
  prompts: "post_training.prompts",
  samples: "post_training.samples",
  prompt_tokens: "post_training.prompt_tokens",
  mean: "post_training.lengths.mean",
  cap: "post_training.lengths.cap",
  sigma: "post_training.lengths.sigma",
  quantile_level: "post_training.lengths.quantile_level",
  quantile_length: "post_training.lengths.quantile_length",
  group_share: "post_training.lengths.group_share",
  updates: "post_training.updates",
  kept: "post_training.kept_fraction",
  placement: "post_training.placement",
  rollout_devices: "post_training.rollout_devices",
  train_devices: "post_training.train_devices",
  staleness: "post_training.staleness.steps",
  partial: "post_training.staleness.partial",
  max_staleness: "post_training.max_staleness",
  queue: "post_training.queue",
  queue_rate: "post_training.queue_bytes_per_s",
  engine: "post_training.reshard_engine",
  tp: "strategy.tp",
  pp: "strategy.pp",
  cp: "strategy.cp",
  ep: "strategy.ep",
  rollout_tp: "rollout.tp",
  rollout_ep: "rollout.ep",
  precision: "rollout.precision",
};

/** Fields are shown in the unit in which people say them. */
const UNITS: Partial<Record<Field, number>> = { queue_rate: 1e9 };
const FRACTIONAL: readonly Field[] = ["mean", "sigma", "quantile_level", "quantile_length", "group_share", "kept", "queue_rate"];
const WORDS: readonly Field[] = ["model", "hardware", "algorithm", "placement", "precision", "engine"];
/** What a search decides itself. */
const OF_ESTIMATES: readonly Field[] = ["rollout_devices", "train_devices", "staleness", "partial"];
const OF_SEARCHES: readonly Field[] = ["max_staleness"];

function valueOf(field: Field, text: string): unknown {
  if (WORDS.includes(field)) return text;
  if (text === "yes") return true;
  return numberOrText(text, writtenOf(field));
}

/** How the field of a number is read. */
export function writtenOf(field: Field): Written {
  const name = PATHS[field]?.split(".").pop() ?? field;
  return { name, whole: !FRACTIONAL.includes(field), ...(UNITS[field] && { scale: UNITS[field] }) };
}

/** What the form asks for; numbers that are none travel as text, so that the server says what is wrong with them. */
export function requestOf(form: Form): Schemas["RlJobDocument"] {
  const job: Record<string, unknown> = {};
  const unused = form.ask === "search" ? OF_ESTIMATES : OF_SEARCHES;
  for (const [field, path] of Object.entries(PATHS) as [Field, string][]) {
    const text = form[field].trim();
    if (!text || unused.includes(field)) continue;
    const parts = path.split(".");
    const name = parts.pop() ?? "";
    let section = job;
    for (const part of parts) section = (section[part] ??= {}) as Record<string, unknown>;
    section[name] = valueOf(field, text);
  }
  return job as unknown as Schemas["RlJobDocument"];
}

/** The field that a problem's JSON pointer means; null where the form has none. */
export function fieldOfProblem(pointer: string | null | undefined): Field | null {
  const path = (pointer ?? "").replace(/^#\//, "").replaceAll("/", ".");
  const found = (Object.entries(PATHS) as [Field, string][]).find(([, each]) => each === path);
  return found ? found[0] : null;
}

/** The form that asks what a job asks; null where the job says more than the form has fields for. */
export function formOfJob(job: Readonly<Record<string, unknown>>): Partial<Form> | null {
  const left = structuredClone({ ...job, schema_version: undefined });
  const form: Partial<Record<Field, string>> = {};
  for (const [field, path] of Object.entries(PATHS) as [Field, string][]) {
    const parts = path.split(".");
    const name = parts.pop() ?? "";
    const section = parts.reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part], left) as Record<string, unknown> | undefined;
    const value = section?.[name];
    if (value === null || value === undefined || typeof value === "object") continue;
    form[field] = value === true ? "yes" : value === false ? "" : typeof value === "number" ? String(value / (UNITS[field] ?? 1)) : String(value);
    delete section?.[name];
  }
  return isEmpty(left) ? form : null;
}

function isEmpty(value: unknown): boolean {
  return value === null || value === undefined || (typeof value === "object" && Object.values(value).every(isEmpty));
}

type Plan = Schemas["RlPlan"];

/** What fills the form in with a plan of a search: its step alone is asked for. */
export function formOfPlan(plan: Plan): Partial<Form> {
  const isApart = plan.placement === "separate";
  return {
    ask: "estimate",
    placement: plan.placement,
    rollout_devices: isApart ? String(plan.rollout_devices) : "",
    train_devices: plan.placement === "fully-colocated" ? "" : String(plan.train_devices),
    staleness: plan.staleness_steps ? String(plan.staleness_steps) : "",
    partial: plan.staleness_steps ? "yes" : "",
    tp: String(plan.strategy.tp),
    pp: String(plan.strategy.pp),
    cp: String(plan.strategy.cp),
    ep: String(plan.strategy.ep),
    rollout_tp: String(plan.rollout.tp),
    rollout_ep: plan.rollout.ep > 1 ? String(plan.rollout.ep) : "",
  };
}
