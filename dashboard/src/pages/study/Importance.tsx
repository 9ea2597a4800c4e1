import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { usePalette } from "../../theme/usePalette";
import { percent, signedPercent } from "../../units/format";
import type { RankedPlan } from "./data";
import type { Dimension } from "./dimensions";
import { useDimensionNames } from "./Filters";
import { importanceOf } from "./importance";

const ROW_PX = 38;

/** Which choices move step time and memory of the stored plans. */
export function Importance({ plans, dimensions }: { plans: readonly RankedPlan[]; dimensions: readonly Dimension[] }) {
  const { t } = useTranslation("study");
  const nameOf = useDimensionNames();
  const palette = usePalette();
  const rows = useMemo(() => importanceOf(plans, dimensions), [plans, dimensions]);
  const texts = rows.map(({ key, best, nextSlowerFraction }) => ({ name: nameOf(key), best: t("importance.best", { value: best, slower: signedPercent(nextSlowerFraction, 2) }) }));
  const option = useMemo<EChartsCoreOption>(
    () => ({
      grid: { left: 12, right: 24, top: 8, bottom: 50 },
      legend: { bottom: 0, left: 0, right: 0 },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: (points: { dataIndex: number }[]) => {
          const place = points[0]?.dataIndex ?? -1;
          const row = rows[place];
          if (!row) return "";
          return tooltipHtml(texts[place]?.name ?? "", [
            { name: t("tile.step"), value: percent(row.stepTime), color: palette.series[0] },
            { name: t("tile.memory"), value: percent(row.memory), color: palette.series[2] },
            { name: t("importance.fastest"), value: texts[place]?.best ?? "" },
          ]);
        },
      },
      xAxis: { type: "value", min: 0, max: 1, axisLabel: { formatter: (value: number) => percent(value, 0) } },
      yAxis: { type: "category", inverse: true, data: texts.map(({ name }) => name) },
      series: [
        { type: "bar", name: t("tile.step"), barMaxWidth: 10, itemStyle: { color: palette.series[0] }, data: rows.map(({ stepTime }) => stepTime) },
        { type: "bar", name: t("tile.memory"), barMaxWidth: 10, itemStyle: { color: palette.series[2] }, data: rows.map(({ memory }) => memory) },
      ],
    }),
    // The texts are made of the rows.
    [rows, palette, t],
  );
  const isTied = plans.every(({ rank_group }) => rank_group === 1); // what sets plans apart that cannot be told apart is no news
  if (rows.length === 0 || isTied) return null;
  return (
    <ChartCard
      title={t("importance.title")}
      subtitle={t("importance.subtitle", { count: plans.length })}
      table={{
        columns: [t("importance.dimension"), t("tile.step"), t("tile.memory"), t("importance.fastest")],
        rows: rows.map(({ stepTime, memory }, place) => [texts[place]?.name ?? "", percent(stepTime), percent(memory), texts[place]?.best ?? ""]),
      }}
      data={() => [
        ["dimension", "step_time_variance_fraction", "memory_variance_fraction", "fastest_value", "next_value_slower_fraction"],
        ...rows.map(({ key, stepTime, memory, best, nextSlowerFraction }) => [key, stepTime, memory, best, nextSlowerFraction]),
      ]}
    >
      <Chart
        option={option}
        height={66 + rows.length * ROW_PX}
        label={t("importance.label", { parts: rows.map(({ stepTime }, place) => `${texts[place]?.name} ${percent(stepTime, 0)}`).join(marks().list) })}
      />
    </ChartCard>
  );
}
