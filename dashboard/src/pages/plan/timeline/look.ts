import { mixed, rgb, type Rgb } from "../../../theme/color";
import { seriesColor, type Palette } from "../../../theme/palette";

/** Position in the palette's series of each kind of task, and how far it is moved towards the text colour. */
const KINDS: Record<string, readonly [series: number, towardsText: number]> = {
  forward: [0, 0],
  backward: [2, 0],
  input_gradient: [2, 0],
  weight_gradient: [6, 0],
  pair: [4, 0],
  recompute: [5, 0],
  dispatch: [3, 0],
  combine: [7, 0],
  contention: [3, 0.35],
  p2p: [8, 0],
  swap: [6, 0.35],
  gather: [1, 0],
  reduce: [5, 0.35],
  optimizer: [9, 0],
  step_overhead: [9, 0.5],
};

export function kindColor(palette: Palette, kind: string): Rgb {
  const [series, share] = KINDS[kind] ?? [9, 0];
  return mixed(rgb(seriesColor(palette, series)), rgb(palette.text), share);
}

/** Black or white, whichever is easier to read on the colour (WCAG's relative luminance). */
export function inkOn(color: Rgb): string {
  const [r = 0, g = 0, b = 0] = color.map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.22 ? "#10141b" : "#ffffff";
}

const UNITS = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
] as const;

/** A point in time with as many digits as tell it from others `stepS` away, in the unit of an axis with steps of `axisS`. */
export function timePoint(timeS: number, stepS: number, axisS = stepS): string {
  const [size, unit] = UNITS.find(([each]) => axisS >= each / 10_000) ?? UNITS[2];
  const decimals = Math.min(6, Math.max(0, Math.ceil(-Math.log10(stepS / size) - 1e-9)));
  const text = new Intl.NumberFormat(document.documentElement.lang || "en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return `${text.format(timeS / size)} ${unit}`;
}
