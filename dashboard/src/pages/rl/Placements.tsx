import { Anchor, Badge, Title } from "@mantine/core";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { DataTable, type Column } from "../../components/DataTable";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { compact, count, number, seconds, tokensPerSecond } from "../../units/format";
import { PLACEMENTS } from "./request";
import { instanceText, layoutText, type Plan, type Search } from "./steps";

interface Props {
  search: Search;
  onLook: ((plan: Plan) => void) | null;
}

/** The placements that were priced, the fastest first. */
export function Placements({ search, onLook }: Props) {
  const { t } = useTranslation("rl");
  const columns = useMemo<Column<Plan>[]>(() => {
    const numeric = (key: keyof Plan, header: string, cell: (plan: Plan) => string, shown = true): Column<Plan> => ({
      key, header, numeric: true, shown, value: (plan) => plan[key] as number | null | undefined, cell,
    });
    return [
      numeric("rank", t("rank"), ({ rank }) => String(rank)),
      { key: "placement", header: t("field.placement"), fixed: true, value: ({ placement }) => placement, cell: ({ placement }) => <span style={{ whiteSpace: "nowrap" }}>{t(`placement.${placement}`, { defaultValue: placement })}</span> },
      numeric("rollout_devices", t("rollsOut"), (plan) => count(plan.rollout_devices)),
      numeric("train_devices", t("trains"), (plan) => count(plan.train_devices)),
      numeric("reference_devices", t("references"), (plan) => count(plan.reference_devices), search.plans.some((plan) => plan.reference_devices != null)),
      numeric("staleness_steps", t("stale"), (plan) => count(plan.staleness_steps)),
      {
        key: "strategy",
        header: t("training"),
        value: ({ strategy }) => layoutText(strategy),
        cell: ({ strategy, fits }) => (
          <span style={{ whiteSpace: "nowrap" }}>
            {layoutText(strategy)}{" "}
            {!fits && (
              <Badge variant="outline" tt="none" fw={500} style={{ color: "var(--tone-bad)", borderColor: "currentColor" }}>
                {t("tooLarge")}
              </Badge>
            )}
          </span>
        ),
      },
      { key: "instances", header: t("instances"), value: ({ rollout }) => instanceText(rollout), cell: ({ rollout }) => <span style={{ whiteSpace: "nowrap" }}>{instanceText(rollout)}</span> },
      numeric("step_time_s", t("step"), (plan) => seconds(plan.step_time_s)),
      numeric("tokens_per_s", t("tokensPerS"), (plan) => compact(plan.tokens_per_s)),
      numeric("tokens_per_s_per_device", t("perDevice"), (plan) => number(plan.tokens_per_s_per_device, 4)),
      ...(onLook
        ? [
            {
              key: "look",
              header: t("look"),
              hiddenHeader: true,
              fixed: true,
              cell: (plan: Plan) => (
                <Anchor component="button" type="button" size="sm" style={{ whiteSpace: "nowrap" }} onClick={() => onLook(plan)} aria-label={t("lookAt", { rank: plan.rank })}>
                  {t("look")}
                </Anchor>
              ),
            },
          ]
        : []),
    ];
  }, [search, onLook, t]);
  return (
    <DataTable
      label={t("placements")}
      toolbar={<Title order={2}>{t("placements")}</Title>}
      rows={search.plans}
      columns={columns}
      rowKey={({ rank }) => String(rank)}
      rowTone={({ rank, fits }) => (rank === 1 ? "strong" : fits ? undefined : "faint")}
      prefix="plan-"
    />
  );
}

interface Item {
  value: [number, number];
  plan: Plan;
}

/** How much throughput each step of staleness buys. */
export function Pareto({ search }: { search: Search }) {
  const { t } = useTranslation("rl");
  const palette = usePalette();
  const title = (plan: Plan) => t("planTitle", { placement: t(`placement.${plan.placement}`, { defaultValue: plan.placement }), rollout: count(plan.rollout_devices), train: count(plan.train_devices) });
  const option = useMemo<EChartsCoreOption>(() => {
    const front = search.pareto.map((plan): Item => ({ value: [plan.staleness_steps, plan.tokens_per_s], plan }));
    const most = Math.max(1, ...[...search.plans, ...search.pareto].map((plan) => plan.staleness_steps));
    return {
      grid: { left: 12, right: 30, top: 40, bottom: 36 },
      legend: { bottom: 0, left: 0, right: 0 },
      xAxis: { type: "value", min: 0, max: most, interval: 1, name: t("staleAxis"), nameLocation: "middle", nameGap: 26 },
      yAxis: { type: "value", min: 0, name: t("tokensPerS"), nameTextStyle: { align: "left" }, axisLabel: { formatter: (value: number) => compact(value) } },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { plan } }: { data: Partial<Item> }) =>
          plan
            ? tooltipHtml(title(plan), [
                { name: t("tokensPerS"), value: tokensPerSecond(plan.tokens_per_s) },
                { name: t("step"), value: seconds(plan.step_time_s) },
                { name: t("stale"), value: count(plan.staleness_steps) },
                { name: t("training"), value: layoutText(plan.strategy) },
                { name: t("instances"), value: instanceText(plan.rollout) },
              ])
            : "",
      },
      series: [
        {
          type: "line",
          name: t("front"),
          step: "end",
          symbol: "circle",
          symbolSize: 11,
          z: 2,
          itemStyle: { color: palette.good },
          lineStyle: { color: palette.good, width: 1.5, type: "dashed" },
          data: front,
        },
        ...PLACEMENTS.map((placement, index) => ({
          type: "scatter",
          name: t(`placement.${placement}`),
          z: 3,
          symbolSize: 8,
          itemStyle: { color: seriesColor(palette, [0, 1, 3, 4][index] ?? index) },
          data: search.plans.filter((plan) => plan.placement === placement).map((plan): Item => ({ value: [plan.staleness_steps, plan.tokens_per_s], plan })),
        })).filter(({ data }) => data.length > 0),
      ],
    };
  }, [search, palette, t]);
  return (
    <ChartCard
      title={t("pareto")}
      subtitle={t("paretoHelp")}
      table={{
        columns: [t("stale"), t("field.placement"), t("tokensPerS"), t("step")],
        rows: search.pareto.map((plan) => [count(plan.staleness_steps), title(plan), tokensPerSecond(plan.tokens_per_s), seconds(plan.step_time_s)]),
      }}
      data={() => [
        ["staleness_steps", "tokens_per_s", "step_time_s", "placement", "rollout_devices", "train_devices", "on_front"],
        ...[...search.pareto, ...search.plans].map((plan, place) => [
          plan.staleness_steps, plan.tokens_per_s, plan.step_time_s, plan.placement, plan.rollout_devices, plan.train_devices, place < search.pareto.length,
        ]),
      ]}
    >
      <Chart option={option} height={340} label={t("paretoLabel", { front: search.pareto.map((plan) => `${plan.staleness_steps}${marks().colon}${tokensPerSecond(plan.tokens_per_s)}`).join(marks().comma) })} />
    </ChartCard>
  );
}
