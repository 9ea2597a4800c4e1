/** Colours of what has an order: pipeline ranks, positions in a group. */
import { css, mixed, rgb } from "../../theme/color";
import { seriesColor, type Palette } from "../../theme/palette";

const RAINBOW = [0, 6, 2, 5, 1, 7, 3, 4];

/** A colour for each position: as far apart as they can be for a few, a rainbow in order for many. */
export function positionColors(palette: Palette, size: number): string[] {
  if (size <= RAINBOW.length) return Array.from({ length: size }, (_, place) => seriesColor(palette, place));
  const stops = RAINBOW.map((place) => rgb(seriesColor(palette, place)));
  return Array.from({ length: size }, (_, place) => {
    const at = (place / (size - 1)) * (stops.length - 1);
    const [from, to] = [stops[Math.floor(at)], stops[Math.ceil(at)]];
    return from && to ? css(mixed(from, to, at % 1)) : palette.muted;
  });
}
