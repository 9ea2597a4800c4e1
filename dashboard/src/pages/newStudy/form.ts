/** The form as text, its place in the address, and what it stands for: a job, a request, a command. */
import type { Schemas } from "../../api/client";
import type { CustomModel } from "../../components/customModel";
import { LABELS, nextName, tagsOfText, tagsText } from "../../components/labels/labels";
import { numberOrText, readNumber, type Numbers } from "../../units/written";

type Job = Schemas["JobDocument"];

export const LIMITS = ["tp", "pp", "vpp", "cp", "ep", "micro_batch_size", "recompute", "zero_stage"] as const;
const FIELDS = [
  "source", "model", "hardware", "devices", "inter_node", "seq_length", "global_batch_size", "precision", "train_tokens", "task", "adapter_rank",
  "stack", "calibration", "target", "objective", "sampler", "max_trials", "seed", "refine", "refine_front", "top", "time_limit", ...LIMITS, ...LABELS,
] as const;

export type Field = (typeof FIELDS)[number];
export type Form = Record<Field, string>;

export const NUMBERS = {
  devices: { name: "num_devices", whole: true },
  inter_node: { name: "inter_node_bytes_per_s", scale: 1e9 },
  seq_length: { name: "seq_length", whole: true },
  global_batch_size: { name: "global_batch_size", whole: true },
  train_tokens: { name: "train_tokens" },
  adapter_rank: { name: "rank", whole: true },
  max_trials: { name: "max_trials", whole: true },
  seed: { name: "seed", whole: true },
  refine: { name: "refine", whole: true },
  top: { name: "top", whole: true },
  time_limit: { name: "time_limit_s" },
} as const satisfies Numbers<Field>;

/** What the server decides where nothing is said. */
export const AUTOMATIC = "auto";

export const DEFAULTS: Form = {
  ...(Object.fromEntries(FIELDS.map((field) => [field, ""])) as Form),
  source: "preset",
  target: AUTOMATIC,
  objective: "step_time",
  sampler: "exhaustive",
};

export function formOfParams(params: URLSearchParams): Form {
  return Object.fromEntries(FIELDS.map((field) => [field, params.get(field) ?? DEFAULTS[field]])) as Form;
}

export function paramsOfForm(form: Form): URLSearchParams {
  return new URLSearchParams(FIELDS.filter((field) => form[field] !== DEFAULTS[field]).map((field) => [field, form[field]]));
}

/** A number where the text is one; else the text, which the server refuses with a sentence. */
function word(text: string): number | boolean | string {
  const trimmed = text.trim();
  if (trimmed === "true" || trimmed === "false") return trimmed === "true";
  return readNumber(trimmed, { name: "" }) ?? trimmed;
}

/** `8`, `1,2,4` or `2..8`, as on the command line. */
export function limitOf(text: string): unknown {
  const [low, high] = text.split("..");
  if (high !== undefined) {
    return { ...(low?.trim() && { min: word(low) }), ...(high.trim() && { max: word(high) }) };
  }
  const words = text.split(",").map(word);
  return words.length === 1 ? words[0] : words;
}

function textOfLimit(limit: unknown): string {
  if (limit === null || limit === undefined) return "";
  if (Array.isArray(limit)) return limit.join(",");
  if (typeof limit === "object") {
    const { min, max } = limit as { min?: number | null; max?: number | null };
    return `${min ?? ""}..${max ?? ""}`;
  }
  return String(limit);
}

const WRITTEN = Object.fromEntries(Object.values(NUMBERS).map((written) => [written.name, written]));

/** Of the fields that were filled in, by their names in the job. */
function given(entries: Record<string, string>): Record<string, unknown> {
  const filled = Object.entries(entries).filter(([, text]) => text.trim() !== "");
  return Object.fromEntries(filled.map(([name, text]) => [name, WRITTEN[name] ? numberOrText(text, WRITTEN[name]) : word(text)]));
}

function unless(text: string, usual: string): string {
  return text === usual ? "" : text;
}

function section(name: string, fields: Record<string, unknown>): Record<string, unknown> {
  return Object.keys(fields).length ? { [name]: fields } : {};
}

/** Whether low-rank adapters are trained: always, or (dpo) where their rank is given. */
export const ADAPTED: Record<string, "needed" | "possible"> = { lora: "needed", qlora: "needed", dpo: "possible" };

