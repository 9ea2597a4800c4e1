/** What a reader may slide: fields of the job around a plan, and the job that follows. */
import type { Analysis } from "./data";

export const SLIDERS = ["network", "speed", "sequence", "batch", "load"] as const;
export type SliderName = (typeof SLIDERS)[number];
/** A factor on what the job says; of the load of the experts the value itself. */
export type Slid = Readonly<Partial<Record<SliderName, number>>>;

const FACTORS = [0.25, 0.5, 0.75, 1, 1.5, 2, 4];
export const STEPS: Readonly<Record<SliderName, readonly number[]>> = {
  network: FACTORS,
  speed: [0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2],
  sequence: [0.25, 0.5, 1, 2, 4, 8],
  batch: [0.25, 0.5, 1, 2, 4, 8],
  load: [1, 1.1, 1.25, 1.5, 2, 3, 4],
};

export interface Fields {
  cluster: { inter_node_bytes_per_s?: number | null; time_factor?: number };
  training: { seq_length: number; global_batch_size: number };
}

/** Those that the plan depends on. */
export function slidersOf(analysis: Analysis, devices: number): SliderName[] {
  const inner = analysis.tiers.at(-2)?.domain_devices ?? Infinity;
  const hasExperts = analysis.placement.some(({ group, size }) => group === "ep" && size > 1);
  return SLIDERS.filter((name) => (name !== "network" || devices > inner) && (name !== "load" || hasExperts));
}

/** The job with what was slid; `outerBytesPerS` is the network's own rate where the job gives none. */
export function slidJob<Job extends Fields>(job: Job, slid: Slid, outerBytesPerS: number): Job {
  const { network = 1, speed = 1, sequence = 1, batch = 1, load } = slid;
  return {
    ...job,
    cluster: {
      ...job.cluster,
      ...(network !== 1 && { inter_node_bytes_per_s: (job.cluster.inter_node_bytes_per_s ?? outerBytesPerS) * network }),
      ...(speed !== 1 && { time_factor: (job.cluster.time_factor ?? 1) / speed }),
    },
    training: {
      ...job.training,
      seq_length: Math.round(job.training.seq_length * sequence),
      global_batch_size: Math.round(job.training.global_batch_size * batch),
      // One factor in place of what the job says of its router.
      ...(load !== undefined && { expert_load_factor: load, expert_counts: null, router_balance: null }),
    },
  };
}
