import { Alert, Checkbox, Group, SegmentedControl, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { ChartCard } from "../../components/ChartCard";
import { Explained } from "../../components/Explained";
import { hasWords, SearchField } from "../../components/SearchField";
import { StatTile } from "../../components/StatTile";
import { useUrlChange, useUrlChoice, useUrlText } from "../../state/url";
import { count, percent, signedPercent } from "../../units/format";
import { CategoryTable } from "./CategoryTable";
import { CATEGORIES, errorOf, errorsOf, isJudged, predictedOf, VIEWS, type Run, type View } from "./errors";
import { factsOf, ownRunsQuery } from "./own";
import { RunCard } from "./RunCard";
import { RunTable } from "./RunTable";
import { PLOTS, Scatter, type Plot, type Point } from "./Scatter";

const FAMILIES = ["ascend", "gpu", "all"] as const;
const NAMES = ["category", "hardware", "stack", "precision", "hardware_basis"] as const;
const WORDS: Partial<Record<(typeof NAMES)[number], string>> = { category: "category", hardware_basis: "certainty" };

/** Published runs: how far this version's predictions are off, for any choice of them. */
export function PublishedTab({ runs }: { runs: readonly Run[] }) {
  const { t } = useTranslation("accuracy");
  const [view, setView] = useUrlChoice<View>("view", VIEWS, "unseen");
  const [plot, setPlot] = useUrlChoice<Plot>("plot", PLOTS, "time");
  const [chosen, setChosen] = useUrlText("run");
  const [doubtful] = useUrlText("doubtful");
  const filters = useFilters(runs);
  const { data: own } = useQuery(ownRunsQuery());

  const counted = useMemo(
    () => filters.shown.filter((run) => (doubtful || isJudged(run)) && errorOf(run, view) !== null),
    [filters.shown, view, doubtful],
  );
  const errors = errorsOf(counted, view);
  const choose = useCallback((id: string) => setChosen(id), [setChosen]);
  const groups = useMemo(
    () => [
      ...CATEGORIES.filter((category) => counted.some((run) => run.category === category)).map((key) => ({ key, name: t(`category.${key}`) })),
      ...(own?.length ? [{ key: "own", name: t("chart.own") }] : []),
    ],
    [counted, own, t],
  );
  const points = useMemo(() => {
    const published = counted.flatMap((run): Point[] => {
      const predicted = predictedOf(run, view);
      if (predicted === null || run.measured_step_time_s === null || run.category === null) return [];
      const title = `${run.model}${marks().comma}${run.num_devices} × ${run.hardware}`;
      return [{ id: run.id, group: run.category, title, detail: run.source.title, measured: run.measured_step_time_s, predicted }];
    });
    const ours = (own ?? []).flatMap((run): Point[] => {
      const { predicted_step_time_s: predicted, measured_step_time_s: measured } = run.prediction ?? {};
      if (predicted == null || measured == null) return [];
      const { model, devices, hardware } = factsOf(run);
      return [{ id: run.record_sha256, group: "own", title: `${model}${marks().comma}${devices ?? "?"} × ${hardware}`, detail: t("chart.own"), measured, predicted }];
    });
    return [...published, ...ours];
  }, [counted, own, view, t]);
  const run = runs.find(({ id }) => id === chosen);

  return (
    <Stack gap="md">
      <Group gap="xs" align="center">
        <SegmentedControl value={view} onChange={setView} aria-label={t("view.label")} data={VIEWS.map((value) => ({ value, label: t(`view.${value}`) }))} />
        <Explained text={t(`view.help.${view}`)}>
          <Text size="sm" c="dimmed">
            {t(`view.short.${view}`)}
          </Text>
        </Explained>
      </Group>
      <Filters {...filters} />
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
        <StatTile label={t("errors.count")} value={count(errors?.count ?? 0)} note={t("errors.of", { runs: count(filters.shown.length) })} />
        <StatTile label={t("errors.median")} value={percent(errors?.median)} help={t("errors.help.median")} />
        <StatTile label={t("errors.mean")} value={percent(errors?.mean)} help={t("errors.help.mean")} />
        <StatTile label={t("errors.p90")} value={percent(errors?.p90)} help={t("errors.help.p90")} />
        <StatTile label={t("errors.bias")} value={signedPercent(errors?.bias)} help={t("errors.help.bias")} />
        <StatTile label={t("errors.coverage")} value={percent(errors?.coverage, 0)} help={t("errors.help.coverage")} note={t("errors.nominal")} />
      </SimpleGrid>
      {errors && errors.count < 10 && (
        <Alert color="yellow" variant="light" py={8}>
          {t("errors.few", { count: errors.count })}
        </Alert>
      )}
      <ChartCard
        title={t("chart.title")}
        subtitle={t("chart.help")}
        actions={
          <SegmentedControl size="xs" value={plot} onChange={setPlot} aria-label={t("chart.plot")} data={PLOTS.map((value) => ({ value, label: t(`chart.plots.${value}`) }))} />
        }
      >
        <Scatter points={points} groups={groups} chosen={chosen} plot={plot} onChoose={choose} />
      </ChartCard>
      {run && <RunCard run={run} onClose={() => setChosen("")} />}
      <CategoryTable runs={counted} view={view} />
      <RunTable runs={doubtful ? filters.shown : filters.shown.filter(isJudged)} view={view} chosen={chosen} onChoose={choose} />
    </Stack>
  );
}

type FilterName = (typeof NAMES)[number];

function useFilters(runs: readonly Run[]) {
  const [familyText] = useUrlText("family");
  const [search] = useUrlText("q");
  const [category] = useUrlText("category");
  const [hardware] = useUrlText("hardware");
  const [stack] = useUrlText("stack");
  const [precision] = useUrlText("precision");
  const [certainty] = useUrlText("hardware_basis");
  const values: Record<FilterName, string> = { category, hardware, stack, precision, hardware_basis: certainty };
  // A link to one hardware shows its family.
  const implied = runs.find((run) => run.hardware === hardware)?.family ?? "ascend";
  const family = FAMILIES.find((name) => name === familyText) ?? implied;
  const ofFamily = useMemo(() => runs.filter((run) => family === "all" || run.family === family), [runs, family]);
  const shown = useMemo(
    () =>
      ofFamily.filter(
        (run) =>
          (!category || run.category === category) &&
          (!hardware || run.hardware === hardware) &&
          (!stack || run.stack === stack) &&
          (!precision || run.precision === precision) &&
          (!certainty || run.hardware_basis === certainty) &&
          hasWords(`${run.id} ${run.model} ${run.hardware} ${run.framework} ${run.source.title}`, search),
      ),
    [ofFamily, category, hardware, stack, precision, certainty, search],
  );
  return { family, values, ofFamily, shown };
}

function Filters({ family, values, ofFamily }: ReturnType<typeof useFilters>) {
  const { t } = useTranslation("accuracy");
  const change = useUrlChange();
  const [doubtful, setDoubtful] = useUrlText("doubtful");
  const options = (name: FilterName) => [...new Set([...ofFamily.map((run) => run[name]), values[name]])].filter((value): value is string => Boolean(value)).sort();
  return (
    <Group gap="xs">
      <SegmentedControl
        value={family}
        onChange={(next) => change({ family: next, hardware: null, stack: null })}
        aria-label={t("family.label")}
        data={FAMILIES.map((value) => ({ value, label: t(`family.${value}`) }))}
      />
      <SearchField label={t("search")} />
      {NAMES.map((name) => (
        <Select
          key={name}
          data={options(name).map((value) => ({ value, label: WORDS[name] ? t(`${WORDS[name]}.${value}`) : value }))}
          value={values[name] || null}
          onChange={(value) => change({ [name]: value })}
          placeholder={t(`column.${name}`)}
          aria-label={t(`column.${name}`)}
          clearable
          searchable
          style={{ flex: "0 1 160px" }}
        />
      ))}
      <Checkbox label={t("doubtful")} checked={Boolean(doubtful)} onChange={(event) => setDoubtful(event.currentTarget.checked ? "yes" : "")} />
    </Group>
  );
}
