import { Anchor, Button, Card, Space, Stack } from "@mantine/core";
import { IconChecklist } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { useTranslation } from "../../i18n";

import { CodeBlock } from "../../components/CodeBlock";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { hasWords, SearchField } from "../../components/SearchField";
import { useUrlText } from "../../state/url";
import { useHistoryColumns } from "./columns";
import { historiesQuery, type History } from "./data";
import { HistoryView } from "./HistoryView";
import { addressOf } from "./words";

const FEW = 8;

/** Histories of checks; one of them, `?name=`, with its trends and its checks. */
export function Page() {
  const { t } = useTranslation("checks");
  const { data: histories, error, refetch } = useQuery(historiesQuery());
  return (
    <>
      <PageHeader title={t("title")} subtitle={t("subtitle")} />
      {error && <ErrorState error={error} action={<Button onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />}
      {!histories && !error && <LoadingRows />}
      {histories?.length === 0 && <Beginning />}
      {histories && histories.length > 0 && <Histories histories={histories} />}
    </>
  );
}

function Beginning() {
  const { t } = useTranslation("checks");
  const command = `meshplan check job.yaml --budget budget.yaml \\\n    --server ${window.location.origin}`;
  return (
    <EmptyState
      icon={IconChecklist}
      title={t("empty.title")}
      text={t("empty.text")}
      action={
        <Stack ta="start" maw="min(560px, 86vw)">
          <CodeBlock text={command} label={t("empty.command")} />
          <Anchor href="/docs/check/" ta="center">
            {t("empty.guide")}
          </Anchor>
        </Stack>
      }
    />
  );
}

const isOf = (history: History, name: string | null, owner: string | null) => history.name === name && (history.owner ?? "") === (owner ?? "");

function Histories({ histories }: { histories: readonly History[] }) {
  const { t } = useTranslation("checks");
  const [params] = useSearchParams();
  const [query] = useUrlText("q");
  const named = histories.find((history) => isOf(history, params.get("name"), params.get("owner"))) ?? histories.find(({ name }) => name === params.get("name"));
  const chosen = named ?? histories[0];
  const columns = useHistoryColumns(histories.some(({ owner }) => owner !== null));
  return (
    <>
      <Card>
        <DataTable
          label={t("histories")}
          prefix="h"
          rows={histories.filter(({ name, last }) => hasWords(`${name} ${last.model ?? ""} ${last.hardware ?? ""} ${last.branch ?? ""}`, query))}
          columns={columns}
          rowKey={(history) => addressOf(history)}
          rowLink={addressOf}
          rowTone={(history) => (history === chosen && histories.length > 1 ? "strong" : undefined)}
          pageSize={FEW}
          toolbar={histories.length > 1 && <SearchField label={t("search")} />}
          empty={<EmptyState icon={IconChecklist} title={t("noMatch")} />}
        />
      </Card>
      <Space h="md" />
      {chosen && <HistoryView key={addressOf(chosen)} history={chosen} />}
    </>
  );
}
