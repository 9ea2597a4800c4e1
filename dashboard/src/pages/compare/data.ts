import { queryOptions, useQueries } from "@tanstack/react-query";

import { answered, api } from "../../api/client";
import { studyQuery, type Plan, type Study } from "../../api/queries";
import { letterOf, type Entry } from "./entries";

export interface Item {
  entry: Entry;
  /** A, B, C, D: the same on the whole page. */
  letter: string;
  study: Study;
  /** Null for a study that has no plan. */
  plan: Plan | null;
}

/** A finished study's plans do not change. */
const planQuery = ({ studyId, planId }: Entry) =>
  queryOptions({
    queryKey: ["plan", studyId, planId],
    queryFn: async ({ signal }): Promise<Plan | null> => {
      const study = planId === null ? await answered(api.GET("/v1/studies/{study_id}", { params: { path: { study_id: studyId } }, signal })) : null;
      const id = planId ?? (study as Study | null)?.result?.recommended?.plan_id;
      return id ? answered(api.GET("/v1/studies/{study_id}/plans/{plan_id}", { params: { path: { study_id: studyId, plan_id: id } }, signal })) : null;
    },
    staleTime: planId === null ? 2000 : Infinity,
  });

interface Loaded {
  items: Item[];
  isPending: boolean;
  failures: { entry: Entry; error: Error; again: () => void }[];
}

export function useItems(entries: readonly Entry[]): Loaded {
  const studies = useQueries({ queries: entries.map(({ studyId }) => studyQuery(studyId)) });
  const plans = useQueries({ queries: entries.map(planQuery) });
  const loaded: Loaded = { items: [], isPending: false, failures: [] };
  entries.forEach((entry, place) => {
    const [study, plan] = [studies[place], plans[place]];
    const error = study?.error ?? plan?.error;
    if (error) loaded.failures.push({ entry, error, again: () => void Promise.all([study?.refetch(), plan?.refetch()]) });
    else if (study?.data && plan?.data !== undefined) loaded.items.push({ entry, letter: letterOf(place), study: study.data, plan: plan.data });
    else loaded.isPending = true;
  });
  return loaded;
}
