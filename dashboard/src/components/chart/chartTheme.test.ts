import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { expect, it, vi } from "vitest";

import { palettes } from "../../theme/palette";
import { chartTheme } from "./chartTheme";
import { init } from "./echarts";

use([SVGRenderer]);

function themed() {
  vi.stubGlobal("document", { body: null });
  vi.stubGlobal("getComputedStyle", () => ({ fontFamily: "sans-serif" }));
  try {
    return chartTheme(palettes.light);
  } finally {
    vi.unstubAllGlobals();
  }
}

/** Where each label of the axis is drawn, and what it says. */
function labels(stepS: number, widthPx: number): { x: number; text: string }[] {
  const chart = init(null, themed(), { renderer: "svg", ssr: true, width: widthPx, height: 150 });
  chart.setOption({ animation: false, grid: { left: 12, right: 24, top: 8, bottom: 56 }, xAxis: { type: "value" }, yAxis: { type: "category", data: ["A"] }, series: [{ type: "bar", data: [stepS] }] });
  const found = [...chart.renderToSVGString().matchAll(/<text[^>]*transform="translate\(([\d.]+) [^>]*>([\d.]+)</g)];
  chart.dispose();
  return found.map(([, x, text]) => ({ x: Number(x), text: text ?? "" }));
}

it.each([0.00123, 0.0456, 12.3])("keeps the numbers of a step of %s s apart on a phone", (stepS) => {
  const shown = labels(stepS, 300);
  expect(shown.length).toBeGreaterThan(2);
  shown.slice(1).forEach(({ x, text }, place) => {
    const half = (text.length + (shown[place]?.text.length ?? 0)) * 3; // of both: digits are about 6 px wide
    expect(x - (shown[place]?.x ?? 0)).toBeGreaterThan(half);
  });
});
