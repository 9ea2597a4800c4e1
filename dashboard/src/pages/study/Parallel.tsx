import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "../../i18n";

import "../../components/chart/parallel";
import { Chart } from "../../components/chart/Chart";
import type { ECharts, EChartsCoreOption } from "../../components/chart/echarts";
import { ChartCard } from "../../components/ChartCard";
import { seriesColor, type Palette } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { count } from "../../units/format";
import type { RankedPlan } from "./data";
import { axisTexts, filterOfIntervals, filterText, intervalsOfFilter, type Dimension, type Filter } from "./dimensions";
import { measureText, useDimensionNames } from "./Filters";
import classes from "./Study.module.css";

const AXIS_WIDTH = 58; // at least
const WIDTH = 900; // of a usual window, shared by few axes
const HEIGHT_PX = 330;
const TOP_PX = 40;
const BOTTOM_PX = 16;
const BRUSH_OPACITY = 0.35;
const MOST_LINES = 1500; // more are a carpet, and cost a second to draw

interface Props {
  plans: readonly RankedPlan[];
  pins: readonly string[];
  dimensions: readonly Dimension[];
  filters: readonly Filter[];
  onFilters: (filters: readonly Filter[]) => void;
}

/** One line a plan through everything in which plans differ. Brushing an axis filters the page. */
export function Parallel({ plans, pins, dimensions, filters, onFilters }: Props) {
  const { t } = useTranslation("study");
  const nameOf = useDimensionNames();
  const palette = usePalette();
  const [chart, setChart] = useState<ECharts | null>(null);
  /** The brushes as they are drawn, axis by axis. */
  const drawn = useRef(new Map<string, string>());
  const latest = useRef({ filters, onFilters });
  latest.current = { filters, onFilters };

  const option = useMemo<EChartsCoreOption>(() => {
    const tint = stepTints(plans, palette);
    const width = Math.max(AXIS_WIDTH, WIDTH / dimensions.length);
    const texts = (values: readonly (string | number)[]) => {
      const found = axisTexts(values, HEIGHT_PX - TOP_PX - BOTTOM_PX);
      return (at: number) => found[at] ?? "";
    };
    const line = (plan: RankedPlan) => dimensions.map((dimension) => (dimension.kind === "choice" ? dimension.values.indexOf(dimension.value(plan)) : dimension.value(plan)));
    return {
      parallel: { left: 28, right: 60, top: TOP_PX, bottom: BOTTOM_PX },
      parallelAxis: dimensions.map((dimension, index) => ({
        id: dimension.key,
        dim: index,
        name: nameOf(dimension.key),
        nameGap: 16,
        nameTextStyle: { color: palette.text, fontSize: 11 },
        nameTruncate: { maxWidth: width - 2 },
        axisLine: { lineStyle: { color: palette.muted } },
        realtime: false, // brushes snap to values when they are let go
        areaSelectStyle: { width: 16, color: seriesColor(palette, 3), opacity: BRUSH_OPACITY },
        ...(dimension.kind === "choice"
          ? {
              type: "value",
              min: 0,
              max: dimension.values.length - 1,
              interval: Math.ceil(dimension.values.length / 12),
              axisLabel: { ...label(palette.surface, width), formatter: texts(dimension.values) },
            }
          : { type: "value", scale: true, min: dimension.low, max: dimension.high, axisLabel: { ...label(palette.surface, width), formatter: (at: number) => measureText(dimension.key, at) } }),
      })),
      series: [
        {
          type: "parallel",
          data: plans.slice(0, MOST_LINES).reverse().map((plan) => ({ value: line(plan), lineStyle: { color: tint(plan) } })), // the best on top
          smooth: 0.08,
          inactiveOpacity: 0.04,
          activeOpacity: 0.85,
          progressive: 0,
          lineStyle: { width: 1.3, opacity: plans.length > 300 ? 0.3 : plans.length > 60 ? 0.5 : 0.75 },
        },
        {
          type: "parallel",
          z: 3,
          inactiveOpacity: 0.25,
          activeOpacity: 1,
          lineStyle: { width: 3, opacity: 1, color: seriesColor(palette, 3) },
          data: plans.filter(({ plan_id }) => pins.includes(plan_id)).map(line),
        },
      ],
    };
    // nameOf follows the language, as t does.
  }, [plans, pins, dimensions, palette, t]);

  useEffect(() => {
    drawn.current.clear();
  }, [option, chart]);

  const draw = useCallback(() => {
    const changed: string[] = [];
    const set = (dimension: Dimension, filter: Filter | undefined) =>
      chart?.dispatchAction({ type: "axisAreaSelect", parallelAxisId: dimension.key, intervals: intervalsOfFilter(dimension, filter), isOwn: true });
    const filterOf = (dimension: Dimension) => latest.current.filters.find(({ key }) => key === dimension.key);
    for (const dimension of dimensions) {
      const filter = filterOf(dimension);
      const text = filter ? filterText(filter) : "";
      if ((drawn.current.get(dimension.key) ?? "") === text) continue;
      drawn.current.set(dimension.key, text);
      set(dimension, filter);
      changed.push(dimension.key);
    }
    // An axis does not show the brush that an action gives it until another axis has one.
    const other = dimensions.find(({ key }) => key !== changed[changed.length - 1]);
    if (changed.length && other) set(other, filterOf(other));
  }, [chart, dimensions]);

  useEffect(draw, [draw, option, filters]);

  useEffect(() => {
    if (!chart) return undefined;
    const tint = () => tintBrushes(chart, seriesColor(palette, 3));
    chart.on("rendered", tint);
    return () => {
      if (!chart.isDisposed()) chart.off("rendered", tint);
    };
  }, [chart, palette]);

  const on = useMemo(
    () => ({
      axisareaselected: ({ parallelAxisId, intervals, isOwn }: { parallelAxisId: string; intervals: [number, number][]; isOwn?: boolean }) => {
        const dimension = dimensions.find(({ key }) => key === parallelAxisId);
        if (!dimension || isOwn) return;
        drawn.current.set(parallelAxisId, "by hand");
        const filter = filterOfIntervals(dimension, intervals);
        latest.current.onFilters([...latest.current.filters.filter(({ key }) => key !== parallelAxisId), ...(filter ? [filter] : [])]);
        setTimeout(draw); // also where the filter is what it was
      },
    }),
    [dimensions, draw],
  );

  return (
    <ChartCard title={t("parallel.title")} subtitle={[t("parallel.subtitle"), ...(plans.length > MOST_LINES ? [t("parallel.first", { drawn: count(MOST_LINES) })] : [])].join(" ")}>
      <div className={classes.wide} tabIndex={0} role="region" aria-label={t("parallel.title")}>
        <div style={{ minWidth: dimensions.length * AXIS_WIDTH }}>
          <Chart option={option} height={HEIGHT_PX} label={t("parallel.label", { count: plans.length })} on={on} onReady={setChart} />
        </div>
      </div>
    </ChartCard>
  );
}

