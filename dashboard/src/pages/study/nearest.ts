/** Changes of a job under which a plan fits, as the page tells them and as the form of a study asks for them. */
import type { Schemas } from "../../api/client";
import type { TFunction } from "../../i18n";
import { count } from "../../units/format";
import { formOfJob, LIMITS, paramsOfForm } from "../newStudy/form";

export type NearestChange = Schemas["NearestChangeDocument"];
type Job = Record<string, Record<string, unknown>>;
type Fields = NearestChange["fields"];

const NUMBERS = ["cluster.num_devices", "training.global_batch_size", "training.seq_length"];
/** Fields of the form, beside those that it never asks for: leaving one of these out changes nothing. */
const OF_FORM = [...NUMBERS, "software.target", ...LIMITS.map((name) => `search.${name}`)];
const UNASKED = ["search.min_headroom"]; // the form's own is what the change wants: none

/** The job with those fields otherwise; `null` leaves one out. */
export function jobWith(job: Job, fields: Fields): Job {
  const changed: Job = structuredClone(job);
  for (const [path, value] of Object.entries(fields)) {
    const [section = "", name = ""] = path.split(".");
    const part = (changed[section] ??= {});
    if (value === null) delete part[name];
    else part[name] = value;
  }
  return changed;
}

/** The form of a study of that change; null where it has no field for it. */
export function studyAddress(job: Job, fields: Fields, presets: readonly string[]): string | null {
  const isTold = Object.entries(fields).every(([path, value]) => OF_FORM.includes(path) || UNASKED.includes(path) || value === null);
  return isTold ? `/studies/new?${paramsOfForm(formOfJob(jobWith(job, fields), presets).form)}` : null;
}

/** The change in the reader's language, field by field. */
export function changeText(fields: Fields, t: TFunction): string {
  const parts = Object.entries(fields).map(([path, value]) => {
    const name = path.replace(/^\w+\./, "");
    if (NUMBERS.includes(path)) return t(`study:nearest.field.${name}`, { value: count(value as number) });
    if (path === "software.target") return t("study:nearest.field.target", { value: String(value) });
    if (path === "search.min_headroom") return t("study:nearest.noHeadroom");
    return value === null ? t("study:nearest.free", { name }) : t("study:nearest.set", { name, value: String(value) });
  });
  return parts.join(t("study:nearest.and"));
}
