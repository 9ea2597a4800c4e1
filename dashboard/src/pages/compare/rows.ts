/** The lines of the comparison. */
import type { TFunction } from "../../i18n";

import type { Estimate, Plan, Strategy, Study } from "../../api/queries";
import { belowLimit, fitLimit } from "../../components/fitLimit";
import { recomputeText } from "../../components/strategy";
import { marks } from "../../i18n";
import { bytes, compact, count, duration, number, percent, seconds, secondsRange, tokensPerSecond } from "../../units/format";
import type { Item } from "./data";

export interface Row {
  key: string;
  label: string;
  texts: readonly string[];
  /** Of numbers that can be better or worse: how each compares with the first. */
  values?: readonly (number | null)[];
  better?: "lower" | "higher";
  /** The numbers are shares: they differ by percentage points. */
  shares?: boolean;
  differs: boolean;
}

type Cell = string | number | boolean | null | undefined;

function row(key: string, label: string, texts: readonly string[], numbers?: Pick<Row, "values" | "better" | "shares">): Row {
  return { key, label, texts, differs: new Set(texts).size > 1, ...numbers };
}

const NOTHING = "–";
const plain = (value: Cell): string => (value == null || value === "" ? NOTHING : typeof value === "number" ? (Number.isInteger(value) ? count(value) : number(value, 5)) : String(value));

type T = TFunction;

export function resultRows(items: readonly Item[], t: T): Row[] {
  const measured = (key: string, better: Row["better"], value: (estimate: Estimate, item: Item) => number | null, text: (value: number | null) => string): Row => {
    const values = items.map((item) => (item.plan ? value(item.plan.estimate, item) : null));
    return row(key, t(`row.${key}`), values.map((value) => text(value)), { values, ...(better && { better }), ...(text === percent && { shares: true }) });
  };
  const told = (key: string, text: (plan: Plan) => string): Row => row(key, t(`row.${key}`), items.map(({ plan }) => (plan ? text(plan) : NOTHING)));
  return [
    measured("step", "lower", ({ step_time_s }) => step_time_s, seconds),
    told("interval", ({ estimate }) => secondsRange(estimate.step_time_low_s, estimate.step_time_high_s)),
    measured("tokens", "higher", ({ tokens_per_s }) => tokens_per_s, tokensPerSecond),
    measured("perDevice", "higher", ({ tokens_per_s_per_device }) => tokens_per_s_per_device, tokensPerSecond),
    measured("mfu", "higher", ({ mfu_fraction }) => mfu_fraction, percent),
    measured("training", "lower", ({ tokens_per_s }, { study }) => {
      const tokens = (study.job.training as { train_tokens?: number | null } | undefined)?.train_tokens;
      return tokens ? tokens / tokens_per_s : null;
    }, duration),
    measured("memory", "lower", ({ peak_memory_bytes }) => peak_memory_bytes, bytes),
    measured("limit", undefined, fitLimit, bytes),
    measured("headroom", "higher", belowLimit, bytes),
    measured("sure", "higher", ({ fits_probability }) => fits_probability ?? null, percent),
    told("bottleneck", ({ estimate }) => t(`common:part.${estimate.bottleneck}`, { defaultValue: estimate.bottleneck })),
    told("fidelity", ({ estimate }) => t(`fidelity.${estimate.fidelity}`)),
    told("launchable", ({ launchable_on }) => launchable_on.join(marks().list) || t("compare:row.nowhere")),
  ];
}

const DEGREES = ["tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch_size", "num_microbatches"] as const;

