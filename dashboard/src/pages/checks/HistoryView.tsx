import { Card, Checkbox, Group, MultiSelect, SegmentedControl, Select, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconChecklist } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { useTranslation } from "../../i18n";

import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage } from "../../components/Loading";
import { WhenVisible } from "../../components/WhenVisible";
import { useUrlChoice, useUrlList, useUrlText } from "../../state/url";
import { useCheckColumns } from "./columns";
import { checksQuery, type History, type KeptCheck } from "./data";
import { Trend, TREND_HEIGHT_PX } from "./Trend";
import { beforeEach, metricsOf, usualMetrics } from "./trends";
import { useWords } from "./words";

const STATUSES = ["passed", "broken", "infeasible", "cut"] as const;
const AXES = ["commits", "time"] as const;
const PAGE = 50;

/** No card stands alone below three others. */
const columnsOf = (cards: number) => ({ base: 1, md: Math.min(cards, 2), lg: cards === 4 ? 2 : Math.min(cards, 3) });

/** One history: a trend for each metric, and its checks. */
export function HistoryView({ history }: { history: History }) {
  const [archived] = useUrlChoice("archived", ["yes", "no"], "no");
  const { data: checks, error } = useQuery(checksQuery(history, archived === "yes" ? "true" : "false"));
  const queries = useQueryClient();
  const last = useRef(history.last.id);
  useEffect(() => {
    if (last.current === history.last.id) return;
    last.current = history.last.id;
    void queries.invalidateQueries({ queryKey: checksQuery(history).queryKey });
  }, [queries, history]);
  if (error && !checks) return <ErrorState error={error} />;
  if (!checks) return <LoadingPage tiles={3} />;
  return <Found history={history} checks={checks} />;
}

function Found({ history, checks }: { history: History; checks: readonly KeptCheck[] }) {
  const { t } = useTranslation("checks");
  const words = useWords();
  const [branch, setBranch] = useUrlText("branch");
  const [status, setStatus] = useUrlText("status");
  const [axis, setAxis] = useUrlChoice("axis", AXES, "commits");
  const [archived, setArchived] = useUrlChoice("archived", ["yes", "no"], "no");
  const [bounds, setBounds] = useUrlChoice("bounds", ["yes", "no"], "yes");
  const usual = useMemo(() => usualMetrics(checks), [checks]);
  const [chosen, setChosen] = useUrlList("metrics", usual);
  const known = useMemo(() => metricsOf(checks), [checks]);
  const metrics = useMemo(() => known.filter((metric) => chosen.includes(metric)), [known, chosen]);
  const found = useMemo(() => checks.filter((check) => !branch || check.branch === branch), [checks, branch]);
  const before = useMemo(() => beforeEach(found), [found]);
  const columns = useCheckColumns(before, metrics);
  const branches = [...new Set(checks.flatMap((check) => check.branch ?? []))].sort();
  return (
    <Stack>
      <Title order={2} style={{ overflowWrap: "anywhere" }}>
        {history.name}
      </Title>
      <Group gap="sm" align="center">
        {branches.length > 0 && (
          <Select
            aria-label={t("branch")}
            placeholder={t("anyBranch")}
            data={branches}
            value={branch || null}
            onChange={(value) => setBranch(value ?? "")}
            clearable
            clearButtonProps={{ "aria-label": t("anyBranch") }}
            searchable
            w={220}
          />
        )}
        <MultiSelect
          aria-label={t("metrics")}
          data={known.map((metric) => ({ value: metric, label: words.metric(metric) }))}
          value={metrics}
          onChange={setChosen}
          style={{ flex: "1 1 260px", maxWidth: 720 }}
        />
        <SegmentedControl
          aria-label={t("axis.label")}
          value={axis}
          onChange={(value) => setAxis(value as (typeof AXES)[number])}
          data={AXES.map((value) => ({ value, label: t(`axis.${value}`) }))}
        />
        <Checkbox label={t("bounds")} checked={bounds === "yes"} onChange={(event) => setBounds(event.currentTarget.checked ? "yes" : "no")} />
      </Group>
      <Text size="sm" c="dimmed">
        {t("trendHelp")}
      </Text>
      <SimpleGrid component="section" aria-label={t("trendsOf", { name: history.name })} cols={columnsOf(metrics.length)} spacing="md">
        {metrics.map((metric) => (
          <WhenVisible key={metric} height={TREND_HEIGHT_PX + 80}>
            <Trend checks={found} metric={metric} axis={axis} withBounds={bounds === "yes"} />
          </WhenVisible>
        ))}
      </SimpleGrid>
      <Card>
        <DataTable
          label={t("checksOf", { name: history.name })}
          rows={status ? found.filter((check) => check.status === status) : found}
          columns={columns}
          rowKey={({ id }) => id}
          rowLink={({ id }) => `/checks/${id}`}
          defaultSort="-when"
          pageSize={PAGE}
          toolbar={
            <Group gap="sm">
              <Select
                aria-label={t("status")}
                placeholder={t("anyStatus")}
                data={STATUSES.map((value) => ({ value, label: t(`common:state.${value}`) }))}
                value={status || null}
                onChange={(value) => setStatus(value ?? "")}
                clearable
                clearButtonProps={{ "aria-label": t("anyStatus") }}
                w={200}
              />
              <Checkbox label={t("archived")} checked={archived === "yes"} onChange={(event) => setArchived(event.currentTarget.checked ? "yes" : "no")} />
            </Group>
          }
          empty={<EmptyState icon={IconChecklist} title={t("noMatch")} />}
        />
      </Card>
    </Stack>
  );
}
