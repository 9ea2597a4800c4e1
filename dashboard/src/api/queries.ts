/** What several pages ask the server for, with the keys under which the answers are cached. */
import { queryOptions } from "@tanstack/react-query";

import { answered, api, type Schemas } from "./client";

const PAGE = 200;
export const MOST_STUDIES = 10_000; // what an owner may store
const MOST_SEARCHED = 200; // characters
export const FINISHED: readonly string[] = ["completed", "failed", "cancelled"];

export type ListedStudy = Schemas["ListedStudy"];
type Kind = ListedStudy["kind"];
export type AnyStudy = Schemas["StudyDocument"];
/** A search; `result` of another kind is another document. */
export type Study = Omit<AnyStudy, "result"> & { result: Schemas["StudyResult"] | null };
export type Plan = Schemas["Plan"];
export type Estimate = Schemas["EstimateNumbers"];
export type Strategy = Schemas["StrategyDocument"];

interface Page<Item> {
  items: Item[];
  next_cursor: string | null;
}

/** All pages of a list, up to `limit` items. */
export async function allPages<Item>(load: (cursor: string | undefined) => Promise<Page<Item>>, limit = 2000): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | undefined;
  do {
    const page = await load(cursor);
    items.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor && items.length < limit);
  return items;
}

const isOpen = (study: { state: string }): boolean => !FINISHED.includes(study.state);

const listed = (query: { archived: "true" | "false"; text?: string }, signal: AbortSignal) =>
  allPages((cursor) => answered(api.GET("/v1/studies", { params: { query: { limit: PAGE, ...query, ...(cursor && { cursor }) } }, signal })), MOST_STUDIES);

/** Newest first, archived ones or the others; asked for again every second while one of them is not finished. */
export const studiesQuery = (archived: "true" | "false" = "false") =>
  queryOptions({
    queryKey: ["studies", archived],
    queryFn: ({ signal }) => listed({ archived }, signal),
    refetchInterval: ({ state }) => (state.data?.some(isOpen) ? 1000 : 10_000),
  });

/** The newest of them: a first page that does not wait for the others. */
export const newestStudiesQuery = (archived: "true" | "false" = "false") =>
  queryOptions({
    queryKey: ["studies", archived, "newest"],
    queryFn: async ({ signal }) => (await answered(api.GET("/v1/studies", { params: { query: { limit: PAGE, archived } }, signal }))).items,
    refetchInterval: ({ state }) => (state.data?.some(isOpen) ? 1000 : 10_000),
  });

/** What a list of studies is chosen by on the server; empty texts choose nothing. */
export interface StudyChoice {
  text: string;
  kind: string;
  owner: string;
  model: string;
  hardware: string;
  tag: string;
}

/** How many studies the choice leaves, by state, on whatever page of the list they are. */
export const studyCountsQuery = (archived: "true" | "false", { kind, tag, text, ...named }: StudyChoice) =>
  queryOptions({
    queryKey: ["studies", archived, "counts", { kind, tag, text, ...named }],
    queryFn: async ({ signal }) => {
      const chosen = Object.fromEntries(Object.entries(named).filter(([, value]) => value));
      const words = text.slice(0, MOST_SEARCHED);
      const query = { archived, counts: true, limit: 1, ...chosen, ...(words && { text: words }), ...(kind && { kind: kind as Kind }), ...(tag && { tag: [tag] }) };
      return (await answered(api.GET("/v1/studies", { params: { query }, signal }))).counts ?? {};
    },
  });

/** Whether there are more studies than the newest ones. */
export const hasOlder = (newest: readonly ListedStudy[] | undefined): boolean => newest?.length === PAGE;

/** Those of them that have the words anywhere, also in a note, which lists do not hold. */
export const foundStudiesQuery = (text: string, archived: "true" | "false") =>
  queryOptions({
    queryKey: ["studies", archived, text],
    queryFn: ({ signal }) => listed({ archived, text: text.slice(0, MOST_SEARCHED) }, signal),
    enabled: text.trim() !== "",
  });

export const studyQuery = (studyId: string) =>
  queryOptions({
    queryKey: ["study", studyId],
    queryFn: async ({ signal }) =>
      (await answered(api.GET("/v1/studies/{study_id}", { params: { path: { study_id: studyId } }, signal }))) as Study,
  });

export const plansQuery = (studyId: string) =>
  queryOptions({
    queryKey: ["plans", studyId],
    queryFn: ({ signal }) =>
      allPages((cursor) =>
        answered(
          api.GET("/v1/studies/{study_id}/plans", {
            params: { path: { study_id: studyId }, query: { limit: PAGE, ...(cursor && { cursor }) } },
            signal,
          }),
        ),
      ),
  });

/** The catalogues change with the version only. */
const catalogue = { staleTime: Infinity } as const;

export const modelsQuery = () =>
  queryOptions({ queryKey: ["models"], queryFn: ({ signal }) => answered(api.GET("/v1/models", { signal })), ...catalogue });

export const modelQuery = (name: string) =>
  queryOptions({
    queryKey: ["model", name],
    queryFn: ({ signal }) => answered(api.GET("/v1/models/{name}", { params: { path: { name } }, signal })),
    ...catalogue,
  });

export const hardwareListQuery = () =>
  queryOptions({ queryKey: ["hardware"], queryFn: ({ signal }) => answered(api.GET("/v1/hardware", { signal })), ...catalogue });

export const hardwareQuery = (name: string) =>
  queryOptions({
    queryKey: ["hardware", name],
    queryFn: ({ signal }) => answered(api.GET("/v1/hardware/{name}", { params: { path: { name } }, signal })),
    ...catalogue,
  });

/** Published runs with their errors, and the shipped calibrations. */
export const accuracyQuery = () =>
  queryOptions({ queryKey: ["accuracy"], queryFn: ({ signal }) => answered(api.GET("/v1/accuracy", { signal })), ...catalogue });

export const healthQuery = () =>
  queryOptions({ queryKey: ["health"], queryFn: ({ signal }) => answered(api.GET("/healthz", { signal })), ...catalogue });

const CALIBRATIONS = 100; // a page

/** Fitted to runs of one hardware and stack, newest first. */
export const calibrationsQuery = () =>
  queryOptions({
    queryKey: ["calibrations"],
    queryFn: ({ signal }) =>
      allPages((cursor) => answered(api.GET("/v1/calibrations", { params: { query: { limit: CALIBRATIONS, ...(cursor && { cursor }) } }, signal }))),
  });
