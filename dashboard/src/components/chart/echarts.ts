/** ECharts by parts: what is not listed here is not in the build. */
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, LegendPlainComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import * as core from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

core.use([
  BarChart, CustomChart, LineChart, ScatterChart,
  GridComponent, LegendPlainComponent, MarkLineComponent, TooltipComponent,
  CanvasRenderer,
]);

export const { init } = core;
export type { ECharts, EChartsCoreOption } from "echarts/core";
