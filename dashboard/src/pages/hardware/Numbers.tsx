import { Anchor, Card, Group, Select, Stack, Text, Tooltip } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { BASES, BasisBadge } from "../../components/BasisBadge";
import { CardHead } from "../../components/CardHead";
import { DataTable, type Column } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { hasWords, SearchField } from "../../components/SearchField";
import { useUrlText } from "../../state/url";
import { numbersOf, type StatedNumber } from "./numbers";
import { citedBy } from "../../components/references";

/** Every number of a profile as its source states it. */
export function Numbers({ profile }: { profile: Schemas["HardwareDetails"] }) {
  const { t, i18n } = useTranslation("hardware");
  const [search] = useUrlText("q");
  const [basis, setBasis] = useUrlText("basis");
  const all = useMemo(() => numbersOf(profile.provenance, profile.tiers), [profile]);
  const shown = all.filter(
    (row) =>
      (!basis || row.basis === basis) && hasWords([row.path, nameOf(row, t), row.source, row.note].join(" "), search),
  );
  const columns = useMemo(
    (): Column<StatedNumber>[] => [
      {
        key: "number",
        header: t("number.name"),
        fixed: true,
        value: (row) => row.path,
        cell: (row) => (
          <Stack gap={0} miw={170}>
            <Text size="sm" fw={550}>
              {nameOf(row, t)}
            </Text>
            <Text size="xs" c="dimmed" ff="monospace" style={{ overflowWrap: "anywhere" }}>
              {row.path}
            </Text>
          </Stack>
        ),
      },
      { key: "part", header: t("number.part"), shown: false, value: (row) => t(`part.${row.part}`), cell: (row) => t(`part.${row.part}`) },
      { key: "value", header: t("number.value"), numeric: true, value: (row) => row.value, cell: (row) => <Value {...row} /> },
      { key: "unit", header: t("number.unit"), shown: false, value: (row) => row.unit, cell: (row) => row.unit },
      { key: "basis", header: t("number.basis"), value: (row) => row.basis, cell: (row) => <BasisBadge basis={row.basis} /> },
      { key: "source", header: t("number.source"), value: (row) => row.source, cell: (row) => <Source text={row.source} /> },
      {
        key: "note",
        header: t("number.note"),
        value: (row) => row.note,
        cell: (row) => (
          <Text size="sm" c="dimmed" miw={row.note ? 260 : undefined} style={{ whiteSpace: "normal" }}>
            {row.note}
          </Text>
        ),
      },
    ],
    [t, i18n.language],
  );
  return (
    <Card component="section" aria-label={t("numbers.title")}>
      <CardHead title={t("numbers.title")} help={t("numbers.help")} mb="sm" />
      <DataTable
        label={`${profile.name}${marks().comma}${t("numbers.title")}`}
        rows={shown}
        columns={columns}
        rowKey={(row) => row.path}
        toolbar={
          <Group gap="xs">
            <SearchField label={t("numbers.search")} />
            <Select
              data={BASES.map((value) => ({ value, label: t(`common:basis.${value}`) }))}
              value={basis || null}
              onChange={(value) => setBasis(value ?? "")}
              placeholder={t("number.basis")}
              aria-label={t("number.basis")}
              clearable
              style={{ flex: "0 1 150px" }}
            />
          </Group>
        }
        empty={<EmptyState icon={IconSearch} title={t("numbers.none")} />}
      />
    </Card>
  );
}

function nameOf({ field, of }: StatedNumber, t: (key: string, values: { defaultValue: string }) => string): string {
  const name = t(`field.${field}`, { defaultValue: field });
  return of ? `${name}${marks().comma}${of}` : name;
}

/** In the unit of the source: this is what a reader compares with the source. */
function Value({ value, unit }: { value: number; unit: string }) {
  const { i18n } = useTranslation();
  const text = new Intl.NumberFormat(i18n.language, { maximumSignificantDigits: 6 }).format(value);
  return unit === "1" ? text : `${text} ${unit}`;
}

function Source({ text }: { text: string }) {
  return (
    <Stack gap={2} miw={130}>
      {citedBy(text).map(({ key, place, reference }) => (
        <Tooltip key={key + place} label={reference ? reference.title : text} disabled={!reference}>
          <Text size="sm" component="span" style={{ whiteSpace: "normal" }}>
            {reference?.url ? (
              <Anchor href={reference.url} target="_blank" rel="noreferrer" size="sm" underline="always" lh="24px" display="inline-block">
                {key}
              </Anchor>
            ) : (
              <span {...(reference && { tabIndex: 0 })}>{key}</span>
            )}
            {place && `, ${place}`}
          </Text>
        </Tooltip>
      ))}
    </Stack>
  );
}
