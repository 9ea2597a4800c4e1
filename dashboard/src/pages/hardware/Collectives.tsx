import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { Chart } from "../../components/chart/Chart";
import { tooltipHtml } from "../../components/chart/tooltip";
import { ChartCard } from "../../components/ChartCard";
import { tierName } from "../../components/tiers";
import { bytesPerSecond, number, seconds } from "../../units/format";
import { ratesOf } from "./numbers";
import { citedBy } from "../../components/references";

type Collective = Schemas["MeasuredCollective"];

/** What collectives were measured to move, by message size. */
export function Collectives({ collectives }: { collectives: readonly Collective[] }) {
  const { t, i18n } = useTranslation("hardware");
  const option = useMemo(() => {
    return {
      tooltip: { trigger: "item" },
      legend: { top: 0 },
      grid: { top: 44, bottom: 4, left: 12, right: 20 },
      xAxis: { type: "log", logBase: 16, name: t("collectives.size"), nameLocation: "middle", axisLabel: { formatter: sizeOf } },
      yAxis: { type: "log", name: t("collectives.rate"), axisLabel: { formatter: (value: number) => bytesPerSecond(value, 1) } },
      series: collectives.map((collective, index) => ({
        type: "line",
        name: nameOf(collective),
        symbol: ["circle", "rect", "triangle", "diamond"][index % 4],
        symbolSize: 7,
        data: ratesOf(collective),
        tooltip: { formatter: ({ seriesName, value: [size, rate] }: { seriesName: string; value: [number, number] }) => tooltipHtml(seriesName, [{ name: sizeOf(size), value: bytesPerSecond(rate) }]) },
      })),
    };
  }, [collectives, t, i18n.language]);
  const sources = [...new Set(collectives.flatMap(({ source }) => citedBy(source).map(({ key }) => key)))];
  const rows = collectives.flatMap((collective) =>
    ratesOf(collective).map(([size, rate], index) => [nameOf(collective), sizeOf(size), seconds(collective.time_s[index]), bytesPerSecond(rate)]),
  );
  return (
    <ChartCard
      title={t("collectives.title")}
      subtitle={t("collectives.help", { sources: sources.join(marks().list) })}
      table={{ columns: [t("collectives.title"), t("collectives.size"), t("collectives.time"), t("collectives.rate")], rows }}
    >
      <Chart option={option} height={320} label={t("collectives.label", { count: collectives.length })} />
    </ChartCard>
  );
}

function nameOf({ tier, op, group_size: group }: Collective): string {
  return `${op.replaceAll("_", "-")} × ${group}${marks().comma}${tierName(tier)}`;
}

/** Messages are powers of two: 64 KiB, 16 MiB. */
function sizeOf(size: number): string {
  const [unit, name] = size >= 2 ** 20 ? [2 ** 20, "MiB"] : size >= 2 ** 10 ? [2 ** 10, "KiB"] : [1, "B"];
  return `${number(size / unit)} ${name}`;
}
