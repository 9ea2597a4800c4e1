import type { components } from "./schema";

export type Problem = components["schemas"]["Problem"];

/** A refusal of the server (problem+json), or its silence (`status` 0). */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "ApiError";
  }

  get status(): number {
    return this.problem.status;
  }

  /** `not-found` of `urn:meshplan:problem:not-found`. */
  get kind(): string {
    return this.problem.type.replace(/^urn:meshplan:problem:/, "");
  }
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "detail" in value && "status" in value && "type" in value;
}

export function toApiError(cause: unknown, response?: Response): ApiError {
  if (cause instanceof ApiError) return cause;
  if (isProblem(cause)) return new ApiError(cause);
  const unreachable = response === undefined || response.status >= 502;
  return new ApiError({
    type: unreachable ? "urn:meshplan:problem:unreachable" : "urn:meshplan:problem:internal",
    title: "",
    status: response?.status ?? 0,
    detail: cause instanceof Error ? cause.message : "",
    pointer: null,
    parameter: null,
    hint: "",
    instance: "",
  });
}
