/** Memory over time, as steps: a value holds from its time to the next. */

export type Curve = readonly (readonly [timeS: number, bytes: number])[];

export interface Columns {
  readonly rank: readonly number[];
  readonly time_s: readonly (readonly number[])[];
  readonly bytes: readonly (readonly number[])[];
}

/** A rank's curve to the end of the step; where it has more than `most` steps, the most held in each of as many spans. */
export function curveOf({ time_s, bytes }: Columns, place: number, stepS: number, most: number): Curve {
  const [times, held] = [time_s[place] ?? [], bytes[place] ?? []];
  const last = held.at(-1) ?? 0;
  if (times.length <= most) return [...times.map((time, index) => [time, held[index] ?? 0] as const), [stepS, last]];
  const spanS = stepS / most;
  const curve: (readonly [number, number])[] = [];
  let next = 0;
  let now = held[0] ?? 0;
  for (let span = 0; span < most; span++) {
    for (; next < times.length && (times[next] ?? 0) <= span * spanS; next++) now = held[next] ?? 0;
    let highest = now; // what is held when the span begins
    for (; next < times.length && (times[next] ?? 0) < (span + 1) * spanS; next++) {
      now = held[next] ?? 0;
      highest = Math.max(highest, now);
    }
    curve.push([span * spanS, highest]);
  }
  return [...curve, [stepS, last]];
}

export interface Held {
  rank: number;
  peakBytes: number;
  peakAtS: number;
  leastBytes: number;
  /** Over time. */
  meanBytes: number;
}

/** What each rank holds over a step. */
export function heldOf(columns: Columns, stepS: number): Held[] {
  return columns.rank.map((rank, place) => {
    const [times, held] = [columns.time_s[place] ?? [], columns.bytes[place] ?? []];
    let [peak, least, sum] = [0, 0, 0];
    held.forEach((value, index) => {
      if (value > (held[peak] ?? 0)) peak = index;
      if (value < (held[least] ?? 0)) least = index;
      sum += value * ((times[index + 1] ?? stepS) - (times[index] ?? 0));
    });
    const spanS = stepS - (times[0] ?? 0);
    return { rank, peakBytes: held[peak] ?? 0, peakAtS: times[peak] ?? 0, leastBytes: held[least] ?? 0, meanBytes: spanS > 0 ? sum / spanS : 0 };
  });
}
