import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answered, api, type Schemas } from "../../api/client";
import { allPages } from "../../api/queries";

export type RankedPlan = Schemas["RankedPlan"];
export type Trial = Schemas["Trial"];
export type Result = Schemas["StudyResult"];
export type Counts = Schemas["Counts"];
export type Baseline = Schemas["Baseline"];

const FIRST_PLANS = 100;
const PLANS = 1000;
const PAGE = 200;

/** The first page is small, so that it is drawn at once; the second holds all others. */
export const rankingQuery = (studyId: string) =>
  infiniteQueryOptions({
    queryKey: ["ranking", studyId],
    initialPageParam: "",
    queryFn: ({ signal, pageParam: cursor }) =>
      answered(
        api.GET("/v1/studies/{study_id}/ranking", {
          params: { path: { study_id: studyId }, query: cursor ? { cursor, limit: PLANS } : { limit: FIRST_PLANS } },
          signal,
        }),
      ),
    getNextPageParam: ({ next_cursor: cursor }) => cursor,
    staleTime: Infinity, // asked for only once the study has finished
  });

/** How many studies are taken before a queued one. */
export const queuePlaceQuery = (studyId: string, isQueued: boolean) =>
  queryOptions({
    queryKey: ["queue", studyId],
    queryFn: ({ signal }) => answered(api.GET("/v1/studies/{study_id}/queue", { params: { path: { study_id: studyId } }, signal })),
    enabled: isQueued,
    refetchInterval: 2000,
  });

export const rejectionsQuery = (studyId: string) =>
  queryOptions({
    queryKey: ["rejections", studyId],
    queryFn: ({ signal }) =>
      allPages((cursor) =>
        answered(
          api.GET("/v1/studies/{study_id}/rejections", {
            params: { path: { study_id: studyId }, query: { limit: PAGE, ...(cursor && { cursor }) } },
            signal,
          }),
        ),
      ),
    staleTime: Infinity,
  });

export const trialsQuery = (studyId: string) =>
  queryOptions({
    queryKey: ["trials", studyId],
    queryFn: ({ signal }) =>
      allPages((cursor) =>
        answered(
          api.GET("/v1/studies/{study_id}/trials", {
            params: { path: { study_id: studyId }, query: { limit: PAGE, ...(cursor && { cursor }) } },
            signal,
          }),
        ),
      ),
  });
