import { Card, Group, List, SegmentedControl, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Chart } from "../../components/chart/Chart";
import type { EChartsCoreOption } from "../../components/chart/echarts";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage } from "../../components/Loading";
import { tooltipHtml } from "../../components/chart/tooltip";
import { useUrlChoice } from "../../state/url";
import { usePalette } from "../../theme/usePalette";
import { signedPercent } from "../../units/format";
import { checkQuery, type CheckDocument, type KeptCheck, type WholeCheck } from "./data";
import { causesOf, changeOf, movedAgainstBaseline, movedParts, movedSince, shown, type Moved, type Part } from "./trends";
import { useWords } from "./words";

const BAR_PX = 26;

interface Props {
  check: WholeCheck;
  before: KeptCheck | undefined;
  /** Whether the history is known by now. */
  isKnown: boolean;
}

/** What moved: against the check before it, or against the baseline that it was given. */
export function MovedCard({ check, before, isKnown }: Props) {
  const { t } = useTranslation("checks");
  const { baseline } = check.check;
  const [against, setAgainst] = useUrlChoice("against", ["before", "baseline"], before || !baseline ? "before" : "baseline");
  const isBaseline = baseline !== null && (against === "baseline" || !before);
  if (!isKnown) return <LoadingPage tiles={2} />;
  if (!baseline && !before) return <Text c="dimmed">{t("nothingToCompare")}</Text>;
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={2}>{t("movedTitle")}</Title>
        {baseline && before && (
          <SegmentedControl
            aria-label={t("against")}
            value={isBaseline ? "baseline" : "before"}
            onChange={(value) => setAgainst(value as "before" | "baseline")}
            data={[
              { value: "before", label: t("theCheckBefore") },
              { value: "baseline", label: t("theBaseline") },
            ]}
          />
        )}
      </Group>
      {isBaseline ? <AgainstBaseline check={check} baseline={baseline} /> : before && <Since check={check} before={before} />}
    </Stack>
  );
}

function AgainstBaseline({ check, baseline }: { check: WholeCheck; baseline: NonNullable<CheckDocument["baseline"]> }) {
  const { t } = useTranslation("checks");
  const words = useWords();
  const moved = movedAgainstBaseline(check.check);
  return (
    <>
      <Card>
        <Movements
          columns={[t("byJob"), t("byTool")]}
          rows={baseline.movements.map(({ metric, before, value, job_fraction: job, tool_fraction: tool }) => [
            words.metric(metric), shown(metric, before), shown(metric, value), signedPercent(job), signedPercent(tool),
          ])}
        />
        <Sentences title={t("jobChanges")} sentences={baseline.job_changes} />
        <Sentences title={t("toolChanges")} sentences={baseline.tool_changes} />
        {baseline.note && <Text size="sm">{baseline.note}</Text>}
      </Card>
      {moved && <Parts moved={moved} name={check.moved?.against ?? baseline.name} />}
    </>
  );
}

function Since({ check, before }: { check: WholeCheck; before: KeptCheck }) {
  const { t } = useTranslation("checks");
  const words = useWords();
  const { data: earlier, error } = useQuery(checkQuery(before.id));
  const causes = causesOf(check, before);
  const metrics = Object.keys(check.metrics).filter((metric) => metric in before.metrics);
  return (
    <>
      <Card>
        <Movements
          columns={[t("partChange")]}
          rows={metrics.map((metric) => {
            const [then, now] = [before.metrics[metric], check.metrics[metric]];
            return [words.metric(metric), shown(metric, then), shown(metric, now), signedPercent(changeOf(now, then))];
          })}
        />
        <Text size="sm" mt="xs">
          {t("moved")}
          {marks().colon}
          {causes.length ? causes.map((cause) => t(`cause.${cause}`)).join(marks().list) : t("nothingMoved")}
        </Text>
      </Card>
      {error && <ErrorState error={error} />}
      {earlier && <Parts moved={movedSince(earlier.check, check.check)} name={words.check(before)} />}
    </>
  );
}

