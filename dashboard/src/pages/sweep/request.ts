/** The form as text, and the request that it stands for. */
import type { Schemas } from "../../api/client";
import { usdOf } from "../../units/currency";
import { numberOrText, type Numbers } from "../../units/written";
import { limitOf } from "../newStudy/form";

export const DEFAULTS = {
  source: "preset", model: "", hardware: "", devices: "", batch: "", sequence: "", software: "", target: "", tokens: "",
  scale: "", deadline: "", budget: "", price: "", objective: "step_time", limit: "",
} as const;
export type Field = keyof typeof DEFAULTS;
export type Form = Readonly<Record<Field, string>>;

export const NUMBERS = {
  tokens: { name: "train_tokens" },
  deadline: { name: "deadline_days" },
  limit: { name: "time_limit_s" },
} as const satisfies Numbers<Field>;

export const STACKS = [
  "mindspeed-llm", "mindspeed-llm-fsdp2", "mindformers", "megatron-lm", "nemo", "megatron-deepspeed", "fsdp", "maxtext",
] as const;

type Part = Record<string, unknown>;
type Job = Record<string, unknown>;

/** A job as text; an answer that holds its job counts as that job. Null where it is none. */
export function jobOfText(text: string): Job | null {
  try {
    const found = JSON.parse(text) as unknown;
    if (typeof found !== "object" || found === null || Array.isArray(found)) return null;
    const { job } = found as Job;
    return typeof job === "object" && job !== null ? (job as Job) : (found as Job);
  } catch {
    return null;
  }
}

/** A section of the job, which may be a name: `hardware` of a cluster, `stack` of the software. */
function part(job: Job, name: string, short: string): Part {
  const value = job[name];
  if (typeof value === "object" && value !== null) return { ...(value as Part) };
  return value === undefined || value === null ? {} : { [short]: value };
}

function counts(text: string): Part {
  const value = limitOf(text);
  const { min, max } = typeof value === "object" && value !== null && !Array.isArray(value) ? (value as { min?: unknown; max?: unknown }) : {};
  return min === undefined && max !== undefined ? { devices_at_most: max } : { devices: value };
}

/** One value belongs to the job, several to the sweep. */
function placed(text: string, sweep: Part, name: string, section: Part, field: string): void {
  if (!text.trim()) return;
  const value = limitOf(text);
  if (Array.isArray(value)) sweep[name] = value;
  else section[field] = value;
}

/** What the form asks for; numbers that are none travel as text, so that the server says what is wrong with them. */
export function requestOf(form: Form, job: Job | null): Schemas["JobDocument"] {
  const base: Job = form.source === "job" ? { ...job } : { model: form.model };
  const cluster = part(base, "cluster", "hardware");
  const software = part(base, "software", "stack");
  const [training, search, delivery, sweep] = [part(base, "training", ""), part(base, "search", ""), part(base, "delivery", ""), part(base, "sweep", "")];
  const hardware = form.hardware.split(",").filter(Boolean);
  if (hardware.length) {
    cluster.hardware = hardware[0];
    if (hardware.length > 1) sweep.hardware = hardware;
    else delete sweep.hardware;
  }
  const stacks = form.software.split(",").filter(Boolean);
  if (stacks.length === 1) software.stack = stacks[0];
  else if (stacks.length) sweep.software = stacks;
  if (form.target) software.target = form.target;
  if (form.devices.trim()) {
    delete sweep.devices;
    delete sweep.devices_at_most;
    Object.assign(sweep, counts(form.devices));
  }
  placed(form.batch, sweep, "global_batch_size", training, "global_batch_size");
  placed(form.sequence, sweep, "seq_length", training, "seq_length");
  if (form.scale) sweep.scale_batch = true;
  const set = (section: Part, field: keyof typeof NUMBERS) => {
    if (form[field].trim()) section[NUMBERS[field].name] = numberOrText(form[field], NUMBERS[field]);
  };
  set(training, "tokens");
  set(search, "deadline");
  if (form.budget.trim()) search.budget_usd = usdOf(form.budget);
  set(search, "limit");
  if (form.objective !== DEFAULTS.objective) search.objective = form.objective;
  if (form.price.trim()) delivery.price_per_device_hour_usd = usdOf(form.price);
  const filled = { cluster, training, software, search, delivery, sweep };
  return {
    ...Object.fromEntries(Object.entries(base).filter(([name]) => !(name in filled))),
    ...Object.fromEntries(Object.entries(filled).filter(([, section]) => Object.keys(section).length)),
  } as unknown as Schemas["JobDocument"];
}

const OF_POINTER: readonly (readonly [string, Field])[] = [
  ["/model", "model"],
  ["/cluster/hardware", "hardware"],
  ["/sweep/hardware", "hardware"],
  ["/cluster/num_devices", "devices"],
  ["/sweep/devices", "devices"],
  ["/sweep/devices_at_most", "devices"],
  ["/sweep/global_batch_size", "batch"],
  ["/training/global_batch_size", "batch"],
  ["/sweep/seq_length", "sequence"],
  ["/training/seq_length", "sequence"],
  ["/sweep/scale_batch", "scale"],
  ["/sweep/software", "software"],
  ["/software/stack", "software"],
  ["/software/target", "target"],
  ["/training/train_tokens", "tokens"],
  ["/search/deadline_days", "deadline"],
  ["/search/budget_usd", "budget"],
  ["/search/objective", "objective"],
  ["/search/time_limit_s", "limit"],
  ["/delivery/price_per_device_hour_usd", "price"],
];

/** The field that a problem's JSON pointer means; null where the form has none. */
export function fieldOfProblem(pointer: string | null | undefined): Field | null {
  const path = (pointer ?? "").replace(/^#/, "");
  return OF_POINTER.find(([start]) => path === start || path.startsWith(`${start}/`))?.[1] ?? null;
}
