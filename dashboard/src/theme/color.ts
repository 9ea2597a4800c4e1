/** Colours as numbers: mixed, and written for CSS. */
export type Rgb = readonly [number, number, number];

export function rgb(hex: string): Rgb {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** `share` of the way from one colour to another. */
export function mixed([r, g, b]: Rgb, [toR, toG, toB]: Rgb, share: number): Rgb {
  const channel = (from: number, to: number) => Math.round(from * (1 - share) + to * share);
  return [channel(r, toR), channel(g, toG), channel(b, toB)];
}

export const css = ([r, g, b]: Rgb): string => `rgb(${r} ${g} ${b})`;
