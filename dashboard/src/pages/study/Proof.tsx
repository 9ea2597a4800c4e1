import { useTranslation } from "../../i18n";

import { count, duration, percent } from "../../units/format";
import type { Result } from "./data";

const SCOPES: Record<string, string> = { "lattice, closed form": "closedForm", "lattice, simulated": "simulated" };

/** What the answer is worth, in a sentence or two. */
export function ProofText({ result: { proof, counts } }: { result: Result }) {
  const { t } = useTranslation("study");
  const objective = t(`common:objective.${proof.objective}`, { defaultValue: proof.objective }).toLocaleLowerCase();
  const known = SCOPES[proof.scope];
  const target = /^lattice of (\S+), simulated$/.exec(proof.scope)?.[1];
  const scope = target ? t("proof.scope.target", { target }) : known ? t(`proof.scope.${known}`) : proof.scope; // one that this page does not know stays as the server says it
  const seen = count(proof.proved_best ? (counts.lattice ?? counts.enumerated) : counts.enumerated); // the proof is about the lattice
  if (proof.proved_best) return t("proof.proved", { scope, objective, enumerated: seen });
  const gap = proof.optimality_gap_fraction;
  const limit = gap == null ? "" : ` ${t("proof.gap", { gap: percent(gap) })}`;
  if (proof.stopped_by) return t(`proof.stopped.${proof.stopped_by}`, { enumerated: seen, defaultValue: t("proof.stopped.other") }) + limit;
  if (counts.sampled != null) return t("proof.sampled", { sampled: count(counts.sampled) }) + limit;
  return t("proof.none", { scope }) + limit;
}

/** How the search went: how many strategies each step left, and how long it took. Nothing for what was not counted. */
export function SearchText({ result: { counts, timing } }: { result: Result }) {
  const { t } = useTranslation("study");
  const looked =
    counts.lattice == null
      ? ([["enumerated", counts.enumerated], ["legal", counts.legal]] as const)
      : ([["lattice", counts.lattice], ["legal", counts.lattice_legal], ["forms", counts.forms]] as const);
  const done = (["fits_memory", "simulated", "pruned_by_bound", "sampled"] as const).map((name) => [name, counts[name]] as const);
  const numbers = [...looked, ...done].flatMap(([name, number]) =>
    number == null || (number === 0 && (name === "pruned_by_bound" || name === "forms")) ? [] : [t(`counts.sentence.${name}`, { count: number, number: count(number) })],
  );
  return t("counts.sentence.all", { numbers: numbers.join(t("counts.sentence.comma")), time: duration(timing.total_s) });
}