/** Whether the job is not the one that a preset's own training is for. */
export const isTuning = (form: Form): boolean => !["", "pretrain"].includes(form.task);

/** Whether trials around the best plans are asked for: of an exhaustive search only. */
export const isRefined = (form: Form): boolean => form.sampler === DEFAULTS.sampler && form.refine.trim() !== "";

/** What the form asks for; numbers that are none travel as text, so that the server says what is wrong with them. */
export function jobOf(form: Form, custom: CustomModel | null): Job {
  const isSampled = form.sampler !== DEFAULTS.sampler;
  const limits = Object.fromEntries(LIMITS.filter((name) => form[name].trim()).map((name) => [name, limitOf(form[name])]));
  return {
    model: form.source === "config" ? (custom?.model ?? "") : form.model,
    cluster: given({ hardware: form.hardware, num_devices: form.devices, inter_node_bytes_per_s: form.inter_node }),
    ...section(
      "training",
      {
        ...given({
          seq_length: form.seq_length,
          global_batch_size: form.global_batch_size,
          precision: form.precision,
          train_tokens: form.train_tokens,
          task: form.task,
        }),
        ...section("adapter", given({ rank: ADAPTED[form.task] ? form.adapter_rank : "" })),
      },
    ),
    ...section("software", given({ stack: form.stack, calibration: form.calibration, target: unless(form.target, DEFAULTS.target) })),
    ...section("search", {
      ...given({
        objective: unless(form.objective, DEFAULTS.objective),
        sampler: unless(form.sampler, DEFAULTS.sampler),
        top: form.top,
        time_limit_s: form.time_limit,
        ...(isSampled && { max_trials: form.max_trials, seed: form.seed }),
        ...(isRefined(form) && { refine: form.refine, refine_front: form.refine_front, seed: form.seed }),
      }),
      ...limits,
    }),
  } as Job;
}

/** What the form calls the study: beside the job, as the request's parameters. */
export function labelsOf(form: Form): { name?: string; tag?: string[]; note?: string } {
  const [name, note, tag] = [form.name.trim(), form.note.trim(), tagsOfText(form.tags)];
  return { ...(name && { name }), ...(tag.length > 0 && { tag }), ...(note && { note }) };
}

/** The next study of a name, with its tags; what was noted is about the study that it was noted on. */
export const formOfLabels = (study: { name: string; tags: readonly string[] }): Pick<Form, "name" | "tags"> => ({ name: nextName(study.name), tags: tagsText(study.tags) });

