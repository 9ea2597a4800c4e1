import { Alert, Card, Progress as Bar, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import type { Study } from "../../api/queries";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { tooltipHtml } from "../../components/chart/tooltip";
import { ChartCard } from "../../components/ChartCard";
import { StatTile } from "../../components/StatTile";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { compact, count, duration, percent, seconds } from "../../units/format";
import { queuePlaceQuery } from "./data";
import { remaining } from "./remaining";
import type { Live, Progress } from "./useLive";

const COUNTED = ["enumerated", "legal", "fits_memory", "simulated", "sampled"] as const;

/** A search as it runs. */
export function LiveTab({ study, live: { history, connection } }: { study: Study; live: Live }) {
  const { t } = useTranslation("study");
  const latest = history.at(-1) ?? (study.progress as Progress | null);
  const counted = COUNTED.filter((name) => latest?.[name] != null);
  const done = latest?.done_fraction ?? 0;
  const left = remaining(history, (study.job.search as { time_limit_s?: number | null } | undefined)?.time_limit_s);
  const isQueued = study.state === "queued" && !study.cancel_requested;
  const ahead = useQuery(queuePlaceQuery(study.id, isQueued)).data?.num_ahead;
  return (
    <Stack gap="md">
      {connection === "lost" && (
        <Alert role="status" color="orange" variant="light" icon={<IconPlugConnectedX size={18} />} c="inherit">
          {t("live.lost")}
        </Alert>
      )}
      <Card>
        <Text size="sm" mb={6}>
          {study.cancel_requested
            ? t("live.stopping")
            : study.state === "queued"
              ? t(study.attempts ? "live.queuedAgain" : "live.queued")
              : t("live.running", { done: percent(done, 0), time: duration(latest?.elapsed_s ?? 0) })}
          {ahead != null && isQueued && ` ${t("live.ahead", { count: ahead })}`}
        </Text>
        <Bar value={done * 100} size="sm" animated={study.state === "running"} aria-label={t("live.progress")} />
        {study.state === "running" && !study.cancel_requested && (
          <Text size="sm" mt={6}>
            {left ? t("live.remaining", { low: duration(left.low), high: duration(left.high) }) : t(latest?.phase === "explain" ? "live.explaining" : "live.remainingUnknown")}
          </Text>
        )}
        <Text size="xs" c="dimmed" mt={6}>
          {t("live.progressNote")}
        </Text>
      </Card>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
        {(counted.length ? counted : COUNTED.slice(0, 3)).map((name) => (
          <StatTile key={name} label={t(`counts.${name}`)} help={t(`counts.help.${name}`)} value={count(latest?.[name])} note={rate(latest, name, t("live.perSecond"))} />
        ))}
        <StatTile label={t("live.best")} value={seconds(latest?.best_step_time_s)} {...(latest?.best_step_time_s != null && { tone: "good" as const })} />
      </SimpleGrid>
      {history.length > 1 && <OverTime history={history} counted={counted} />}
    </Stack>
  );
}

function rate(latest: Progress | null, name: (typeof COUNTED)[number], unit: string): string | null {
  const number = latest?.[name];
  return latest && number && latest.elapsed_s > 0 ? `${compact(number / latest.elapsed_s)} ${unit}` : null;
}

function OverTime({ history, counted }: { history: readonly Progress[]; counted: readonly (typeof COUNTED)[number][] }) {
  const { t } = useTranslation("study");
  const palette = usePalette();
  const time = (value: number) => duration(value);

  const best = useMemo<EChartsCoreOption>(
    () => ({
      grid: { left: 12, right: 20, top: 16, bottom: 12 },
      tooltip: {
        trigger: "axis",
        formatter: (points: { value: [number, number] }[]) =>
          points[0] ? tooltipHtml(time(points[0].value[0]), [{ name: t("live.best"), value: seconds(points[0].value[1]) }]) : "",
      },
      xAxis: { type: "value", min: 0, max: "dataMax", axisLabel: { formatter: time, showMaxLabel: false } },
      yAxis: { type: "value", scale: true, axisLabel: { formatter: (value: number) => seconds(value, 3) } },
      series: [
        {
          type: "line",
          step: "end",
          symbol: "none",
          color: palette.good,
          areaStyle: { opacity: 0.08, origin: "start" },
          data: history.flatMap(({ elapsed_s, best_step_time_s }) => (best_step_time_s == null ? [] : [[elapsed_s, best_step_time_s]])),
        },
      ],
    }),
    [history, palette, t],
  );

  const counts = useMemo<EChartsCoreOption>(
    () => ({
      grid: { left: 12, right: 20, top: 16, bottom: 36 },
      legend: { bottom: 0, left: 0 },
      tooltip: {
        trigger: "axis",
        formatter: (points: { value: [number, number]; seriesName: string; color: string }[]) =>
          points[0] ? tooltipHtml(time(points[0].value[0]), points.map(({ value, seriesName, color }) => ({ name: seriesName, value: count(value[1]), color }))) : "",
      },
      xAxis: { type: "value", min: 0, max: "dataMax", axisLabel: { formatter: time, showMaxLabel: false } },
      yAxis: { type: "value", axisLabel: { formatter: (value: number) => compact(value, 2) } },
      series: counted.map((name, index) => ({
        type: "line",
        symbol: "none",
        name: t(`counts.${name}`),
        color: seriesColor(palette, index),
        data: history.map((report) => [report.elapsed_s, report[name]]),
      })),
    }),
    [history, counted, palette, t],
  );

  const told = history.filter((report, index) => index === history.length - 1 || report.best_step_time_s !== history[index + 1]?.best_step_time_s);
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      <ChartCard
        title={t("live.bestOverTime")}
        table={{ columns: [t("live.after"), t("live.best")], rows: told.map((report) => [time(report.elapsed_s), seconds(report.best_step_time_s)]) }}
      >
        <Chart option={best} height={260} label={t("live.bestLabel")} />
      </ChartCard>
      <ChartCard
        title={t("live.countsOverTime")}
        table={{
          columns: [t("live.after"), ...counted.map((name) => t(`counts.${name}`))],
          rows: history.map((report) => [time(report.elapsed_s), ...counted.map((name) => count(report[name]))]),
        }}
      >
        <Chart option={counts} height={260} label={t("live.countsLabel")} />
      </ChartCard>
    </SimpleGrid>
  );
}
