import type { Estimate } from "../api/queries";

const PARTS = ["tp_comm", "cp_comm", "ep_comm", "dp_comm", "weight_gather", "pipeline_p2p"];

/** Seconds in which the critical rank waits for communication of any kind. */
export function exposedCommunication({ time_breakdown_s: parts }: Pick<Estimate, "time_breakdown_s">): number {
  return PARTS.reduce((sum, part) => sum + (parts[part] ?? 0), 0);
}
