/** What heat maps take of ECharts beyond the rest: only the page that draws them loads it. */
import { HeatmapChart } from "echarts/charts";
import { VisualMapComponent } from "echarts/components";
import { use } from "echarts/core";

use([HeatmapChart, VisualMapComponent]);
