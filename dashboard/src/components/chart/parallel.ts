/** What parallel coordinates take of ECharts beyond the rest: only the page that draws them loads it. */
import { ParallelChart } from "echarts/charts";
import { ParallelComponent } from "echarts/components";
import { use } from "echarts/core";

use([ParallelChart, ParallelComponent]);
