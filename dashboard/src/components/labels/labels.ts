/** What people call a study, who may change that, and how long it is kept. */
import type { Schemas } from "../../api/client";
import type { ListedStudy, Study } from "../../api/queries";

const DAY_S = 86_400;
export const [MAX_NAME, MAX_NOTE] = [120, 2000]; // app/studies/labels.py

export const LABELS = ["name", "tags", "note"] as const;
export type Label = (typeof LABELS)[number];
export type Changes = Schemas["StudyChanges"];
type Terms = Schemas["Terms"];

/** A study goes by its name, else by its model. */
export const nameOf = (study: Pick<ListedStudy, "name" | "model">): string => study.name || study.model;

/** What a study that begins from this one is called: `tender`, `tender (2)`, `tender (3)`. */
export function nextName(name: string): string {
  const [, stem = name, number = "1"] = /^(.*) \((\d{1,4})\)$/s.exec(name) ?? [];
  const ending = ` (${Number(number) + 1})`;
  return name && [...stem].slice(0, MAX_NAME - ending.length).join("") + ending;
}

/** As the server decides: all with one's own and with nobody's, an admin with any. */
export function mayChange(study: Pick<ListedStudy, "owner">, terms: Terms | undefined): boolean {
  if (!terms?.scopes.includes("write")) return false;
  return terms.scopes.includes("admin") || study.owner === null || study.owner === terms.owner;
}

/** When the study is deleted for its age; null where that will not be. */
export function deletedAtS(study: Pick<ListedStudy, "finished_at_s" | "archived">, terms: Terms | undefined): number | null {
  if (!terms?.keep_studies_days || study.archived || study.finished_at_s === null) return null;
  return study.finished_at_s + terms.keep_studies_days * DAY_S;
}

export const tagsText = (tags: readonly string[]): string => tags.join(", ");

/** What was typed between commas, of either script. */
export function tagsOfText(text: string): string[] {
  return [...new Set(text.split(/[,，、]/).map((tag) => tag.trim()))].filter(Boolean).sort();
}

/** What differs from the study; what is as it was is not sent, so that nobody's change in between is undone. */
export function changesOf(study: Pick<Study, "name" | "tags" | "note">, given: { name: string; tags: string; note: string }): Changes {
  const [name, note, tags] = [given.name.trim(), given.note.trim(), tagsOfText(given.tags)];
  return {
    ...(name !== study.name && { name }),
    ...(note !== study.note && { note }),
    ...(tagsText(tags) !== tagsText([...study.tags].sort()) && { tags }),
  };
}

/** Of the labels to change, those that somebody else has changed since. */
export function changedSince(seen: Pick<Study, Label>, newest: Pick<Study, Label>, changes: Changes): Label[] {
  const text = (study: Pick<Study, Label>, label: Label) => (label === "tags" ? tagsText([...study.tags].sort()) : study[label]);
  return LABELS.filter((label) => label in changes && text(seen, label) !== text(newest, label));
}
