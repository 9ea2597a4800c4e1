const NICE = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** The next number above that an axis may end with: two digits at most, so that its last label is round. */
export function roundUp(value: number): number {
  if (!(value > 0) || !Number.isFinite(value)) return value;
  const decade = 10 ** Math.floor(Math.log10(value));
  const digit = NICE.find((each) => each * decade >= value * (1 - 1e-9)) ?? 10;
  return Number((digit * decade).toPrecision(2));
}
