interface Peak {
  peak_memory_bytes: number;
  memory_limit_bytes: number;
  fit_limit_bytes?: number | null;
}

/** The largest peak by which a plan counts as fitting; studies of earlier versions know only what a job can fill. Bytes. */
export const fitLimit = ({ fit_limit_bytes, memory_limit_bytes }: Omit<Peak, "peak_memory_bytes">): number => fit_limit_bytes ?? memory_limit_bytes;

/** What the peak leaves below that limit; negative where the plan does not fit. Bytes. */
export const belowLimit = (estimate: Peak): number => fitLimit(estimate) - estimate.peak_memory_bytes;
