/** Whose a study is to the reader, and changing it. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { answered, api } from "../../api/client";
import { studyQuery, type Study } from "../../api/queries";
import type { Changes } from "./labels";

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
