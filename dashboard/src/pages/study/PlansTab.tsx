import { Button, Skeleton, Stack } from "@mantine/core";
import { IconFilterOff } from "@tabler/icons-react";
import { Suspense, useCallback, useDeferredValue, useEffect, useMemo } from "react";
import { useTranslation } from "../../i18n";

import type { Study } from "../../api/queries";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { strategyText } from "../../components/strategy";
import { hasWords } from "../../components/SearchField";
import { lazyPart } from "../../components/lazyPart";
import { useUrlChange, useUrlDraft, useUrlList } from "../../state/url";
import { ChosenPlans } from "./ChosenPlans";
import type { Baseline, RankedPlan } from "./data";
import { dimensionsOf, filterFromText, filterText, isKept, type Filter } from "./dimensions";
import { Filters } from "./Filters";
import { rowsOf, usePlanColumns, variantsOf, type PlanRow } from "./planColumns";

const loadCharts = () => import("./PlanCharts");
const PlanCharts = lazyPart(async () => (await loadCharts()).PlanCharts);

const ROWS = 10;
const CHARTS_PX = 480;

const toggled = (keys: readonly string[], key: string) => (keys.includes(key) ? keys.filter((other) => other !== key) : [...keys, key]);

interface Props {
  study: Study;
  plans: readonly RankedPlan[];
  /** No more plans come in. */
  best: RankedPlan | undefined;
  isComplete: boolean;
  baseline: Baseline | null;
}

/** The ranked plans as a table and as charts; filters hold for all of them. */
export function PlansTab({ study, plans, best, isComplete, baseline }: Props) {
  const { t } = useTranslation("study");
  const [filterTexts] = useUrlList("filter");
  const [query, setQuery] = useUrlDraft("q");
  const [pins, setPins] = useUrlList("pins");
  const [open, setOpen] = useUrlList("open");
  const [chosen, setChosen] = useUrlList("selected");
  const change = useUrlChange();

  // While the other plans are on their way.
  useEffect(() => void loadCharts(), []);

  const dimensions = useMemo(() => dimensionsOf(plans), [plans]);
  const filters = useMemo(() => filterTexts.flatMap((text) => filterFromText(text) ?? []), [filterTexts]);
  const setFilters = useCallback((next: readonly Filter[]) => change({ filter: next.map(filterText), page: null }), [change]);
  const texts = useMemo(() => new Map(plans.map((plan) => [plan, `${strategyText(plan.strategy)} ${plan.plan_id}`])), [plans]);
  const kept = useMemo(() => plans.filter((plan) => isKept(plan, filters) && hasWords(texts.get(plan) ?? "", query)), [plans, filters, query, texts]);
  const drawn = useDeferredValue(kept); // the table answers a keystroke before thousands of points are drawn
  const keptIds = useMemo(() => new Set(kept.map(({ plan_id }) => plan_id)), [kept]);

  const onPin = useCallback((key: string) => setPins(toggled(pins, key)), [pins, setPins]);
  const onOpen = useCallback((key: string) => setOpen(toggled(open, key)), [open, setOpen]);
  const columns = usePlanColumns({ best, pins, onPin, open, onOpen });
  // A pinned plan stays, whatever is filtered.
  const rows = useMemo(() => rowsOf(plans.filter(({ plan_id }) => keptIds.has(plan_id) || pins.includes(plan_id))), [plans, keptIds, pins]);

  return (
    <Stack gap="md">
      <DataTable<PlanRow>
        label={t("tab.plans")}
        rows={rows}
        columns={columns}
        rowKey={({ key }) => key}
        rowName={({ plan }) => t("planTitle", { rank: plan.rank, strategy: strategyText(plan.strategy) })}
        rowLink={({ plan }) => `plans/${plan.plan_id}`}
        defaultSort="rank"
        pageSize={ROWS}
        pinned={pins}
        nested={(row) => (open.includes(row.key) ? variantsOf(row) : [])}
        chosen={chosen}
        onChoose={setChosen}
        rowTone={({ plan, variant }) => (plan === best && !variant ? "strong" : undefined)}
        toolbar={<Filters dimensions={dimensions} filters={filters} onFilters={setFilters} query={query} onQuery={setQuery} />}
        empty={
          <EmptyState
            icon={IconFilterOff}
            title={t("filter.noMatch")}
            text={t("filter.noMatchText", { count: plans.length })}
            action={
              <Button variant="default" onClick={() => (setQuery(""), setFilters([]))}>
                {t("filter.clear")}
              </Button>
            }
          />
        }
      />
      {/* Drawn once, when all plans are here. */}
      {isComplete ? (
        <Suspense fallback={<Skeleton height={CHARTS_PX} radius="md" />}>
          <PlanCharts plans={plans} kept={drawn} pins={pins} baseline={baseline} dimensions={dimensions} filters={filters} onFilters={setFilters} />
        </Suspense>
      ) : (
        <Skeleton height={CHARTS_PX} radius="md" />
      )}
      <ChosenPlans studyId={study.id} chosen={chosen} onClear={() => setChosen([])} />
    </Stack>
  );
}
