import { Anchor, Badge, Button, Group, Stack, Table, Text, Title } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import { modelsQuery } from "../../api/queries";
import { csvText } from "../../components/csv";
import { storeModel } from "../../components/customModel";
import { DataTable, type Column } from "../../components/DataTable";
import { saveFile } from "../../components/saveFile";
import { strategyText } from "../../components/strategy";
import { bytes, compact, count, percent, seconds } from "../../units/format";
import { rangeText, stepText, withStep } from "../../units/interval";
import { freeBytes, isPlanned, linesOf, nameOf, studyAddress, varied, type Point, type Sweep } from "./points";
import { measured, MEASURES, useWords, type Measure } from "./words";

const TONES: Record<Point["state"], string> = { proved: "good", found: "warn", infeasible: "bad", refused: "bad" };

/** The name of an end of an interval in a CSV file. */
const endOf = (key: string, end: "low" | "high"): string => (key === "step_time_s" ? `step_time_${end}_s` : `${key}_${end}`);

/** Every point: its plan or why it has none, its numbers, and the way to a study of it. */
export function Points({ sweep }: { sweep: Sweep }) {
  const { t } = useTranslation("sweep");
  const presets = useQuery(modelsQuery()).data?.items;
  const columns = useMemo<Column<Point>[]>(() => {
    const names = (presets ?? []).map(({ name }) => name);
    const axes = new Set<string>(varied(sweep.points));
    const isPriced = sweep.points.some(({ cost_usd: usd }) => usd != null);
    const keep = () => storeModel({ model: (sweep.job as Record<string, Record<string, unknown>>).model ?? {}, num_parameters: null });
    /** With the interval of what follows from the step. */
    const withInterval = (key: "step_time_s" | "tokens_per_s" | Measure, header: string, format: (value: number | null | undefined) => string, shown = true): Column<Point> => {
      const interval = (point: Point) => withStep(point, point[key], key === "tokens_per_s" ? "shrinks" : "grows");
      return {
        key,
        header,
        numeric: true,
        shown,
        value: (point) => point[key],
        csv: { [key]: (point) => point[key], [endOf(key, "low")]: (point) => interval(point)?.low, [endOf(key, "high")]: (point) => interval(point)?.high },
        cell: (point) => (
          <>
            {format(point[key])}
            {interval(point) && (
              <Text size="xs" c="dimmed" className="number">
                {rangeText(interval(point), key === "step_time_s" ? stepText : format)}
              </Text>
            )}
          </>
        ),
      };
    };
    const numeric = (key: keyof Point, header: string, cell: (point: Point) => string, shown = true): Column<Point> => ({
      key,
      header,
      numeric: true,
      shown,
      value: (point) => point[key] as number | null | undefined,
      cell,
    });
    return [
      numeric("point", t("point"), ({ point }) => String(point)),
      numeric("num_devices", t("devices"), ({ num_devices: devices }) => count(devices)),
      { key: "hardware", header: t("field.hardware"), shown: axes.has("hardware"), value: ({ hardware }) => hardware, cell: ({ hardware }) => <span style={{ whiteSpace: "nowrap" }}>{hardware}</span> },
      { key: "stack", header: t("field.software"), shown: axes.has("stack"), value: ({ stack }) => stack, cell: ({ stack }) => stack },
      numeric("global_batch_size", t("field.batch"), (point) => count(point.global_batch_size), axes.has("global_batch_size")),
      numeric("seq_length", t("field.sequence"), (point) => count(point.seq_length), axes.has("seq_length")),
      {
        key: "state",
        header: t("state"),
        value: ({ state }) => state,
        cell: ({ state }) => (
          <Badge variant="outline" tt="none" fw={500} miw="max-content" style={{ color: `var(--tone-${TONES[state]})`, borderColor: "currentColor" }}>
            {t(`states.${state}`)}
          </Badge>
        ),
      },
      {
        key: "plan",
        header: t("plan"),
        value: (point) => (point.strategy ? strategyText(point.strategy) : point.reason),
        cell: (point) => (
          <Text size="sm" miw={200} maw={420} {...(!point.strategy && { c: "dimmed" })} style={{ whiteSpace: "normal", overflowWrap: "anywhere" }}>
            {point.strategy ? strategyText(point.strategy) : point.reason}
          </Text>
        ),
      },
      {
        key: "study",
        header: t("study"),
        fixed: true,
        cell: (point) =>
          point.state === "refused" ? null : (
            <Group gap={10} wrap="nowrap">
              <Anchor component={Link} size="sm" style={{ whiteSpace: "nowrap" }} to={studyAddress(sweep, point, names, false)} onClick={keep} aria-label={t("studyOfSizeLabel", { point: point.point })}>
                {t("studyOfSize")}
              </Anchor>
              {isPlanned(point) && (
                <Anchor component={Link} size="sm" style={{ whiteSpace: "nowrap" }} to={studyAddress(sweep, point, names, true)} onClick={keep} aria-label={t("studyOfPlanLabel", { point: point.point })}>
                  {t("studyOfPlan")}
                </Anchor>
              )}
            </Group>
          ),
      },
      withInterval("step_time_s", t("step"), seconds),
      withInterval("tokens_per_s", t("tokensPerS"), compact),
      numeric("linearity_fraction", t("linearity"), (point) => percent(point.linearity_fraction)),
      numeric("marginal_fraction", t("marginal"), (point) => percent(point.marginal_fraction), false),
      numeric("mfu_fraction", t("mfu"), (point) => percent(point.mfu_fraction), false),
      numeric("peak_memory_bytes", t("memory"), (point) => bytes(point.peak_memory_bytes)),
      { key: "below_fit_limit_bytes", header: t("free"), numeric: true, shown: false, value: freeBytes, cell: (point) => bytes(freeBytes(point)) },
      ...MEASURES.map((measure) => withInterval(measure, t(`measure.${measure}`), measured[measure], measure !== "device_days" || !isPriced)),
      {
        key: "within",
        header: t("within"),
        shown: Object.keys(sweep.constraints).length > 0,
        value: ({ within }) => within,
        cell: ({ within }) => (within == null ? "–" : t(within ? "yes" : "no")),
      },
    ];
  }, [sweep, presets, t]);
  return (
    <DataTable
      label={t("points")}
      rows={sweep.points}
      columns={columns}
      rowKey={({ point }) => String(point)}
      rowTone={({ point, strategy }) => (point === sweep.best?.point ? "strong" : strategy ? undefined : "faint")}
      prefix="point-"
      toolbar={
        <Group gap="sm">
          <Title order={2}>{t("points")}</Title>
          <Button
            size="xs"
            variant="default"
            leftSection={<IconDownload size={14} />}
            onClick={() => saveFile("sweep.csv", "text/csv", csvText(linesOf(sweep)))}
          >
            {t("saveCsv")}
          </Button>
        </Group>
      }
    />
  );
}

