/** Whose a study is to the reader, and changing it. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";

import { answered, api } from "../../api/client";
import { studyQuery, type Study } from "../../api/queries";
import { ApiError, toApiError } from "../../api/problem";
import { changedSince, type Changes } from "./labels";

const FRESH_MS = 60_000;

export const termsQuery = () =>
  queryOptions({ queryKey: ["terms"], queryFn: ({ signal }) => answered(api.GET("/v1/terms", { signal })), staleTime: FRESH_MS });

/** Changes a study; all that shows it follows. */
export function useChange(studyId: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Changes) => answered(api.PATCH("/v1/studies/{study_id}", { params: { path: { study_id: studyId } }, body })),
    onSuccess: async (changed) => {
      queries.setQueryData(studyQuery(studyId).queryKey, changed as Study);
      await queries.invalidateQueries({ queryKey: ["studies"] });
    },
  });
}

const TRIES = 3; // progress of a running study changes its version too

/** Changes labels that are still as the reader saw them. Else it fails with `stale`, and the cache has the newest. */
export function useRelabel(opened: Study, sayOf: (changed: readonly string[]) => string) {
  const queries = useQueryClient();
  const seen = useRef(opened);
  return useMutation({
    mutationFn: async (body: Changes): Promise<Study> => {
      const params = { path: { study_id: opened.id } };
      for (let tried = 1; ; tried++) {
        const read = await api.GET("/v1/studies/{study_id}", { params });
        if (!read.response.ok) throw toApiError(read.error, read.response);
        const newest = read.data as Study;
        const changed = changedSince(seen.current, newest, body);
        if (changed.length) {
          seen.current = newest; // the refusal says what changed
          queries.setQueryData(studyQuery(opened.id).queryKey, newest);
          const { problem } = toApiError(undefined, read.response);
          throw new ApiError({ ...problem, type: "urn:meshplan:problem:stale", status: 412, detail: sayOf(changed) });
        }
        try {
          const header = { "if-match": read.response.headers.get("etag") ?? "*" };
          return (await answered(api.PATCH("/v1/studies/{study_id}", { params: { ...params, header }, body }))) as Study;
        } catch (failure) {
          if (toApiError(failure).kind !== "stale" || tried === TRIES) throw failure;
        }
      }
    },
    onSuccess: async (changed) => {
      queries.setQueryData(studyQuery(opened.id).queryKey, changed);
      await queries.invalidateQueries({ queryKey: ["studies"] });
    },
  });
}
