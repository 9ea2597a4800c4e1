import type { Plan, Study } from "../../../api/queries";
import type { Schemas } from "../../../api/client";
import { usdOf } from "../../../units/currency";

/** What the form holds, as text: the server says what is wrong with it. Empty: the server's default, which the answer lists. */
export const FIELDS = ["mtbf_s", "recovery", "spares", "repair_s", "storage_write_bytes_per_s", "price_per_device_hour_usd", "elastic"] as const;
export type Field = (typeof FIELDS)[number];
export type SiteForm = Readonly<Record<Field, string>>;

export const RECOVERIES = ["job", "pod", "process", "step"] as const;
/** Fields are shown in the unit in which people say them. */
export const UNIT: Partial<Record<Field, number>> = { mtbf_s: 3600, repair_s: 86_400, storage_write_bytes_per_s: 1e9 };
const HISTORIES = 500; // for quantiles on a page; the command line plays 2,000

function valueOf(field: Field, text: string): unknown {
  if (field === "recovery") return text;
  if (field === "elastic") return text === "true";
  if (field === "price_per_device_hour_usd") return usdOf(text);
  const number = Number(text);
  if (!Number.isFinite(number)) return text;
  return number * (UNIT[field] ?? 1);
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
