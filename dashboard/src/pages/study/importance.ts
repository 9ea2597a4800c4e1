/** How much of what differs between plans goes with one dimension. */
import type { RankedPlan } from "./data";
import type { Dimension } from "./dimensions";

function squares(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
}

/**
 * The share of the values' variance that goes with their groups, 0 to 1 (epsilon squared: chance alone gives 0 in the mean,
 * however many groups there are); 0 where each value has a group of its own.
 */
export function sharedVariance(values: readonly number[], groups: readonly unknown[]): number {
  const total = squares(values);
  const inGroups = new Map<unknown, number[]>();
  values.forEach((value, place) => {
    const found = inGroups.get(groups[place]);
    if (found) found.push(value);
    else inGroups.set(groups[place], [value]);
  });
  if (!(total > 0) || inGroups.size >= values.length) return 0;
  const within = [...inGroups.values()].reduce((sum, some) => sum + squares(some), 0);
  return Math.max(0, 1 - (within / (values.length - inGroups.size)) / (total / (values.length - 1)));
}

export interface Importance {
  key: string;
  stepTime: number;
  memory: number;
  /** The value with the fastest plan, and how much slower the fastest plan of any other value is. */
  best: string | number;
  nextSlowerFraction: number;
}

/** Every choice in which the plans differ, what moves the step time most first. */
export function importanceOf(plans: readonly RankedPlan[], dimensions: readonly Dimension[]): Importance[] {
  const steps = plans.map(({ estimate }) => estimate.step_time_s);
  const memory = plans.map(({ estimate }) => estimate.peak_memory_bytes);
  return dimensions
    .flatMap((dimension) => {
      if (dimension.kind !== "choice") return [];
      const groups = plans.map(dimension.value);
      const fastest = (value: string | number) => steps.reduce((low, step, place) => (groups[place] === value ? Math.min(low, step) : low), Infinity);
      const [best, next] = [...dimension.values].map((value) => ({ value, step: fastest(value) })).sort((a, b) => a.step - b.step);
      if (!best || !next) return [];
      return [{ key: dimension.key, stepTime: sharedVariance(steps, groups), memory: sharedVariance(memory, groups), best: best.value, nextSlowerFraction: next.step / best.step - 1 }];
    })
    .sort((a, b) => b.stepTime - a.stepTime);
}