/** The form that asks for a study's job once more. */
export function formOfJob(job: Record<string, Record<string, unknown>>, presets: readonly string[]): { form: Form; model: unknown } {
  const { model = {}, cluster = {}, training = {}, software = {}, search = {} } = job;
  const text = (value: unknown) => (value === null || value === undefined ? "" : String(value));
  const isPreset = presets.includes(text(model.name));
  const interNode = cluster.inter_node_bytes_per_s;
  const form: Form = {
    ...DEFAULTS,
    source: isPreset ? "preset" : "config",
    model: isPreset ? text(model.name) : "",
    hardware: text(cluster.hardware),
    devices: text(cluster.num_devices),
    inter_node: typeof interNode === "number" ? String(interNode / 1e9) : "",
    seq_length: text(training.seq_length),
    global_batch_size: text(training.global_batch_size),
    precision: text(training.precision),
    train_tokens: text(training.train_tokens),
    task: unless(text(training.task), "pretrain"),
    adapter_rank: text((training.adapter as { rank?: number } | null | undefined)?.rank),
    stack: text(software.stack),
    calibration: text(software.calibration),
    target: text(software.target) || DEFAULTS.target,
    objective: text(Array.isArray(search.objective) ? search.objective[0] : search.objective) || DEFAULTS.objective,
    sampler: text(search.sampler) || DEFAULTS.sampler,
    max_trials: text(search.max_trials),
    seed: search.seed ? text(search.seed) : "",
    refine: search.refine ? text(search.refine) : "",
    refine_front: search.refine_front ? "true" : "",
    top: text(search.top),
    time_limit: text(search.time_limit_s),
    ...Object.fromEntries(LIMITS.map((name) => [name, textOfLimit(search[name])])),
  };
  return { form, model };
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The same search from a terminal, stored on the same server. */
export function commandOf(form: Form, server: string): string {
  const isSampled = form.sampler !== DEFAULTS.sampler;
  const { name = "", tag = [], note = "" } = labelsOf(form);
  const flags: [string, string][] = [
    ["hardware", form.hardware],
    ["devices", form.devices],
    ["inter-node-bytes-per-s", String(numberOrText(form.inter_node, NUMBERS.inter_node))],
    ["seq-length", form.seq_length],
    ["global-batch-size", form.global_batch_size],
    ["precision", form.precision],
    ["train-tokens", form.train_tokens],
    ["task", form.task],
    ["adapter-rank", ADAPTED[form.task] ? form.adapter_rank : ""],
    ["stack", form.stack],
    ["calibration", form.calibration],
    ["target", unless(form.target, DEFAULTS.target)],
    ["objective", unless(form.objective, DEFAULTS.objective)],
    ["sampler", unless(form.sampler, DEFAULTS.sampler)],
    ["max-trials", isSampled ? form.max_trials : ""],
    ["refine", isRefined(form) ? form.refine : ""],
    ["seed", isSampled || isRefined(form) ? form.seed : ""],
    ["top", form.top],
    ["time-limit", form.time_limit],
    ...LIMITS.map((name): [string, string] => [name.replaceAll("_", "-"), form[name]]),
    ["server", server],
    ["name", name],
    ["tag", tag.join(",")],
    ["note", note],
  ];
  const model = form.source === "config" ? "config.json" : form.model || "MODEL";
  const lines = [
    ...flags.filter(([, value]) => value.trim()).map(([name, value]) => `--${name} ${quoted(value.trim())}`),
    ...(isRefined(form) && form.refine_front ? ["--refine-front"] : []),
  ];
  return [`meshplan search ${quoted(model)}`, ...lines].join(" \\\n  ");
}

export function requestOf(job: Job, labels: ReturnType<typeof labelsOf>, server: string, hasKey: boolean): string {
  const { tag: tags = [], ...others } = labels;
  const query = [...Object.entries(others), ...tags.map((tag) => ["tag", tag] as const)].map(([name, text]) => `${name}=${encodeURIComponent(text).replaceAll("'", "%27")}`);
  const body = JSON.stringify(job, null, 2).replaceAll("'", `'\\''`);
  const key = hasKey ? ` -H "Authorization: Bearer $MESHPLAN_API_KEY"` : "";
  const address = `${server}/v1/studies`;
  return `curl ${query.length ? `'${address}?${query.join("&")}'` : address}${key} \\\n  -H 'Content-Type: application/json' -d '${body}'`;
}

/** Fields without which there is no job, in the order of the form. A preset knows sequence length and batch of its own training. */
export function missingOf(form: Form, custom: CustomModel | null): Field[] {
  const isPreset = form.source === "preset";
  const wanted: Field[] = ["hardware", "devices", ...(isPreset && !isTuning(form) ? [] : (["seq_length", "global_batch_size"] as const))];
  if (ADAPTED[form.task] === "needed") wanted.push("adapter_rank");
  return [...((isPreset ? !form.model : !custom) ? (["model"] as const) : []), ...wanted.filter((field) => !form[field].trim())];
}

const OF_POINTER: Record<string, Field> = {
  "/model": "model",
  "/cluster/hardware": "hardware",
  "/cluster/num_devices": "devices",
  "/training/adapter": "adapter_rank",
  "/cluster/inter_node_bytes_per_s": "inter_node",
  "/search/time_limit_s": "time_limit",
};

/** The field that a problem is about, by its JSON pointer or the request's parameter; null where the form has none. */
export function fieldOfProblem({ pointer, parameter }: { pointer?: string | null; parameter?: string | null }): Field | null {
  if (parameter) return LABELS.find((label) => label.startsWith(parameter)) ?? null; // a tag is one of the tags
  const path = (pointer ?? "").replace(/^#/, "");
  const known = Object.keys(OF_POINTER).find((start) => path === start || path.startsWith(`${start}/`));
  if (known) return OF_POINTER[known] ?? null;
  const [, , name] = path.split("/");
  return FIELDS.find((field) => field === name) ?? null;
}
