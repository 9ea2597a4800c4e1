import { Button, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { isOrderedByBytes } from "../../api/objectives";
import type { Study } from "../../api/queries";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { ChartCard } from "../../components/ChartCard";
import { DataTable, type Column } from "../../components/DataTable";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage } from "../../components/Loading";
import { strategyText, type Strategy } from "../../components/strategy";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { bytes, count, seconds } from "../../units/format";
import { trialsQuery, type Trial } from "./data";

/** What a sampler tried, in order, and how the best of it fell. */
export function TrialsTab({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  const { data: trials, error, refetch } = useQuery(trialsQuery(study.id));
  if (error) return <ErrorState error={error} action={<Button onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />;
  if (!trials) return <LoadingPage tiles={0} />;
  return (
    <Stack gap="md">
      <History trials={trials} objective={study.objective} />
      <TrialTable trials={trials} />
    </Stack>
  );
}

/** An objective's value: bytes to have, or seconds a step. */
const valueText = (objective: string, value: number | null, digits = 4) => (isOrderedByBytes(objective) ? bytes(value) : seconds(value, digits));

function History({ trials, objective }: { trials: readonly Trial[]; objective: string }) {
  const { t } = useTranslation("study");
  const palette = usePalette();
  const option = useMemo<EChartsCoreOption>(() => {
    const outcome = (name: Trial["outcome"]) => trials.filter((trial) => trial.outcome === name);
    const least = Math.min(...trials.flatMap(({ value }) => value ?? []));
    const points = (name: Trial["outcome"], color: string, symbol: string) => ({
      type: "scatter",
      name: t(`trial.outcome.${name}`),
      symbol,
      symbolSize: 7,
      itemStyle: { color, opacity: 0.75 },
      // What has no value stands on the axis.
      data: outcome(name).map((trial) => ({ value: [trial.number, trial.value ?? least], trial })),
    });
    return {
      grid: { left: 12, right: 16, top: 28, bottom: 54 },
      legend: { bottom: 0, left: 0 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { trial } }: { data: { trial?: Trial } }) =>
          trial
            ? tooltipHtml(t("trial.title", { number: trial.number }), [
                { name: t("trial.outcome.title"), value: t(`trial.outcome.${trial.outcome}`) },
                { name: t("tile.step"), value: seconds(trial.step_time_s) },
                { name: t("tile.memory"), value: bytes(trial.peak_memory_bytes) },
              ])
            : "",
      },
      xAxis: { type: "value", name: t("trial.number"), nameLocation: "middle", nameGap: 24, minInterval: 1, max: "dataMax", axisLabel: { showMaxLabel: false } },
      yAxis: { type: "value", scale: true, axisLabel: { formatter: (value: number) => valueText(objective, value, 3) } },
      series: [
        points("fits", seriesColor(palette, 0), "circle"),
        points("too_large", palette.warn, "triangle"),
        points("illegal", palette.bad, "rect"),
        {
          type: "line",
          name: t("trial.best"),
          step: "end",
          symbol: "none",
          lineStyle: { color: palette.good, width: 2 },
          itemStyle: { color: palette.good },
          data: trials.filter(({ best_value }) => best_value !== null).map(({ number, best_value }) => [number, best_value]),
        },
      ],
    };
  }, [trials, objective, palette, t]);

  const best = trials.at(-1)?.best_value ?? null;
  const found = trials.find(({ best_value }) => best_value === best)?.number;
  return (
    <ChartCard
      title={t("trial.history")}
      subtitle={best === null ? t("trial.noneFits") : t("trial.foundAt", { number: found, value: valueText(objective, best), count: trials.length })}
    >
      <Chart option={option} height={320} label={t("trial.label", { count: trials.length })} />
    </ChartCard>
  );
}

function TrialTable({ trials }: { trials: readonly Trial[] }) {
  const { t, i18n } = useTranslation("study");
  const columns = useMemo((): Column<Trial>[] => {
    const strategy = (trial: Trial) => ("layer_layout" in trial.strategy ? strategyText(trial.strategy as Strategy) : "–");
    return [
      { key: "number", header: t("trial.number"), numeric: true, fixed: true, value: ({ number }) => number, cell: ({ number }) => count(number) },
      { key: "strategy", header: t("column.plan"), value: strategy, cell: strategy },
      {
        key: "outcome",
        header: t("trial.outcome.title"),
        value: ({ outcome }) => outcome,
        cell: ({ outcome, rule }) => (
          <>
            {t(`trial.outcome.${outcome}`)}
            {rule && (
              <Text size="xs" c="dimmed" title={rule}>
                {t(`rules:${rule}`, { defaultValue: rule })}
              </Text>
            )}
          </>
        ),
      },
      { key: "step", csv: "step_time_s", header: t("column.step"), numeric: true, value: ({ step_time_s }) => step_time_s, cell: ({ step_time_s }) => seconds(step_time_s) },
      {
        key: "memory",
        csv: "peak_memory_bytes",
        header: t("column.memory"),
        numeric: true,
        value: ({ peak_memory_bytes }) => peak_memory_bytes,
        cell: ({ peak_memory_bytes }) => bytes(peak_memory_bytes),
      },
      {
        key: "duplicate",
        header: t("trial.duplicate"),
        help: t("trial.duplicateHelp"),
        numeric: true,
        shown: false,
        value: ({ duplicate_of }) => duplicate_of,
        cell: ({ duplicate_of }) => duplicate_of ?? "–",
      },
      { key: "source", header: t("trial.source.title"), shown: false, value: ({ source }) => source, cell: ({ source }) => t(`trial.source.${source}`) },
    ];
  }, [t, i18n.language]);
  return <DataTable<Trial> label={t("tab.trials")} rows={trials} columns={columns} rowKey={({ number }) => String(number)} prefix="trials-" defaultSort="number" pageSize={25} />;
}
