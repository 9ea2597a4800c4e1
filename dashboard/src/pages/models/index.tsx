import { Button, Card, Group, SegmentedControl, Stack, Title } from "@mantine/core";
import { IconFileImport, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { modelsQuery } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { ConfigImport } from "../../components/ConfigImport";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { hasWords, SearchField } from "../../components/SearchField";
import { useUrlChoice, useUrlText } from "../../state/url";
import { useModelColumns, type Model } from "./columns";
import { Shape } from "./Shape";
import { StudyButton } from "./StudyButton";

const KINDS = ["all", "dense", "moe"] as const;
const NO_MODELS: readonly Model[] = [];

export function Page() {
  const { t } = useTranslation("models");
  const { data, error } = useQuery(modelsQuery());
  const [importing, setImporting] = useUrlChoice("import", ["no", "yes"], "no");
  const [search] = useUrlText("q");
  const [kind, setKind] = useUrlChoice("kind", KINDS, "all");
  const columns = useModelColumns();
  const models = data?.items ?? NO_MODELS;
  const shown = useMemo(
    () =>
      models.filter(
        (model) => hasWords(`${model.name} ${model.title}`, search) && (kind === "all" || (model.num_experts !== null) === (kind === "moe")),
      ),
    [models, search, kind],
  );

  return (
    <>
      <PageHeader
        title={t("title")}
        subtitle={t("subtitle")}
        actions={
          <Button
            leftSection={<IconFileImport size={16} />}
            variant={importing === "yes" ? "default" : "filled"}
            aria-expanded={importing === "yes"}
            onClick={() => setImporting(importing === "yes" ? "no" : "yes")}
          >
            {t("import.open")}
          </Button>
        }
      />
      {importing === "yes" && <Import />}
      {error && <ErrorState error={error} />}
      {!data && !error && <LoadingRows />}
      {data && (
        <DataTable
          label={t("title")}
          rows={shown}
          columns={columns}
          rowKey={(model) => model.name}
          rowLink={(model) => `/models/${model.name}`}
          toolbar={
            <Group gap="xs">
              <SearchField label={t("search")} />
              <SegmentedControl
                value={kind}
                onChange={setKind}
                aria-label={t("kind.label")}
                data={KINDS.map((value) => ({ value, label: t(`kind.${value}`) }))}
              />
            </Group>
          }
          empty={<EmptyState icon={IconSearch} title={t("noMatch.title")} text={t("noMatch.text", { count: models.length })} />}
        />
      )}
    </>
  );
}

function Import() {
  const { t } = useTranslation("models");
  const [imported, setImported] = useState<Schemas["ImportedModel"] | null>(null);
  return (
    <Card component="section" aria-label={t("import.title")} mb="md">
      <Stack gap="sm">
        <CardHead title={t("import.title")} help={t("import.help")} mb={0} />
        <ConfigImport onModel={setImported} rows={imported ? 2 : 6} />
        {imported && (
          <Stack gap="sm" role="status">
            <Group justify="space-between">
              <Title order={3}>{String(imported.model.name)}</Title>
              <StudyButton custom={imported} />
            </Group>
            <Shape model={imported.model} parameters={imported.num_parameters} order={3} />
          </Stack>
        )}
      </Stack>
    </Card>
  );
}