/** Which structure is the best where. */
export function Structures({ sweep }: { sweep: Sweep }) {
  const { t } = useTranslation("sweep");
  const words = useWords();
  const axes = varied(sweep.points);
  /** "atlas: 8, 16, 32 devices", a line for each combination. */
  const where = (numbers: readonly number[]): string[] => {
    const found = new Map<string, Point[]>();
    for (const point of sweep.points.filter((each) => numbers.includes(each.point))) {
      const name = nameOf(point, axes, words);
      found.set(name, [...(found.get(name) ?? []), point]);
    }
    return [...found].map(([name, points]) => {
      const text = t("onDevices", { count: points.length > 1 ? 2 : (points[0]?.num_devices ?? 1), devices: points.map((point) => count(point.num_devices)).join(t("comma")) });
      return name ? t("whereOf", { name, devices: text }) : text;
    });
  };
  return (
    <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("structures")}>
      <Table verticalSpacing={6}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("structure")}</Table.Th>
            <Table.Th ta="right">{t("wins")}</Table.Th>
            <Table.Th>{t("where")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {sweep.structures.map((one) => (
            <Table.Tr key={one.points.join()}>
              <Table.Td style={{ whiteSpace: "nowrap" }}>
                {`TP${one.tp} PP${one.pp} VPP${one.vpp} CP${one.cp} EP${one.ep}`} <small>{one.schedule}</small>
              </Table.Td>
              <Table.Td ta="right">{count(one.points.length)}</Table.Td>
              <Table.Td miw={240}>
                <Stack gap={0}>
                  {where(one.points).map((text) => (
                    <span key={text}>{text}</span>
                  ))}
                </Stack>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
