import type { TFunction } from "../../i18n";

/** What the server says of an interval, in the reader's language; a sentence that this page does not know stays as it is. */
const KNOWN: readonly (readonly [RegExp, string])[] = [
  [/^no measured run of an? (?<kind>.+) model with (?<stack>.+) on (?<hardware>.+)$/, "interval.noRun"],
  [/^stack unseen: no measured run with (?<stack>.+)$/, "interval.noStack"],
  [/^chip unseen: no measured run on (?<hardware>.+)$/, "interval.noChip"],
  [/^mechanism unseen: no run in (?<precision>.+) taught the constants$/, "interval.noPrecision"],
  [/^mechanism unseen: no measured run with (?<mechanisms>.+)$/, "interval.noMechanism"],
  [/^(?<name>cluster|software)\.time_factor = (?<factor>.+) is assumed, not measured by these runs$/, "interval.assumedFactor"],
  [/^no measured run above (?<devices>[\d,]+) devices$/, "interval.noDevices"],
  [/^no measured run above a sequence of (?<tokens>[\d,]+) tokens$/, "interval.noSequence"],
];

export function extrapolation(sentence: string, t: TFunction): string {
  for (const [pattern, key] of KNOWN) {
    const fields = pattern.exec(sentence)?.groups;
    if (fields) return t(key as "interval.noRun", { ...fields, ...(fields.kind && { kind: t(`interval.kind.${fields.kind}`, { defaultValue: fields.kind }) }) });
  }
  return sentence;
}
