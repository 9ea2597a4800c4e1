/** Draws a chart once more as SVG: loaded when somebody asks for one. */
import { init, use, type EChartsCoreOption } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

use([SVGRenderer]);

export function svgText(option: EChartsCoreOption, theme: object, width: number, height: number): string {
  const chart = init(null, theme, { renderer: "svg", ssr: true, width, height });
  chart.setOption({ ...option, animation: false });
  const text = chart.renderToSVGString();
  chart.dispose();
  return text;
}
