/** What the pages of kept checks ask the server for. */
import { queryOptions } from "@tanstack/react-query";

import { answered, api, type Schemas } from "../../api/client";
import { allPages } from "../../api/queries";

const PAGE = 200;
const MOST_CHECKS = 1000; // of a history: the newest
const AGAIN_MS = 30_000;

export type KeptCheck = Schemas["KeptCheckSummary"];
export type History = Schemas["HistorySummary"];
export type Status = KeptCheck["status"];
export type Line = Schemas["CheckItem"];
export type CheckDocument = Schemas["CheckDocument"];
/** The server's types leave open what `check` holds, which is checked elsewhere. */
export type WholeCheck = KeptCheck & { check: CheckDocument };

/** Which checks are one history: those of one name and owner. */
export interface HistoryKey {
  name: string;
  owner: string | null;
}

export const historiesQuery = () =>
  queryOptions({
    queryKey: ["histories"],
    queryFn: ({ signal }) => allPages((cursor) => answered(api.GET("/v1/histories", { params: { query: { limit: PAGE, ...(cursor && { cursor }) } }, signal }))),
    refetchInterval: AGAIN_MS,
  });

/** Newest first. They are many: asked for again where the list of histories says that there is another. */
export const checksQuery = ({ name, owner }: HistoryKey, archived: "true" | "false" = "false") =>
  queryOptions({
    queryKey: ["checks", name, owner, archived],
    queryFn: async ({ signal }) => {
      const query = { limit: PAGE, name, archived, ...(owner !== null && { owner }) };
      const found = await allPages((cursor) => answered(api.GET("/v1/checks", { params: { query: { ...query, ...(cursor && { cursor }) } }, signal })), MOST_CHECKS);
      return found.filter((check) => check.owner === owner);
    },
  });

export const checkQuery = (checkId: string) =>
  queryOptions({
    queryKey: ["check", checkId],
    queryFn: async ({ signal }) => (await answered(api.GET("/v1/checks/{check_id}", { params: { path: { check_id: checkId } }, signal }))) as WholeCheck,
  });
