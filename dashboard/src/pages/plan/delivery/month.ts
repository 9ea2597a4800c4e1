import type { Schemas } from "../../../api/client";

export type Stretch = Schemas["StretchDocument"];
export type State = "runs" | "slow" | "repeated" | "recovers" | "waits";
export const STATES: readonly State[] = ["runs", "slow", "repeated", "recovers", "waits"];
const DAY_S = 86_400;

/** A bar of a day's line. Times in hours of that day. */
export interface Bar {
  day: number;
  startH: number;
  endH: number;
  state: State;
  /** Class of the failure at its end. */
  endedBy: string | null;
}

/** Stretches cut at midnight; the end of a run that a failure threw away is a bar of its own. */
export function barsOf(stretches: readonly Stretch[]): Bar[] {
  return stretches.flatMap((one) => {
    const state: State = one.state === "runs" && one.rate < 1 ? "slow" : one.state;
    const lostFrom = Math.max(one.end_s - (one.rate > 0 ? one.repeated_s / one.rate : 0), one.start_s);
    return [
      ...cut(one.start_s, lostFrom, state, one.repeated_s > 0 ? null : (one.ended_by ?? null)),
      ...cut(lostFrom, one.end_s, "repeated", one.ended_by ?? null),
    ];
  });
}

function cut(startS: number, endS: number, state: State, endedBy: string | null): Bar[] {
  const bars: Bar[] = [];
  for (let from = startS; from < endS; ) {
    const day = Math.floor(from / DAY_S);
    const to = Math.min(endS, (day + 1) * DAY_S);
    bars.push({ day, startH: (from - day * DAY_S) / 3600, endH: (to - day * DAY_S) / 3600, state, endedBy: to === endS ? endedBy : null });
    from = to;
  }
  return bars;
}

/** Seconds in each state. */
export function totals(bars: readonly Bar[]): Record<State, number> {
  const sums: Record<State, number> = { runs: 0, slow: 0, repeated: 0, recovers: 0, waits: 0 };
  for (const { state, startH, endH } of bars) sums[state] += (endH - startH) * 3600;
  return sums;
}
