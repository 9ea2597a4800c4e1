/** ECharts by parts: what is not listed here is not in the build. */
import { BarChart, CustomChart, HeatmapChart, LineChart, ParallelChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  AxisPointerComponent,
  BrushComponent,
  DataZoomComponent,
  DatasetComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  MarkPointComponent,
  ParallelComponent,
  ToolboxComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import * as core from "echarts/core";
import { LabelLayout } from "echarts/features";
import { CanvasRenderer } from "echarts/renderers";

core.use([
  BarChart, CustomChart, HeatmapChart, LineChart, ParallelChart, ScatterChart,
  AriaComponent, AxisPointerComponent, BrushComponent, DataZoomComponent, DatasetComponent, GridComponent, LegendComponent,
  MarkAreaComponent, MarkLineComponent, MarkPointComponent, ParallelComponent, ToolboxComponent, TooltipComponent, VisualMapComponent,
  LabelLayout, CanvasRenderer,
]);

export const { init } = core;
export type { ECharts, EChartsCoreOption } from "echarts/core";
