import { describe, expect, it } from "vitest";

import { rgb, type Rgb } from "./color";
import { palettes, partColors, PARTS } from "./palette";

const linear = (channel: number): number => (channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4);
const read = (text: string): Rgb => (text.startsWith("#") ? rgb(text) : (text.match(/\d+/g)?.map(Number) as unknown as Rgb));

/** Relative luminance of WCAG 2. */
function luminance(color: string): number {
  const [r = 0, g = 0, b = 0] = read(color).map((channel) => linear(channel / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: string, other: string): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** CIELAB under D65. */
function lab(color: string): Rgb {
  const [r = 0, g = 0, b = 0] = read(color).map((channel) => linear(channel / 255));
  const bent = (t: number) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const [x, y, z] = [bent((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047), bent(0.2126 * r + 0.7152 * g + 0.0722 * b), bent((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883)];
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const apart = (one: string, other: string): number => Math.hypot(...lab(one).map((value, at) => value - (lab(other)[at] ?? 0)));

const names = Object.keys(PARTS);
const memory = names.indexOf("weights"); // parts of a device's memory begin there

describe.each(Object.entries(palettes))("%s palette", (_, palette) => {
  it("tells the parts of one bar apart: 10 of CIE76, four times what can just be seen", () => {
    for (const parts of [names.slice(0, memory), names.slice(memory)]) {
      const colors = partColors(palette, parts);
      const pairs = parts.flatMap((one, at) => parts.slice(at + 1).map((other) => [one, other] as const));
      expect(pairs.filter(([one, other]) => apart(colors[one] ?? "", colors[other] ?? "") < 10)).toEqual([]);
      expect(partColors(palette, [...parts].reverse())).toEqual(colors);
    }
  });

  it("tells apart what it does not know, too", () => {
    const colors = partColors(palette, ["runtime", "unheard_of"]);
    expect(colors.runtime).not.toEqual(colors.unheard_of);
  });

  it("writes text that can be read: 4.5 to 1", () => {
    const { text, muted, good, bad, warn, surface } = palette;
    expect([text, muted, good, bad, warn].map((color) => contrast(color, surface)).filter((ratio) => ratio < 4.5)).toEqual([]);
  });
});

it("measures colours as their definitions say", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21);
  expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
  expect(apart("#ff0000", "#00ff00")).toBeCloseTo(170.6, 0); // published for sRGB red and green
});
