const NICE = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** The next number above that an axis may end with: two digits at most, so that its last label is round. */
export function roundUp(value: number): number {
  if (!(value > 0) || !Number.isFinite(value)) return value;
  const decade = 10 ** Math.floor(Math.log10(value));
  const digit = NICE.find((each) => each * decade >= value * (1 - 1e-9)) ?? 10;
  return Number((digit * decade).toPrecision(2));
}

const STEPS = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];
const FEWEST = 4;

/** The largest of 1, 2 or 5 times a power of ten that is not above. */
function evenStep(most: number): number {
  const decade = 10 ** Math.floor(Math.log10(most));
  return (most >= 5 * decade ? 5 : most >= 2 * decade ? 2 : 1) * decade;
}

/** Round numbers of a logarithmic axis from low to high, at least four. */
export function logTicks(low: number, high: number): number[] {
  if (!(low > 0) || !(high > low)) return [];
  const decades = Array.from({ length: Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1 }, (_, place) => Math.floor(Math.log10(low)) + place);
  let ticks: number[] = [];
  for (const steps of STEPS) {
    ticks = decades.flatMap((decade) => steps.map((step) => Number((step * 10 ** decade).toPrecision(2)))).filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
    if (ticks.length >= FEWEST) return ticks;
  }
  const step = evenStep((high - low) / FEWEST);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

/** An axis on which every value has its place and numbers to read it by; `room` is what it reaches beyond them. */
export function logAxis(values: readonly number[], format: (value: number) => string, room = 1.05) {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity) / room;
  const high = values.reduce((most, value) => Math.max(most, value), 0) * room;
  const ticks = logTicks(low, high);
  return {
    type: "log" as const,
    min: low,
    max: high,
    axisTick: { show: true, customValues: ticks },
    axisLabel: { customValues: ticks, formatter: format, showMinLabel: false, showMaxLabel: false },
  };
}

const WIDE = 4;

/** Values so far apart that most of them would be one strip of a linear axis. */
export const isWide = (values: readonly number[]): boolean => Math.min(...values) > 0 && Math.max(...values) > WIDE * Math.min(...values);

/** The same axis over a part of its values. */
export function zoomedAxis(axis: unknown, [low, high]: readonly [number, number]): object {
  const whole = axis as { type?: string; axisLabel?: object; axisTick?: object };
  const ends = { interval: undefined, min: low, max: high };
  if (whole.type !== "log") return { ...whole, ...ends, axisLabel: { ...whole.axisLabel, showMinLabel: false, showMaxLabel: false } };
  const ticks = logTicks(low, high);
  return { ...whole, ...ends, axisTick: { ...whole.axisTick, customValues: ticks }, axisLabel: { ...whole.axisLabel, customValues: ticks } };
}
