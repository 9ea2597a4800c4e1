import { Button, Card, Code, Group, Stack, Table, Text, Title } from "@mantine/core";
import { IconAdjustmentsOff } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { marks, Trans, useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { CardHead } from "../../components/CardHead";
import { CopyButton } from "../../components/CopyButton";
import { DataTable, type Column } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { useUrlText } from "../../state/url";
import { ago, count, moment, signedPercent } from "../../units/format";
import { calibrationsQuery } from "../../api/queries";
import { CalibrationCard } from "./CalibrationCard";
import { ConstantTable } from "./ConstantTable";
import { calibrationQuery } from "./own";

type Shipped = Schemas["ShippedCalibration"];
type Summary = Schemas["CalibrationSummary"];

export function CalibrationsTab({ shipped }: { shipped: readonly Shipped[] }) {
  const { t } = useTranslation("accuracy");
  return (
    <Stack gap="md">
      <Text size="sm">
        <Trans text={t("inUse")} components={{ code: (words) => <Code>{words}</Code> }} />
      </Text>
      <Stored />
      {shipped.map((calibration) => (
        <ShippedCard key={calibration.family} calibration={calibration} />
      ))}
    </Stack>
  );
}

function Stored() {
  const { t, i18n } = useTranslation("accuracy");
  const { data: stored, error } = useQuery(calibrationsQuery());
  const [chosen, setChosen] = useUrlText("calibration");
  const [, setTab] = useUrlText("tab");
  const { data: open, error: missing } = useQuery({ ...calibrationQuery(chosen), enabled: chosen !== "" });
  const columns = useMemo(
    (): Column<Summary>[] => [
      {
        key: "id",
        header: t("calibration.id"),
        fixed: true,
        value: (row) => row.id,
        cell: (row) => (
          <Group gap={4} wrap="nowrap">
            <Code>{row.id}</Code>
            <CopyButton text={row.id} />
          </Group>
        ),
      },
      { key: "hardware", header: t("column.hardware"), value: (row) => row.hardware, cell: (row) => row.hardware },
      { key: "stack", header: t("column.stack"), value: (row) => row.stack, cell: (row) => row.stack },
      { key: "runs", header: t("errors.count"), numeric: true, value: (row) => row.num_runs, cell: (row) => count(row.num_runs) },
      { key: "version", header: t("calibration.version"), value: (row) => row.version, cell: (row) => row.version },
      { key: "age", header: t("calibration.age"), numeric: true, value: (row) => row.created_at_s, cell: (row) => <span title={moment(row.created_at_s)}>{ago(row.created_at_s)}</span> },
      {
        key: "open",
        header: t("calibration.open"),
        hiddenHeader: true,
        fixed: true,
        cell: (row) => (
          <Button size="compact-sm" variant="default" aria-label={t("calibration.openOf", { id: row.id })} onClick={() => setChosen(row.id)}>
            {t("calibration.open")}
          </Button>
        ),
      },
    ],
    [t, i18n.language, setChosen],
  );
  if (error) return <ErrorState error={error} />;
  if (!stored) return <LoadingRows rows={3} />;
  if (!stored.length) {
    return (
      <Card>
        <EmptyState icon={IconAdjustmentsOff} title={t("stored.none.title")} text={t("stored.none.text")} action={<Button onClick={() => setTab("own")}>{t("stored.none.action")}</Button>} />
      </Card>
    );
  }
  return (
    <>
      <DataTable label={t("stored.title")} rows={stored} columns={columns} rowKey={(row) => row.id} rowTone={(row) => (row.id === chosen ? "strong" : undefined)} toolbar={<Title order={2}>{t("stored.title")}</Title>} />
      {missing && <ErrorState error={missing} />}
      {open && <CalibrationCard calibration={open} />}
    </>
  );
}

function ShippedCard({ calibration }: { calibration: Shipped }) {
  const { t } = useTranslation("accuracy");
  const { family, id, num_runs: runs, constants, bands, coverage } = calibration;
  return (
    <Card component="section" aria-label={t(`shipped.${family}`)}>
      <Stack gap="sm">
        <CardHead title={t(`shipped.${family}`)} help={t("shipped.of", { id, constants: count(constants.length), count: runs, runs: count(runs) })} mb={0} />
        <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={`${id}${marks().comma}${t("shipped.coverage")}`}>
          <Table verticalSpacing={4} fz="sm" highlightOnHover>
            <Table.Thead>
              <Table.Tr>
                {["hardware", "stack", "kind", "count", "devices", "longest", "interval"].map((column, place) => (
                  <Table.Th key={column} ta={place > 2 ? "right" : "left"} style={{ whiteSpace: "nowrap" }}>
                    {t(`shipped.column.${column}`)}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {coverage.map((row) => {
                const band = bands.find(({ kind }) => kind === row.kind) ?? bands.find(({ kind }) => kind === "all");
                return (
                  <Table.Tr key={`${row.hardware} ${row.stack} ${row.kind}`}>
                    <Table.Td style={{ whiteSpace: "nowrap" }}>{row.hardware}</Table.Td>
                    <Table.Td style={{ whiteSpace: "nowrap" }}>{row.stack}</Table.Td>
                    <Table.Td>{t(`common:modelKind.${row.kind}`, { defaultValue: row.kind })}</Table.Td>
                    {[count(row.num_runs), count(row.max_devices), count(row.max_seq_length), band ? `${signedPercent(band.low - 1, 0)} … ${signedPercent(band.high - 1, 0)}` : "–"].map((text, place) => (
                      <Table.Td key={place} ta="right" className="number">
                        {text}
                      </Table.Td>
                    ))}
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
        <Title order={3}>{t("constant.title")}</Title>
        <ConstantTable constants={constants} of={id} />
      </Stack>
    </Card>
  );
}
