import { queryOptions } from "@tanstack/react-query";

import { answered, api, type Schemas } from "../../api/client";

export type Analysis = Schemas["PlanAnalysis"];
export type Stage = Schemas["StageDocument"];
export type GroupTraffic = Schemas["GroupTrafficDocument"];
export type Change = Schemas["Change"];
export type Sensitivity = Schemas["Sensitivity"];
export type LaunchFile = Schemas["LaunchFile"];

const at = (studyId: string, planId: string) => ({ path: { study_id: studyId, plan_id: planId } });
/** A finished study's plans do not change. */
const fixed = { staleTime: Infinity } as const;

export const analysisQuery = (studyId: string, planId: string) =>
  queryOptions({
    queryKey: ["analysis", studyId, planId],
    queryFn: ({ signal }) =>
      answered(api.GET("/v1/studies/{study_id}/plans/{plan_id}/analysis", { params: at(studyId, planId), signal })),
    ...fixed,
  });

export const verificationQuery = (studyId: string, planId: string) =>
  queryOptions({
    queryKey: ["verification", studyId, planId],
    queryFn: ({ signal }) =>
      answered(api.GET("/v1/studies/{study_id}/plans/{plan_id}/verification", { params: at(studyId, planId), signal })),
  });

export const launchQuery = (studyId: string, planId: string) =>
  queryOptions({
    queryKey: ["launch", studyId, planId],
    queryFn: ({ signal }) => answered(api.GET("/v1/studies/{study_id}/plans/{plan_id}/launch", { params: at(studyId, planId), signal })),
    ...fixed,
  });

export const timelineQuery = (studyId: string, planId: string) =>
  queryOptions({
    queryKey: ["timeline", studyId, planId],
    // Without a format the answer is columns.
    queryFn: async ({ signal }) =>
      (await answered(api.GET("/v1/studies/{study_id}/plans/{plan_id}/timeline", { params: at(studyId, planId), signal }))) as Schemas["PlanTimeline"],
    ...fixed,
    gcTime: 60_000, // it may be many megabytes
  });

/** Chrome's trace events, as the server writes them. */
export async function loadTrace(studyId: string, planId: string): Promise<string> {
  const params = { ...at(studyId, planId), query: { format: "chrome" as const } };
  const trace = await answered(api.GET("/v1/studies/{study_id}/plans/{plan_id}/timeline", { params, parseAs: "text" }));
  return trace as unknown as string;
}
