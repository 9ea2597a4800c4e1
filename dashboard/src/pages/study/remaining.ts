/** How long a search may still run, by its own pace; null where that cannot be said. */
import type { Interval } from "../../units/interval";

interface Report {
  done_fraction: number;
  elapsed_s: number;
  phase?: string;
}

const FIRST_FRACTION = 0.1;
const LAST_FRACTION = 0.9; // what follows the layouts is not counted in them
const PAST = [0.25, 0.75] as const; // fractions of what is done now from which the present is forecast
const LEAST_FORECASTS = 3;
const MOST_SPREAD = 4;
const MARGIN = 2; // of four recorded searches, 94 % of the ranges held the true end then, 85 % with 1.5

/**
 * Seconds that remain. The search first forecasts its past: from each report with a quarter to three quarters of what is done now,
 * a constant pace says when now would be. How wrong those forecasts were, and twice as much on both sides, is the range in which
 * the end is forecast. Searches whose pace changes more than fourfold have none.
 */
export function remaining(history: readonly Report[], timeLimitS?: number | null): Interval | null {
  const now = history[history.length - 1];
  if (!now || now.phase === "explain" || now.done_fraction < FIRST_FRACTION || now.done_fraction > LAST_FRACTION) return null;
  const { done_fraction: done, elapsed_s: elapsed } = now;
  const errors = history
    .filter(({ done_fraction: then, elapsed_s }) => elapsed_s > 0 && then >= PAST[0] * done && then <= PAST[1] * done)
    .map(({ done_fraction: then, elapsed_s }) => elapsed / elapsed_s / (done / then));
  const [least, most] = [Math.min(1, ...errors), Math.max(1, ...errors)];
  if (errors.length < LEAST_FORECASTS || most / least > MOST_SPREAD) return null;
  const whole = elapsed / done;
  const high = whole * most * MARGIN - elapsed;
  const low = Math.max(0, (whole * least) / MARGIN - elapsed);
  const limit = timeLimitS == null ? Infinity : Math.max(0, timeLimitS - elapsed);
  return { low: Math.min(low, limit), high: Math.min(high, limit) };
}
