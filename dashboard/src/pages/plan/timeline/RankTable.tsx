import { Title } from "@mantine/core";
import { useMemo } from "react";
import { bracketed, useTranslation } from "../../../i18n";

import { DataTable, type Column } from "../../../components/DataTable";
import { bytes, percent, seconds } from "../../../units/format";
import { rankTotals, type RankTotals, type Timeline } from "./tasks";

/** The timeline in numbers, one row a rank. */
export function RankTable({ timeline }: { timeline: Timeline }) {
  const { t } = useTranslation("plan");
  const rows = useMemo(() => rankTotals(timeline), [timeline]);
  const { stepS } = timeline;
  const columns = useMemo<Column<RankTotals>[]>(() => {
    const time = (key: "computeS" | "communicationS" | "exposedS" | "bubbleS", help: string): Column<RankTotals> => ({
      key,
      header: t(`timeline.totals.${key}`),
      numeric: true,
      value: (row) => row[key],
      cell: (row) => `${seconds(row[key])}${bracketed(percent(row[key] / stepS))}`,
      help,
    });
    return [
      { key: "rank", header: t("timeline.fact.rank"), fixed: true, numeric: true, value: (row) => row.rank, cell: (row) => row.rank },
      time("computeS", t("timeline.totals.computeHelp")),
      time("bubbleS", t("timeline.totals.bubbleHelp")),
      time("communicationS", t("timeline.totals.communicationHelp")),
      time("exposedS", t("timeline.totals.exposedHelp")),
      { key: "peakBytes", csv: "peak_memory_bytes", header: t("timeline.totals.peakBytes"), numeric: true, value: (row) => row.peakBytes, cell: (row) => bytes(row.peakBytes) },
    ];
  }, [t, stepS]);
  return (
    <DataTable
      label={t("timeline.totals.title")}
      toolbar={<Title order={2}>{t("timeline.totals.title")}</Title>}
      rows={rows}
      columns={columns}
      rowKey={(row) => String(row.rank)}
      prefix="rank-"
    />
  );
}
