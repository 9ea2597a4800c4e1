/** The 80 % intervals of numbers that follow from a step time: every page scales and words them here. */
import type { TFunction } from "../i18n";
import { seconds } from "./format";

export interface Interval {
  low: number;
  high: number;
}

type Value = number | null | undefined;

interface Step {
  step_time_s?: Value;
  step_time_low_s?: Value;
  step_time_high_s?: Value;
}

/** Of a number in proportion to the step time, as days and money are, or of a rate, which shrinks as the step grows. */
export function withStep({ step_time_s: step, step_time_low_s: low, step_time_high_s: high }: Step, value: Value, way: "grows" | "shrinks" = "grows"): Interval | null {
  if (value == null || !step || !low || !high) return null;
  return way === "grows" ? scaled({ low, high }, value / step) : scaled({ low: 1 / high, high: 1 / low }, value * step);
}

/** The interval of a number that is `factor` times the one that `interval` is of. */
export const scaled = ({ low, high }: Interval, factor: number): Interval => ({ low: low * factor, high: high * factor });

/** Numbers keep their unit when a line breaks. */
export const unbroken = (text: string): string => text.replaceAll(" ", "\u00a0");

/** "80 %: 14.4 s to 23.3 s"; where there is no interval, that there is none. */
export function intervalText(t: TFunction, interval: Interval | null | undefined, format: (value: number) => string): string {
  return interval ? t("common:interval", { low: unbroken(format(interval.low)), high: unbroken(format(interval.high)) }) : t("common:noInterval");
}

/** The interval of a predicted step, and whether it goes beyond what was measured. */
export function stepIntervalText(t: TFunction, estimate: Step & { evidence: { extrapolated: readonly string[] } }): string {
  const text = intervalText(t, withStep(estimate, estimate.step_time_s), stepText);
  return estimate.evidence.extrapolated.length ? t("common:extrapolated", { interval: text }) : text;
}

/** "14.4 s – 23.3 s", for a column or a line that is called an interval. */
export function rangeText(interval: Interval | null, format: (value: number) => string): string {
  return interval ? `${format(interval.low)} – ${format(interval.high)}` : "–";
}

/** An end of the interval of a step: it is less sure than the step is precise. */
export const stepText = (value: number): string => seconds(value, 3);
