import { queryOptions } from "@tanstack/react-query";

import { answered, api, type Schemas } from "../../api/client";
import { allPages } from "../../api/queries";

export type OwnRun = Schemas["StoredRun"];
const PAGE = 100;

/** The runs that this server stores, each predicted by a stored calibration where one is named and applies; newest first. */
export const ownRunsQuery = (calibration = "") =>
  queryOptions({
    queryKey: ["runs", calibration],
    queryFn: ({ signal }) =>
      allPages((cursor) =>
        answered(api.GET("/v1/runs", { params: { query: { limit: PAGE, predicted: true, ...(calibration && { calibration }), ...(cursor && { cursor }) } }, signal })),
      ),
  });

export const calibrationQuery = (id: string) =>
  queryOptions({
    queryKey: ["calibration", id],
    queryFn: ({ signal }) => answered(api.GET("/v1/calibrations/{calibration_id}", { params: { path: { calibration_id: id } }, signal })),
    staleTime: Infinity,
  });

function partOf(run: OwnRun, part: string): Record<string, unknown> {
  const found = (run.record as Record<string, unknown>)[part];
  return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
}

/** What a reader knows a stored run by; its fields are as they were sent. */
export function factsOf(run: OwnRun) {
  const [model, cluster, software] = [partOf(run, "model"), partOf(run, "cluster"), partOf(run, "software")];
  return {
    model: typeof model.name === "string" ? model.name : (run.id ?? run.record_sha256.slice(0, 8)),
    hardware: String(cluster.hardware ?? ""),
    devices: typeof cluster.num_devices === "number" ? cluster.num_devices : null,
    framework: String(software.framework ?? ""),
  };
}