/** The fastest plan in the first colour of the palette, the slowest in the second. */
function stepTints(plans: readonly RankedPlan[], palette: Palette): (plan: RankedPlan) => string {
  const steps = plans.map(({ estimate }) => estimate.step_time_s);
  const [low, high] = [Math.min(...steps), Math.max(...steps)];
  const channels = (color: string) => [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));
  const [fast, slow] = [channels(seriesColor(palette, 0)), channels(seriesColor(palette, 1))];
  return ({ estimate }) => {
    const share = high > low ? (estimate.step_time_s - low) / (high - low) : 0;
    return `rgb(${fast.map((channel, index) => Math.round(channel + share * ((slow[index] ?? channel) - channel))).join(",")})`;
  };
}

/** ECharts draws a brush in an opaque grey as soon as another axis has one, or when an action gave it. */
function tintBrushes(chart: ECharts, color: string): void {
  for (const root of chart.getZr().storage.getRoots())
    root.traverse((element) => {
      if (!element.parent || !("__brushOption" in element.parent) || !("style" in element)) return;
      const brush = element as unknown as { style: { fill?: string; opacity?: number }; attr: (change: object) => void };
      if (brush.style.fill && brush.style.fill !== "none" && (brush.style.fill !== color || brush.style.opacity !== BRUSH_OPACITY))
        brush.attr({ style: { fill: color, stroke: color, opacity: BRUSH_OPACITY } });
    });
}

function label(surface: string, width: number) {
  return { fontSize: 11, lineHeight: 12, width: width - 8, overflow: "break", textBorderColor: surface, textBorderWidth: 3 };
}
