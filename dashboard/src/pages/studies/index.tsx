import { Button, Checkbox, Group, Select, Space, TextInput } from "@mantine/core";
import { IconArchive, IconFilterOff, IconPlus, IconSearch, IconStack2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { marks, useTranslation } from "../../i18n";
import { Link } from "react-router";

import { foundStudiesQuery, hasOlder, MOST_STUDIES, newestStudiesQuery, studiesQuery, studyCountsQuery, type ListedStudy } from "../../api/queries";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { nameOf } from "../../components/labels/labels";
import { LoadingRows } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { hasWords } from "../../components/SearchField";
import { useUrlChange, useUrlDraft, useUrlList, useUrlText } from "../../state/url";
import { ChosenBar } from "./ChosenBar";
import { useStudyColumns } from "./columns";
import { DeleteDialog } from "./DeleteDialog";
import { StateFilter, type State } from "./StateFilter";

const ROWS = 50; // a page
const OLDER_MS = 60_000; // between two readings of all studies
const KINDS = ["search", "sweep", "rl"] as const;
const FILTERS = { q: null, state: null, kind: null, owner: null, model: null, hardware: null, proved: null, tag: null };
const EditDialog = lazy(async () => ({ default: (await import("./EditDialog")).EditDialog }));

export function Page() {
  const { t } = useTranslation("studies");
  const [archived] = useUrlText("archived");
  const which = archived ? "true" : "false";
  const { data: newest, error, refetch } = useQuery(newestStudiesQuery(which));
  const { data: all } = useQuery({ ...studiesQuery(which), enabled: hasOlder(newest), refetchInterval: OLDER_MS });
  const studies = useMemo(() => newest && (hasOlder(newest) ? joined(newest, all ?? []) : newest), [newest, all]);
  const isFailed = error !== null && studies === undefined;

  return (
    <>
      <PageHeader
        title={t("title")}
        subtitle={t("subtitle")}
        actions={
          <Button component={Link} to="/studies/new" leftSection={<IconPlus size={16} />}>
            {t("common:nav.newStudy")}
          </Button>
        }
      />
      {error && <ErrorState error={error} action={<Button onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />}
      {!studies && !isFailed && <LoadingRows />}
      {studies?.length === 0 && !archived && (
        <EmptyState
          icon={IconStack2}
          title={t("empty.title")}
          text={t("empty.text")}
          action={
            <Group justify="center">
              <Button component={Link} to="/studies/new">
                {t("empty.create")}
              </Button>
              <Button component={Link} to="/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=64" variant="default">
                {t("empty.example")}
              </Button>
            </Group>
          }
        />
      )}
      {studies && (studies.length > 0 || archived) && <StudyTable listed={studies} isWhole={!hasOlder(newest) || (all !== undefined && all.length < MOST_STUDIES)} />}
    </>
  );
}

interface StudyTableProps {
  listed: readonly ListedStudy[];
  /** No study is missing from the list; until then the server counts. */
  isWhole: boolean;
}

function StudyTable({ listed, isWhole }: StudyTableProps) {
  const { t } = useTranslation("studies");
  const [query, setQuery] = useUrlDraft("q");
  const [states, setStates] = useUrlList("state");
  const [model, setModel] = useUrlText("model");
  const [hardware, setHardware] = useUrlText("hardware");
  const [kind, setKind] = useUrlText("kind");
  const [owner, setOwner] = useUrlText("owner");
  const [proved, setProved] = useUrlText("proved");
  const [tag, setTag] = useUrlText("tag");
  const [archived, setArchived] = useUrlText("archived");
  const [chosen, setChosen] = useUrlList("selected");
  const change = useUrlChange();
  const [condemned, setCondemned] = useState<readonly ListedStudy[]>([]);
  const [edited, setEdited] = useState<ListedStudy | null>(null);
  const onDelete = useCallback((study: ListedStudy) => setCondemned([study]), []);
  const [settled] = useUrlText("q");
  const { data: known } = useQuery(foundStudiesQuery(settled, archived ? "true" : "false"));
  const studies = useMemo(() => joined(listed, known ?? []), [listed, known]);
  const columns = useStudyColumns({ onDelete, onEdit: setEdited }, studies.some(({ owner }) => owner !== null));

  const found = useMemo(() => {
    const ids = new Set(query === settled ? known?.map(({ id }) => id) : []);
    return studies.filter((study) => {
      const text = `${study.id} ${study.name} ${study.model} ${study.hardware} ${study.num_devices} ${study.tags.join(" ")} ${study.error ?? ""}`;
      return (
        (hasWords(text, query) || ids.has(study.id)) &&
        (!tag || study.tags.includes(tag)) &&
        (!model || study.model === model) &&
        (!hardware || study.hardware === hardware) &&
        (!kind || study.kind === kind) &&
        (!owner || study.owner === owner) &&
        (!proved || study.proved_best === true)
      );
    });
  }, [studies, query, settled, known, model, hardware, kind, owner, proved, tag]);
  const choice = { text: settled, kind, owner, model, hardware, tag };
  // Proofs are no column of the server's, so that only studies at hand are counted by them.
  const { data: counted } = useQuery({ ...studyCountsQuery(archived ? "true" : "false", choice), enabled: !isWhole && !proved, refetchInterval: OLDER_MS });
  const numbers = useMemo(() => {
    const here: Record<string, number> = {};
    for (const { state } of found) here[state] = (here[state] ?? 0) + 1;
    const isCounted = counted !== undefined && !isWhole && !proved && query === settled;
    return isCounted && sum(counted) >= found.length ? counted : here;
  }, [found, isWhole, proved, query, settled, counted]);
  const total = states.length ? states.reduce((so, state) => so + (numbers[state] ?? 0), 0) : sum(numbers);
  const shown = states.length ? found.filter((study) => states.includes(study.state)) : found;
  const selected = studies.filter((study) => chosen.includes(study.id));
  const isFiltered = Boolean(query || model || hardware || kind || owner || proved || tag || states.length);

  return (
    <>
      <StateFilter numbers={numbers} chosen={states as readonly State[]} onChange={setStates} />
      <DataTable
        label={t("title")}
        rows={shown}
        columns={columns}
        rowKey={(study) => study.id}
        rowName={(study) => `${nameOf(study)}${marks().comma}${study.id}`}
        rowLink={(study) => `/studies/${study.id}`}
        chosen={chosen}
        onChoose={setChosen}
        pageSize={ROWS}
        total={total}
        toolbar={
          <Group gap="xs">
            <TextInput
              data-search
              type="search"
              value={query}
              onChange={(event) => setQuery(event.currentTarget.value)}
              placeholder={t("search")}
              aria-label={t("search")}
              leftSection={<IconSearch size={15} />}
              style={{ flex: "1 1 200px", maxWidth: 320 }}
            />
            <NameFilter label={t("column.model")} names={studies.map((study) => study.model)} value={model} onChange={setModel} />
            <NameFilter
              label={t("column.hardware")}
              names={studies.map((study) => study.hardware)}
              value={hardware}
              onChange={setHardware}
            />
            {(kind || studies.some((study) => study.kind !== "search")) && (
              <NameFilter label={t("column.kind")} names={KINDS} nameOf={(name) => t(`kind.${name}`)} value={kind} onChange={setKind} />
            )}
            {(owner || new Set(studies.map((study) => study.owner)).size > 1) && (
              <NameFilter label={t("column.owner")} names={studies.flatMap((study) => study.owner ?? [])} value={owner} onChange={setOwner} />
            )}
            {(tag || studies.some(({ tags }) => tags.length > 0)) && (
              <NameFilter label={t("tag")} names={studies.flatMap(({ tags }) => tags)} value={tag} onChange={setTag} />
            )}
            <Checkbox
              label={t("onlyProved")}
              checked={Boolean(proved)}
              onChange={(event) => setProved(event.currentTarget.checked ? "yes" : "")}
            />
            <Checkbox
              label={t("onlyArchived")}
              checked={Boolean(archived)}
              onChange={(event) => setArchived(event.currentTarget.checked ? "yes" : "")}
            />
            {isFiltered && (
              <Button variant="subtle" color="gray" leftSection={<IconFilterOff size={15} />} onClick={() => change(FILTERS)}>
                {t("clearFilters")}
              </Button>
            )}
          </Group>
        }
        empty={
          total > 0 ? (
            <LoadingRows />
          ) : studies.length ? (
            <EmptyState icon={IconSearch} title={t("noMatch.title")} text={t("noMatch.text", { count: studies.length })} />
          ) : (
            <EmptyState icon={IconArchive} title={t("noneArchived.title")} text={t("noneArchived.text")} />
          )
        }
      />
      {selected.length > 0 && <Space h={72} />}
      <ChosenBar studies={selected} onClear={() => setChosen([])} onDelete={() => setCondemned(selected)} />
      {edited && (
        <Suspense fallback={null}>
          <EditDialog study={edited} onClose={() => setEdited(null)} />
        </Suspense>
      )}
      <DeleteDialog
        studies={condemned}
        onClose={() => setCondemned([])}
        onDeleted={(ids) => setChosen(chosen.filter((id) => !ids.includes(id)))}
      />
    </>
  );
}

const sum = (numbers: Readonly<Record<string, number>>): number => Object.values(numbers).reduce((so, number) => so + number, 0);

/** The list, and what was found beyond its length. */
function joined(listed: readonly ListedStudy[], known: readonly ListedStudy[]): readonly ListedStudy[] {
  const ids = new Set(listed.map(({ id }) => id));
  const further = known.filter(({ id }) => !ids.has(id));
  return further.length ? [...listed, ...further] : listed;
}

interface NameFilterProps {
  label: string;
  names: readonly string[];
  nameOf?: (name: string) => string;
  value: string;
  onChange: (value: string) => void;
}

function NameFilter({ label, names, nameOf = (name) => name, value, onChange }: NameFilterProps) {
  const data = [...new Set(value ? [...names, value] : names)].sort().map((name) => ({ value: name, label: nameOf(name) }));
  return (
    <Select
      data={data}
      value={value || null}
      onChange={(next) => onChange(next ?? "")}
      placeholder={label}
      aria-label={label}
      clearable
      searchable
      style={{ flex: "0 1 190px" }}
    />
  );
}
