import { Badge, Card, Stack, Table } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import type { Plan, Study } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { Drawn } from "../../components/chart/Drawn";
import { ChartCard } from "../../components/ChartCard";
import { DataTable, type Column } from "../../components/DataTable";
import { changeText } from "../../components/strategy";
import { bytes, percent, seconds, signedPercent } from "../../units/format";
import { Analysed } from "./Analysed";
import type { Analysis, Change, Sensitivity } from "./data";
import { Explanation } from "./Explanation";
import { quantityName } from "./quantity";
import { Sliders } from "./Sliders";
import classes from "./Plan.module.css";

/** What one change would do, what the step depends on, and what else comes near. */
export function WhatIfTab({ study, plan }: { study: Study; plan: Plan }) {
  return (
    <Analysed studyId={study.id} plan={plan}>
      {(analysis) => (
        <Stack gap="md">
          <Changes analysis={analysis} />
          <Sensitivities rows={analysis.sensitivity} />
          <Sliders study={study} plan={plan} analysis={analysis} />
          <Explanation study={study} plan={plan} />
        </Stack>
      )}
    </Analysed>
  );
}

function Changes({ analysis: { changes, fit_limit_bytes: limit, step_time_s: step } }: { analysis: Analysis }) {
  const { t } = useTranslation("plan");
  const columns = useMemo<Column<Change>[]>(() => {
    const widest = Math.max(0.02, ...changes.map(({ delta_fraction }) => Math.abs(delta_fraction)));
    return [
      { key: "change", header: t("change.change"), fixed: true, value: ({ change }) => change, cell: ({ change }) => <span className={classes.change}>{changeText(change)}</span> },
      {
        key: "delta",
        header: t("change.delta"),
        numeric: true,
        value: ({ delta_fraction }) => delta_fraction,
        cell: ({ delta_fraction }) => signedPercent(delta_fraction),
      },
      { key: "bar", header: t("change.bar"), hiddenHeader: true, cell: ({ delta_fraction }) => <Diverging fraction={delta_fraction} widest={widest} /> },
      { key: "step", header: t("change.step"), numeric: true, value: ({ step_time_s }) => step_time_s, cell: ({ step_time_s }) => seconds(step_time_s) },
      {
        key: "memory",
        header: t("memory.peak"),
        numeric: true,
        value: ({ peak_memory_bytes }) => peak_memory_bytes,
        cell: ({ peak_memory_bytes }) => bytes(peak_memory_bytes),
      },
      {
        key: "fits",
        header: t("change.fits"),
        value: ({ fits }) => fits,
        cell: ({ fits, peak_memory_bytes }) =>
          fits ? (
            <Badge variant="transparent" px={0} tt="none" fw={500} className={classes.good} leftSection={<IconCheck size={13} />}>
              {t("change.yes")}
            </Badge>
          ) : (
            <Badge variant="transparent" px={0} tt="none" fw={500} className={classes.bad} leftSection={<IconX size={13} />}>
              {t("change.missing", { bytes: bytes(peak_memory_bytes - limit) })}
            </Badge>
          ),
      },
    ];
  }, [changes, limit, t]);
  const best = changes.find(({ delta_fraction }) => delta_fraction < -5e-4);
  return (
    <Card>
      <CardHead
        title={t("change.title")}
        help={
          best
            ? t(best.fits ? "change.best" : "change.bestTooLarge", {
                change: best.change,
                gain: percent(-best.delta_fraction),
                bytes: bytes(best.fits ? best.peak_memory_bytes : best.peak_memory_bytes - limit),
              })
            : t("change.none", { step: seconds(step) })
        }
        mb="sm"
      />
      <DataTable
        label={t("change.title")}
        rows={changes}
        columns={columns}
        rowKey={({ change }) => change}
        defaultSort="delta"
        prefix="change-"
        rowTone={({ fits }) => (fits ? undefined : "faint")}
      />
    </Card>
  );
}

function Diverging({ fraction, widest }: { fraction: number; widest: number }) {
  const width = `${Math.min(Math.abs(fraction) / widest, 1) * 50}%`;
  return (
    <div className={classes.diverging} aria-hidden>
      <div
        className={classes.bar}
        style={{ width, background: `var(--tone-${fraction < 0 ? "good" : "bad"})`, ...(fraction < 0 ? { right: "50%" } : { left: "50%" }) }}
      />
    </div>
  );
}

function Sensitivities({ rows }: { rows: readonly Sensitivity[] }) {
  const { t } = useTranslation("plan");
  const widest = Math.max(0.01, ...rows.flatMap((row) => [-row.better_delta_fraction, row.worse_delta_fraction]));
  const change = percent(rows[0]?.change_fraction ?? 0.1, 0);
  const lines = () => [
    ["quantity", "change_fraction", "better_step_time_s", "worse_step_time_s"],
    ...rows.map((row) => [row.quantity, row.change_fraction, row.better_step_time_s, row.worse_step_time_s]),
  ];
  return (
    <ChartCard title={t("sensitivity.title")} subtitle={t("sensitivity.help", { change })}>
      <Drawn numbers={lines}>
        <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("sensitivity.title")}>
          <Table className={classes.waterfall} horizontalSpacing="sm" verticalSpacing={5}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("sensitivity.quantity")}</Table.Th>
                <Table.Th ta="right">{t("sensitivity.better", { change })}</Table.Th>
                <Table.Th className={classes.barColumn}>
                  <span className="visually-hidden">{t("change.bar")}</span>
                </Table.Th>
                <Table.Th ta="right">{t("sensitivity.worse", { change })}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map(({ quantity, better_delta_fraction: better, worse_delta_fraction: worse, better_step_time_s, worse_step_time_s }) => (
                <Table.Tr key={quantity}>
                  <Table.Td>{quantityName(quantity, t)}</Table.Td>
                  <Table.Td className={classes.figure}>
                    {signedPercent(better, 2)} <small>{seconds(better_step_time_s)}</small>
                  </Table.Td>
                  <Table.Td className={classes.barColumn}>
                    <div className={classes.diverging} aria-hidden>
                      <div className={classes.bar} style={{ right: "50%", width: `${(-better / widest) * 50}%`, background: "var(--tone-good)" }} />
                      <div className={classes.bar} style={{ left: "50%", width: `${(worse / widest) * 50}%`, background: "var(--tone-bad)" }} />
                    </div>
                  </Table.Td>
                  <Table.Td className={classes.figure}>
                    {signedPercent(worse, 2)} <small>{seconds(worse_step_time_s)}</small>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Drawn>
    </ChartCard>
  );
}
