import type { Schemas } from "./client";

export type Objective = Exclude<NonNullable<Schemas["SearchSection"]["objective"]>, readonly string[]>;

/** The unit of the number by which a sampler orders its trials. The type check fails where the API knows another objective. */
const ORDERED_BY: Record<Objective, "seconds" | "bytes"> = {
  step_time: "seconds",
  memory_headroom: "bytes",
  device_hours: "seconds",
  delivered: "seconds",
  cost: "seconds",
  energy: "seconds",
  robust: "seconds",
};

export const OBJECTIVES = Object.keys(ORDERED_BY) as Objective[];

export const isOrderedByBytes = (objective: string): boolean => ORDERED_BY[objective as Objective] === "bytes";