export function strategyRows(items: readonly Item[], t: T): Row[] {
  const told = (key: string, value: (strategy: Strategy) => Cell, label = t(`common:strategy.${key}`)): Row =>
    row(key, label, items.map(({ plan }) => (plan ? plain(value(plan.strategy)) : NOTHING)));
  const switched = (on: boolean) => t(on ? "on" : "off");
  return [
    ...DEGREES.map((name) => told(name, (strategy) => strategy[name])),
    told("schedule", ({ schedule }) => schedule),
    told("group", (strategy) => strategy.microbatch_group_size_per_vp_stage, t("compare:row.group")),
    told("recompute", ({ recompute }) => recomputeText(recompute)),
    told("sequence_parallel", ({ sequence_parallel }) => switched(sequence_parallel)),
    told("zero_stage", ({ zero_stage }) => zero_stage),
    told("moe_dispatcher", ({ moe_dispatcher }) => moe_dispatcher),
    told("cp_algo", ({ cp_algo }) => cp_algo, t("compare:row.cpAlgo")),
    told("layers", ({ layer_layout, noop_layers }) => layer_layout.map((chunk) => chunk.join(" ")).join(" | ") + (noop_layers ? ` (+${noop_layers})` : ""), t("compare:row.layers")),
    ...featureRows(items, switched),
  ];
}

/** A switch a line: only what one of the plans has on. */
function featureRows(items: readonly Item[], switched: (on: boolean) => string): Row[] {
  const names = [...new Set(items.flatMap(({ plan }) => plan?.strategy.features ?? []))].sort();
  return names.map((name) => row(`feature.${name}`, name, items.map(({ plan }) => (plan ? switched(plan.strategy.features.includes(name)) : NOTHING))));
}

/** The jobs' fields that are not the same, by their names in a job file; why a default was taken is no field. */
export function jobRows(items: readonly Item[]): Row[] {
  const jobs = items.map(({ study: { job: { assumed: _, ...stated } } }) => flatJob(stated));
  const names = [...new Set(jobs.flatMap((job) => Object.keys(job)))];
  return names.map((name) => row(name, name, jobs.map((job) => job[name] ?? NOTHING))).filter(({ differs }) => differs);
}

function flatJob(value: Record<string, unknown>, prefix = ""): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, inner] of Object.entries(value)) {
    if (typeof inner === "object" && inner !== null && !Array.isArray(inner)) Object.assign(found, flatJob(inner as Record<string, unknown>, `${prefix}${name}.`));
    else found[prefix + name] = Array.isArray(inner) ? inner.join(", ") : typeof inner === "number" && Math.abs(inner) >= 1e6 ? compact(inner, 5) : plain(inner as Cell);
  }
  return found;
}

export function searchRows(items: readonly Item[], t: T): Row[] {
  const told = (key: string, text: (study: Study) => string): Row => row(key, t(`row.${key}`), items.map(({ study }) => text(study)));
  return [
    told("state", ({ state }) => t(`common:state.${state}`)),
    told("proved", ({ result }) => (result ? t(result.proof.proved_best ? "row.isProved" : "row.isNotProved") : NOTHING)),
    told("gain", ({ result }) => percent(result?.baseline?.speedup_fraction)),
    told("enumerated", ({ result }) => count(result?.counts.lattice ?? result?.counts.enumerated)),
    told("legal", ({ result }) => count(result?.counts.lattice_legal ?? result?.counts.legal)),
    ...(["fits_memory", "simulated", "sampled"] as const).map((name) => told(name, ({ result }) => count(result?.counts[name]))),
    told("took", ({ result }) => duration(result?.timing.total_s)),
    told("version", ({ version }) => version),
  ].filter(({ texts }) => texts.some((text) => text !== NOTHING));
}

/** Parts of a sum, the largest of all items first, with those that are zero everywhere left out. */
export function partRows(items: readonly Item[], partsOf: (estimate: Estimate) => Record<string, number>, text: (value: number | null) => string, t: T): Row[] {
  const parts = items.map(({ plan }) => (plan ? partsOf(plan.estimate) : {}));
  const names = [...new Set(parts.flatMap((each) => Object.keys(each)))];
  const most = (name: string) => Math.max(...parts.map((each) => each[name] ?? 0));
  return names
    .filter((name) => most(name) > 0)
    .sort((a, b) => most(b) - most(a))
    .map((name) => {
      const values = items.map(({ plan }, place) => (plan ? (parts[place]?.[name] ?? 0) : null));
      return row(name, t(`common:part.${name}`, { defaultValue: name }), values.map((value) => (value === 0 ? NOTHING : text(value))), { values, better: "lower" });
    });
}
