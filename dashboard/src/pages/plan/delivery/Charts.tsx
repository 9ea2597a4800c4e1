import { useMemo } from "react";
import { useTranslation, type TFunction } from "../../../i18n";

import type { Schemas } from "../../../api/client";
import { ChartCard } from "../../../components/ChartCard";
import { Chart } from "../../../components/chart/Chart";
import type { EChartsCoreOption } from "../../../components/chart/echarts";
import { tooltipHtml } from "../../../components/chart/tooltip";
import { seriesColor } from "../../../theme/palette";
import { usePalette } from "../../../theme/usePalette";
import { amount, money, moneyUnit } from "../../../units/currency";
import { compact, count, duration, percent, seconds } from "../../../units/format";

type Goodput = Schemas["GoodputDocument"];

const stageName = (stage: string, t: TFunction) => t(`delivery.stage.${stage}`, { defaultValue: stage.replaceAll("_", " ") });

/** From the devices' peak to what is delivered, each stage a bar that hangs from the one before. */
export function Waterfall({ answer }: { answer: Goodput }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const rows = useMemo(() => {
    const stages = answer.waterfall;
    return [
      ...stages.map(({ stage, tokens_per_day: rate }, place) => ({ name: stageName(stage, t), rate, from: place && stages[place - 1]?.tokens_per_day })),
      { name: stageName("delivered", t), rate: answer.delivered_tokens_per_day, from: 0 },
    ].map((row, place, all) => ({ ...row, isTotal: place === 0 || place === all.length - 1 }));
  }, [answer, t]);
  const option = useMemo<EChartsCoreOption>(() => {
    const [total, loss] = [seriesColor(palette, 0), seriesColor(palette, 1)];
    return {
      grid: { left: 8, right: 24, top: 8, bottom: 12 },
      xAxis: { type: "value", name: t("delivery.tokensPerDay"), nameLocation: "middle", nameGap: 24, axisLabel: { formatter: (value: number) => compact(value, 2) } },
      yAxis: { type: "category", inverse: true, data: rows.map(({ name }) => name) },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: (points: { dataIndex: number }[]) => {
          const row = rows[points[0]?.dataIndex ?? -1];
          if (!row) return "";
          const lines = [{ name: t("delivery.left"), value: compact(row.rate), color: total }];
          if (!row.isTotal && row.from) lines.push({ name: t("delivery.lost"), value: percent(1 - row.rate / row.from, 2), color: loss });
          return tooltipHtml(row.name, lines);
        },
      },
      series: [
        { type: "bar", stack: "all", barMaxWidth: 20, itemStyle: { color: total }, data: rows.map(({ rate, isTotal }) => ({ value: rate, itemStyle: { opacity: isTotal ? 1 : 0.35 } })) },
        { type: "bar", stack: "all", barMaxWidth: 20, itemStyle: { color: loss }, data: rows.map(({ rate, from, isTotal }) => (isTotal ? 0 : Math.max((from || 0) - rate, 0))) },
      ],
    };
  }, [rows, palette, t]);
  return (
    <ChartCard
      title={t("delivery.waterfall")}
      subtitle={t("delivery.waterfallHelp")}
      table={{
        columns: [t("delivery.stageOf"), t("delivery.tokensPerDay"), t("delivery.left")],
        rows: rows.map(({ name, rate, from }) => [name, compact(rate, 4), from ? percent(rate / from, 2) : ""]),
      }}
    >
      <Chart option={option} height={rows.length * 30 + 46} label={t("delivery.waterfallLabel", { rate: compact(answer.delivered_tokens_per_day), peak: percent(answer.delivered_tokens_per_day / (answer.waterfall[0]?.tokens_per_day || 1)) })} />
    </ChartCard>
  );
}

/** The same degrees on fewer and on more devices: what they deliver a day, and what a trillion tokens cost. */
export function OnDevices({ answer }: { answer: Goodput }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const rows = answer.on_devices;
  const hasPrice = rows.some(({ usd_per_trillion_tokens: usd }) => usd != null);
  const hasDays = rows.some(({ delivered_days: days }) => days != null);
  const option = useMemo<EChartsCoreOption>(() => {
    const first = rows[0];
    const line = (index: number, name: string, data: (number | null | undefined)[], rest: object = {}) => ({
      type: "line", name, data, symbolSize: 8, lineStyle: { width: 2 }, itemStyle: { color: seriesColor(palette, index) }, ...rest,
    });
    const axis = (name: string, rest: object = {}) => ({ type: "value", name, min: 0, axisLabel: { formatter: (value: number) => compact(value, 2) }, ...rest });
    return {
      grid: { left: 8, right: 16, top: 34, bottom: 34 },
      legend: { bottom: 0, left: 0, right: 0 },
      xAxis: { type: "category", name: t("delivery.devices"), nameLocation: "middle", nameGap: 24, data: rows.map(({ num_devices: devices }) => count(devices)) },
      yAxis: hasPrice ? [axis(t("delivery.tokensPerDay")), axis(`${t("delivery.cost")} [${moneyUnit()}]`, { splitLine: { show: false }, axisLabel: { formatter: (usd: number) => amount(usd, 2) } })] : [axis(t("delivery.tokensPerDay"))],
      tooltip: {
        trigger: "axis",
        formatter: (points: { dataIndex: number }[]) => {
          const row = rows[points[0]?.dataIndex ?? -1];
          return row ? tooltipHtml(t("delivery.onCount", { devices: count(row.num_devices) }), columnsOf(row, t, hasDays, hasPrice)) : "";
        },
      },
      series: [
        line(0, t("delivery.delivered"), rows.map((row) => row.delivered_tokens_per_day)),
        line(9, t("delivery.linear"), rows.map((row) => (first ? (first.delivered_tokens_per_day * row.num_devices) / first.num_devices : null)), { symbol: "none", lineStyle: { width: 1.5, type: "dashed" } }),
        ...(hasPrice ? [line(1, t("delivery.cost"), rows.map((row) => row.usd_per_trillion_tokens), { yAxisIndex: 1 })] : []),
      ],
    };
  }, [rows, hasPrice, hasDays, palette, t]);
  const first = rows[0];
  if (!first || rows.length < 2) return null;
  return (
    <ChartCard
      title={t("delivery.onDevices")}
      subtitle={t("delivery.onDevicesHelp")}
      table={{
        columns: [t("delivery.devices"), ...columnsOf(first, t, hasDays, hasPrice).map(({ name }) => name)],
        rows: rows.map((row) => [count(row.num_devices), ...columnsOf(row, t, hasDays, hasPrice).map(({ value }) => value)]),
      }}
    >
      <Chart option={option} height={320} label={t("delivery.onDevicesLabel", { from: count(first.num_devices), to: count(rows.at(-1)?.num_devices) })} />
    </ChartCard>
  );
}

function columnsOf(row: Schemas["OnDevices"], t: TFunction, hasDays: boolean, hasPrice: boolean) {
  return [
    { name: t("delivery.tokensPerDay"), value: compact(row.delivered_tokens_per_day) },
    { name: t("delivery.step"), value: seconds(row.step_time_s) },
    { name: t("delivery.effective"), value: percent(row.effective_time_fraction, 2) },
    { name: t("delivery.fits"), value: t(row.fits ? "fits" : "tooLarge") },
    ...(hasDays ? [{ name: t("delivery.days"), value: row.delivered_days == null ? "–" : duration(row.delivered_days * 86_400) }] : []),
    ...(hasPrice ? [{ name: t("delivery.cost"), value: money(row.usd_per_trillion_tokens) }] : []),
  ];
}
