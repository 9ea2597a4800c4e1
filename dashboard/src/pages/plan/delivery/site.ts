import type { Plan, Study } from "../../../api/queries";
import type { Schemas } from "../../../api/client";
import { usdOf } from "../../../units/currency";
import { numberOrText, type Numbers } from "../../../units/written";

/** What the form holds, as text: the server says what is wrong with it. Empty: the server's default, which the answer lists. */
export const FIELDS = ["mtbf_s", "recovery", "spares", "repair_s", "storage_write_bytes_per_s", "price_per_device_hour_usd", "elastic"] as const;
export type Field = (typeof FIELDS)[number];
export type SiteForm = Readonly<Record<Field, string>>;

export const RECOVERIES = ["job", "pod", "process", "step"] as const;
/** Fields of numbers: without a unit they are in the one in which people say them. */
export const NUMBERS = {
  mtbf_s: { name: "mtbf_s", scale: 3600 },
  spares: { name: "spares", whole: true },
  repair_s: { name: "repair_s", scale: 86_400 },
  storage_write_bytes_per_s: { name: "storage_write_bytes_per_s", scale: 1e9 },
} as const satisfies Numbers<Field>;
const HISTORIES = 500; // for quantiles on a page; the command line plays 2,000

function valueOf(field: Field, text: string): unknown {
  if (field === "recovery") return text;
  if (field === "elastic") return text === "true";
  if (field === "price_per_device_hour_usd") return usdOf(text);
  return numberOrText(text, NUMBERS[field]);
}

/** The plan with its job, on the site of the form. */
export function requestOf(study: Study, plan: Plan, form: SiteForm): Schemas["JobDocument"] {
  const { model, cluster, training, software } = study.job as Record<string, unknown>;
  const given = FIELDS.filter((field) => form[field].trim() !== "").map((field) => [field, valueOf(field, form[field].trim())]);
  const kept = (study.job as Record<string, Record<string, unknown> | undefined>).delivery ?? {};
  return {
    model, cluster, training, software,
    strategy: plan.strategy,
    delivery: { histories: HISTORIES, ...kept, ...Object.fromEntries(given) },
  } as unknown as Schemas["JobDocument"];
}

/** The field that a problem's JSON pointer means; null where the form has none. */
export function fieldOfProblem(pointer: string | null): Field | null {
  return FIELDS.find((field) => pointer === `#/delivery/${field}`) ?? null;
}
