import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { Chart } from "../../components/chart/Chart";
import "../../components/chart/heatmap";
import { tooltipHtml } from "../../components/chart/tooltip";
import { usePalette } from "../../theme/usePalette";
import { number } from "../../units/format";
import { cellsOf } from "./request";

const ROW_HEIGHT = 7;
const LEAST_HEIGHT = 220;

interface Props {
  /** Over the mean of the layer, by layer and rank. */
  loads: readonly (readonly number[])[];
  /** Number of each layer in the model. */
  layers: readonly number[];
  /** The load of the darkest cell, the same for maps that are compared. */
  most: number;
  label: string;
}

/** Load of each layer on each expert-parallel rank: the mean has the page's colour, more and less their own. */
export function HeatMap({ loads, layers, most, label }: Props) {
  const { t } = useTranslation("experts");
  const palette = usePalette();
  const option = useMemo(() => {
    const far = Math.max(most - 1, 0.05);
    return {
      grid: { left: 8, right: 16, top: 8, bottom: 56 },
      xAxis: { type: "category", name: t("rank"), nameLocation: "middle", data: (loads[0] ?? []).map((_, rank) => String(rank)) },
      yAxis: { type: "category", name: "", data: layers.map(String), inverse: true },
      visualMap: {
        min: 1 - far,
        max: 1 + far,
        orient: "horizontal",
        left: "center",
        bottom: 0,
        itemHeight: 160,
        itemWidth: 12,
        text: [`${number(1 + far, 3)} ×`, `${number(Math.max(1 - far, 0), 3)} ×`],
        textStyle: { color: palette.text },
        inRange: { color: [palette.series[0], palette.surface, palette.bad] },
      },
      tooltip: {
        trigger: "item",
        formatter: ({ value: [rank, layer, load] }: { value: [number, number, number] }) =>
          tooltipHtml(t("cell", { layer: layers[layer] ?? layer, rank }), [{ name: t("overMean"), value: `${number(load, 4)} ×` }]),
      },
      series: [{ type: "heatmap", data: cellsOf(loads).cells, progressive: 0 }],
    };
  }, [loads, layers, most, palette, t]);
  return <Chart option={option} height={Math.max(LEAST_HEIGHT, loads.length * ROW_HEIGHT + 80)} label={label} />;
}
