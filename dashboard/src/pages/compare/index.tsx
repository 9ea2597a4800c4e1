import { Alert, Button, Group, Stack, Switch, Text } from "@mantine/core";
import { IconArrowsLeftRight } from "@tabler/icons-react";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import type { Plan } from "../../api/queries";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { fitLimit } from "../../components/fitLimit";
import { LoadingPage } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { useUrlChange, useUrlList, useUrlText } from "../../state/url";
import { bytes, seconds } from "../../units/format";
import { Breakdown } from "./Breakdown";
import classes from "./Compare.module.css";
import { ComparisonTable, type Group as RowGroup } from "./ComparisonTable";
import { useItems, type Item } from "./data";
import { entryFromText, entryText, MOST, type Entry } from "./entries";
import { ItemCard } from "./ItemCard";
import { Picker } from "./Picker";
import { jobRows, partRows, resultRows, searchRows, strategyRows } from "./rows";
import { Timelines } from "./Timelines";

const GIB = 2 ** 30;

export function Page() {
  const { t } = useTranslation("compare");
  const [planTexts] = useUrlList("plans");
  const [studyTexts] = useUrlList("studies");
  const change = useUrlChange();
  const asked = useMemo(() => unique([...planTexts, ...studyTexts]).flatMap((text) => entryFromText(text) ?? []), [planTexts, studyTexts]);
  const entries = asked.slice(0, MOST);
  const { items, isPending, failures } = useItems(entries);

  function setEntries(next: readonly Entry[]) {
    const texts = (isPlan: boolean) => next.filter(({ planId }) => (planId !== null) === isPlan).map(entryText);
    change({ plans: texts(true), studies: texts(false) });
  }
  /** Where one stands by its plan, all do: an address names plans before studies. */
  function exchange(entry: Entry, planId: string) {
    const planned = items.map(({ entry: each, plan }) => ({ studyId: each.studyId, planId: each === entry ? planId : (plan?.plan_id ?? null) }));
    setEntries(planned);
  }
  const without = (entry: Entry) => entries.filter((other) => other !== entry);

  return (
    <>
      <PageHeader title={t("title")} subtitle={t("subtitle")} actions={entries.length > 0 && entries.length < MOST && <Picker entries={entries} onAdd={(entry) => setEntries([...entries, entry])} />} />
      {asked.length > MOST && (
        <Alert color="orange" variant="light" mb="md" c="inherit">
          {t("tooMany", { count: asked.length, most: MOST })}
        </Alert>
      )}
      {failures.map(({ entry, error, again }) => (
        <ErrorState
          key={entryText(entry)}
          error={error}
          action={
            <>
              <Button variant="default" onClick={again}>
                {t("common:error.retry")}
              </Button>
              <Button variant="subtle" color="gray" onClick={() => setEntries(without(entry))}>
                {t("leaveOut")}
              </Button>
            </>
          }
        />
      ))}
      {entries.length === 0 && (
        <EmptyState
          icon={IconArrowsLeftRight}
          title={t("empty.title")}
          text={t("empty.text")}
          action={<Picker entries={entries} onAdd={(entry) => setEntries([entry])} />}
        />
      )}
      {isPending && <LoadingPage tiles={entries.length} />}
      {!isPending && items.length > 0 && (
        <Stack gap="md">
          <div className={classes.cards}>
            {items.map((item, place) => (
              <ItemCard
                key={entryText(item.entry)}
                item={item}
                place={place}
                onRemove={() => setEntries(without(item.entry))}
                onPlan={(planId) => exchange(item.entry, planId)}
                onFirst={() => setEntries([item.entry, ...without(item.entry)])}
              />
            ))}
          </div>
          {items.length === 1 ? <Text c="dimmed">{t("addAnother")}</Text> : <Comparison items={items} />}
        </Stack>
      )}
    </>
  );
}

const unique = (texts: readonly string[]) => [...new Set(texts)];

function Comparison({ items }: { items: readonly Item[] }) {
  const { t } = useTranslation("compare");
  const [only, setOnly] = useUrlText("only");
  const planned = useMemo(() => items.filter((item): item is Item & { plan: Plan } => item.plan !== null), [items]);
  const time = useMemo(() => partRows(items, ({ time_breakdown_s }) => time_breakdown_s, seconds, t), [items, t]);
  const memory = useMemo(() => partRows(items, ({ memory_breakdown_bytes }) => memory_breakdown_bytes, bytes, t), [items, t]);
  const groups = useMemo<RowGroup[]>(() => {
    const isOfStudies = items.some(({ study }) => study.id !== items[0]?.study.id);
    return [
      { title: t("group.result"), rows: resultRows(items, t) },
      { title: t("group.strategy"), rows: strategyRows(items, t) },
      ...(isOfStudies ? [{ title: t("group.job"), rows: jobRows(items) }, { title: t("group.search"), rows: searchRows(items, t) }] : []),
      { title: t("group.time"), rows: time, bars: true },
      { title: t("group.memory"), rows: memory, bars: true },
    ];
  }, [items, time, memory, t]);
  const limits = new Set(planned.map(({ plan }) => fitLimit(plan.estimate)));
  const [limit] = limits;
  return (
    <>
      {planned.length > 0 && (
        <div className={classes.halves}>
          <Breakdown title={t("group.time")} subtitle={t("timeSubtitle")} items={items} rows={time} unit={1} unitName="s" text={seconds} />
          <Breakdown
            title={t("group.memory")}
            subtitle={t("memorySubtitle")}
            items={items}
            rows={memory}
            unit={GIB}
            unitName="GiB"
            text={bytes}
            {...(limits.size === 1 && limit !== undefined && { limit })}
          />
        </div>
      )}
      {planned.length > 0 && <Timelines items={planned} />}
      <div>
        <Group justify="flex-end" mb="xs">
          <Switch size="sm" checked={only === "on"} onChange={(event) => setOnly(event.currentTarget.checked ? "on" : "")} label={t("onlyDifferent")} />
        </Group>
        <ComparisonTable items={items} groups={groups} onlyDifferent={only === "on"} />
      </div>
    </>
  );
}
