import { Button } from "@mantine/core";
import { useReducedMotion } from "@mantine/hooks";
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { useTranslation } from "../../i18n";
import { usePrinting } from "../../theme/printing";
import { usePalette } from "../../theme/usePalette";
import { chartTheme } from "./chartTheme";
import { init, type ECharts, type EChartsCoreOption } from "./echarts";
import { withWholeLegend } from "./legend";
import { numbersOf } from "./numbers";
import { PictureOf, pngOf } from "./picture";
import { zoomedAxis } from "./axis";
import { followDrags, type Range } from "./zoom";

let measuring: CanvasRenderingContext2D | null = null;

function textWidth(text: string): number {
  measuring ??= document.createElement("canvas").getContext("2d");
  if (!measuring) return text.length * 7;
  measuring.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return measuring.measureText(text).width;
}

const SHARP = 2; // pixels of a saved picture for one of the page

interface Props {
  option: EChartsCoreOption;
  height: number;
  /** What the chart shows, in a sentence: screen readers read it in the chart's place. Give a table with the numbers beside it. */
  label: string;
  /** Of ECharts' events, such as `click`. */
  on?: Readonly<Record<string, (event: never) => void>>;
  onReady?: (chart: ECharts) => void;
  /** Both axes are numbers: dragging over a part shows it alone. */
  zoom?: boolean;
}

/** An ECharts chart in the page's theme that follows its container's width. */
export function Chart({ option: given, height, label, on, onReady, zoom = false }: Props) {
  const { t } = useTranslation();
  const [range, setRange] = useState<Range | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  const option = useMemo(() => (range ? { ...given, xAxis: zoomedAxis(given.xAxis, range.x), yAxis: zoomedAxis(given.yAxis, range.y) } : given), [given, range]);
  const palette = usePalette();
  const isPrinting = usePrinting();
  const isStill = useReducedMotion() || isPrinting;
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<ECharts | null>(null);
  const shown = useRef(option);
  const setPicture = useContext(PictureOf);

  const [width, setWidth] = useState(0);
  const { option: whole, more } = useMemo(() => withWholeLegend(option, width, textWidth), [option, width]);

  useEffect(() => {
    shown.current = whole;
  });

  useEffect(() => {
    const drawn = (): ECharts => {
      if (!chart.current) throw new Error("the chart has gone");
      return chart.current;
    };
    setPicture?.({
      png: () => pngOf(drawn().renderToCanvas({ pixelRatio: SHARP, backgroundColor: palette.surface })),
      svg: async () => {
        const { svgText } = await import("./svg");
        return svgText({ backgroundColor: palette.surface, ...shown.current }, chartTheme(palette), drawn().getWidth(), drawn().getHeight());
      },
      numbers: () => numbersOf(shown.current),
    });
    return () => setPicture?.(null);
  }, [setPicture, palette]);

  useEffect(() => {
    if (!place.current) return undefined;
    const created = init(place.current, chartTheme(palette), { renderer: "canvas" });
    chart.current = created;
    onReady?.(created);
    const observer = new ResizeObserver(([entry]) => {
      setWidth(Math.round(entry?.contentRect.width ?? 0));
      created.resize();
    });
    observer.observe(place.current);
    return () => {
      observer.disconnect();
      created.dispose();
      chart.current = null;
    };
  }, [palette, onReady]);

  useEffect(() => {
    chart.current?.setOption({ animation: !isStill, animationDuration: 250, ...whole }, { notMerge: true });
  }, [whole, palette, isStill, onReady]);

  // Observers do not see paper: its width is taken, and the chart drawn, before the browser goes on.
  useLayoutEffect(() => setWidth(place.current?.clientWidth ?? 0), [isPrinting]);
  useEffect(() => {
    chart.current?.resize();
    chart.current?.getZr().flush();
  }, [isPrinting, palette, whole]);

  useEffect(() => {
    const current = chart.current;
    const handlers = Object.entries(on ?? {});
    for (const [event, handler] of handlers) current?.on(event, handler as (event: unknown) => void);
    return () => {
      if (!current?.isDisposed()) for (const [event, handler] of handlers) current?.off(event, handler as (event: unknown) => void);
    };
  }, [on, palette, onReady]);

  useEffect(() => {
    if (!zoom || !chart.current || !frame.current) return undefined;
    return followDrags(chart.current, frame.current, setRange);
  }, [zoom, palette, onReady]);

  const drawing = <div ref={place} role="img" aria-label={label} style={{ height: height + more, width: "100%", minWidth: 0 }} />;
  if (!zoom) return drawing;
  return (
    <div style={{ position: "relative" }}>
      {drawing}
      <div ref={frame} style={{ display: "none", position: "absolute", pointerEvents: "none", border: "1px solid var(--mantine-primary-color-filled)", background: "var(--mantine-primary-color-light)" }} />
      {range && (
        <Button size="compact-xs" variant="default" onClick={() => setRange(null)} style={{ position: "absolute", top: 4, right: 4 }}>
          {t("wholeChart")}
        </Button>
      )}
    </div>
  );
}
