import { Anchor, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconExternalLink, IconSearch } from "@tabler/icons-react";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { DataTable, type Column } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { bytes, count, seconds, secondsRange, signedPercent } from "../../units/format";
import { errorOf, predictedOf, type Run, type View } from "./errors";
import { addressOf } from "./RunCard";

interface Props {
  runs: readonly Run[];
  view: View;
  chosen: string;
  onChoose: (id: string) => void;
}

export function RunTable({ runs, view, chosen, onChoose }: Props) {
  const { t, i18n } = useTranslation("accuracy");
  const columns = useMemo(
    (): Column<Run>[] => [
      {
        key: "run",
        header: t("column.run"),
        fixed: true,
        value: (run) => run.model,
        cell: (run) => (
          <Stack gap={0} miw={150} maw={300}>
            <UnstyledButton onClick={() => onChoose(run.id)} fw={550} fz="sm" style={{ overflowWrap: "anywhere" }}>
              {run.model}
            </UnstyledButton>
            <Text size="xs" c="dimmed" ff="monospace" style={{ overflowWrap: "anywhere" }}>
              {run.id}
            </Text>
          </Stack>
        ),
      },
      { key: "category", header: t("column.category"), value: (run) => run.category, cell: (run) => <span className="number">{run.category ? t(`category.${run.category}`) : "–"}</span> },
      {
        key: "hardware",
        header: t("column.hardware"),
        value: (run) => run.hardware,
        cell: (run) => <span className="number">{`${count(run.num_devices)} × ${run.hardware}`}</span>,
      },
      { key: "stack", header: t("column.stack"), value: (run) => run.stack, cell: (run) => <span className="number">{run.stack ?? "–"}</span> },
      { key: "precision", header: t("column.precision"), shown: false, value: (run) => run.precision, cell: (run) => run.precision },
      { key: "seq", header: t("column.seq"), shown: false, numeric: true, value: (run) => run.seq_length, cell: (run) => count(run.seq_length) },
      { key: "measured", header: t("column.measured"), numeric: true, value: (run) => run.measured_step_time_s, cell: (run) => seconds(run.measured_step_time_s) },
      {
        key: "predicted",
        header: t("column.predicted"),
        numeric: true,
        value: (run) => predictedOf(run, view),
        cell: (run) => (
          <>
            {seconds(predictedOf(run, view))}
            {view === "shipped" && (
              <Text size="xs" c="dimmed">
                {secondsRange(run.low_s, run.high_s)}
              </Text>
            )}
          </>
        ),
      },
      { key: "error", header: t("column.error"), numeric: true, value: (run) => errorOf(run, view), cell: (run) => signedPercent(errorOf(run, view)) },
      { key: "size", header: t("column.size"), numeric: true, shown: false, value: (run) => Math.abs(errorOf(run, view) ?? 0), cell: (run) => signedPercent(Math.abs(errorOf(run, view) ?? NaN)) },
      { key: "memory", header: t("column.memory"), numeric: true, shown: false, value: (run) => run.measured_peak_memory_bytes, cell: (run) => bytes(run.measured_peak_memory_bytes) },
      { key: "memoryError", header: t("column.memoryError"), numeric: true, shown: false, value: (run) => run.memory_error_fraction, cell: (run) => signedPercent(run.memory_error_fraction) },
      {
        key: "source",
        header: t("column.source"),
        value: (run) => run.source.title,
        cell: (run) => (
          <Anchor href={addressOf(run.source.url)} target="_blank" rel="noreferrer" size="sm" lineClamp={2} miw={100} maw={150} style={{ overflowWrap: "anywhere" }} title={run.source.locator}>
            {run.source.title} <IconExternalLink size={12} aria-hidden style={{ verticalAlign: "-1px" }} />
          </Anchor>
        ),
      },
    ],
    [t, i18n.language, view, onChoose],
  );
  return (
    <DataTable
      label={t("runs")}
      rows={runs}
      columns={columns}
      rowKey={(run) => run.id}
      rowTone={(run) => (run.id === chosen ? "strong" : undefined)}
      pageSize={25}
      toolbar={<Text fw={600}>{t("runs")}</Text>}
      empty={<EmptyState icon={IconSearch} title={t("noMatch")} />}
    />
  );
}