function Movements({ columns, rows }: { columns: readonly string[]; rows: readonly (readonly string[])[] }) {
  const { t } = useTranslation("checks");
  const heads = [t("metricName"), t("partBefore"), t("partNow"), ...columns];
  return (
    <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("movedTitle")}>
      <Table verticalSpacing={6} horizontalSpacing="sm">
        <Table.Thead>
          <Table.Tr>
            {heads.map((head, place) => (
              <Table.Th key={head} ta={place ? "end" : undefined}>
                {head}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={row[0]}>
              {row.map((cell, place) => (
                <Table.Td key={place} ta={place ? "end" : undefined} className={place ? "number" : undefined}>
                  {cell}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Sentences({ title, sentences }: { title: string; sentences: readonly string[] }) {
  if (sentences.length === 0) return null;
  return (
    <Stack gap={2} mt="sm">
      <Text size="sm" fw={550}>
        {title}
      </Text>
      <List size="sm">
        {sentences.map((sentence) => (
          <List.Item key={sentence} style={{ overflowWrap: "anywhere" }}>
            {sentence}
          </List.Item>
        ))}
      </List>
    </Stack>
  );
}

function Parts({ moved, name }: { moved: Moved; name: string }) {
  const { t } = useTranslation("checks");
  if (moved.time.length === 0 && moved.memory.length === 0) return <Text c="dimmed">{t("noBreakdown")}</Text>;
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
      <PartsChart title={t("timeParts")} unit="s" metric="step_time_s" parts={moved.time} name={name} />
      <PartsChart title={t("memoryParts")} unit="bytes" metric="peak_memory_bytes" parts={moved.memory} name={name} />
    </SimpleGrid>
  );
}

interface PartsProps {
  title: string;
  unit: string;
  metric: string;
  parts: readonly Part[];
  name: string;
}

/** What of a breakdown moved, as bars to either side of nothing. */
function PartsChart({ title, unit, metric, parts, name }: PartsProps) {
  const { t } = useTranslation("checks");
  const words = useWords();
  const palette = usePalette();
  const moved = useMemo(() => movedParts(parts), [parts]);
  const signed = useMemo(() => (value: number) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${shown(metric, Math.abs(value))}`, [metric]);
  const option = useMemo<EChartsCoreOption>(
    () => ({
      grid: { left: 12, right: 24, top: 8, bottom: 8 },
      xAxis: { type: "value", splitNumber: 3, axisLabel: { formatter: (value: number) => (value ? signed(value) : "0") } },
      yAxis: { type: "category", inverse: true, data: moved.map(({ part }) => words.part(part)), axisLabel: { width: 150, overflow: "break" } },
      tooltip: {
        trigger: "item",
        formatter: ({ data }: { data: { part: Part } }) =>
          tooltipHtml(words.part(data.part.part), [
            { name: t("partBefore"), value: shown(metric, data.part.before) },
            { name: t("partNow"), value: shown(metric, data.part.value) },
            { name: t("partChange"), value: signed(data.part.change) },
          ]),
      },
      series: [
        {
          type: "bar",
          name: t("partChange"),
          barMaxWidth: 18,
          data: moved.map((part) => ({ value: part.change, part, itemStyle: { color: part.change > 0 ? palette.bad : palette.good } })),
        },
      ],
    }),
    [moved, words, palette, t, metric, signed],
  );
  const table = {
    columns: [t("part"), t("partBefore"), t("partNow"), t("partChange")],
    rows: parts.map(({ part, before, value, change }) => [words.part(part), shown(metric, before), shown(metric, value), signed(change)]),
  };
  const data = () => [["part", `before_${unit}`, `now_${unit}`, `change_${unit}`], ...parts.map(({ part, before, value, change }) => [part, before, value, change])];
  const label = t("partsLabel", { title, values: moved.map(({ part, change }) => `${words.part(part)} ${signed(change)}`).join(marks().list) });
  return (
    <ChartCard title={title} subtitle={t("partsHelp", { name })} table={table} data={data}>
      {moved.length === 0 ? <Text c="dimmed">{t("unmoved")}</Text> : <Chart option={option} height={moved.length * BAR_PX + 60} label={label} />}
    </ChartCard>
  );
}
