import { Card, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { marks, useTranslation } from "../../i18n";
import { useParams } from "react-router";

import type { Schemas } from "../../api/client";
import { modelQuery } from "../../api/queries";
import { BasisBadge } from "../../components/BasisBadge";
import { CardHead } from "../../components/CardHead";
import { CodeBlock } from "../../components/CodeBlock";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { compact, count } from "../../units/format";
import { Shape } from "./Shape";
import { StudyButton } from "./StudyButton";

export function Page() {
  const { t } = useTranslation("models");
  const { name = "" } = useParams();
  const { data: preset, error } = useQuery(modelQuery(name));
  const path = [{ label: t("title"), to: "/models" }];
  if (error) {
    return (
      <>
        <PageHeader title={name} path={path} />
        <ErrorState error={error} />
      </>
    );
  }
  if (!preset) return <LoadingPage />;
  return (
    <>
      <PageHeader title={preset.title} path={path} subtitle={<code>{name}</code>} actions={<StudyButton preset={name} />} />
      <Stack gap="md">
        <Shape model={preset.model} parameters={preset.num_parameters} published={preset.published} />
        <Sources preset={preset} />
        <CodeBlock label={t("json")} text={JSON.stringify(preset.model, null, 1)} />
      </Stack>
    </>
  );
}

function Sources({ preset }: { preset: Schemas["ModelDetails"] }) {
  const { t } = useTranslation("models");
  const { source, published, default_training: training } = preset;
  const rows = [
    { key: "shape", name: t("source.shape"), value: "", basis: source.basis, text: source.text },
    ...(published.parameters ? [{ key: "published", name: t("source.published"), value: sizes(published, t), basis: "vendor", text: published.source }] : []),
    ...Object.entries(training).map(([key, { value, basis, source: text }]) => ({
      key,
      name: t(`training.${key}`, { defaultValue: key }),
      value: typeof value === "number" ? (key === "train_tokens" ? compact(value) : count(value)) : value === null ? "–" : String(value),
      basis,
      text,
    })),
  ];
  return (
    <Card component="section">
      <CardHead title={t("source.title")} help={t("source.help")} />
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("source.title")}>
        <Table verticalSpacing={6} fz="sm">
          <Table.Thead>
            <Table.Tr>
              {["what", "value", "basis", "source"].map((column) => (
                <Table.Th key={column}>{t(`source.column.${column}`)}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(({ key, name, value, basis, text }) => (
              <Table.Tr key={key}>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{name}</Table.Td>
                <Table.Td className="number">{value}</Table.Td>
                <Table.Td>
                  <BasisBadge basis={basis} />
                </Table.Td>
                <Table.Td style={{ minWidth: 220, overflowWrap: "anywhere" }}>{text}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {source.unconfirmed.length > 0 && (
        <Text size="sm" mt="xs" c="var(--tone-warn)">
          {t("source.unconfirmed", { fields: source.unconfirmed.join(marks().list) })}
        </Text>
      )}
    </Card>
  );
}

function sizes({ parameters, active_parameters: active }: Schemas["Published"], t: (key: string, values: Record<string, string>) => string): string {
  return active ? t("source.sizes", { total: compact(parameters), active: compact(active) }) : compact(parameters);
}
