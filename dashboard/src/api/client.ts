import createClient, { type Middleware } from "openapi-fetch";

import { languageTag } from "../i18n";
import { apiKey, wantApiKey } from "./key";
import { toApiError } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

const authorize: Middleware = {
  onRequest({ request }) {
    const key = apiKey();
    if (key) request.headers.set("Authorization", `Bearer ${key}`);
    request.headers.set("Accept-Language", languageTag());
    return request;
  },
  onResponse({ response }) {
    if (response.status === 401) wantApiKey();
    return response;
  },
};

/** Every path, parameter and body is checked against the server's OpenAPI document. */
export const api = createClient<paths>({ baseUrl: window.location.origin });
api.use(authorize);

interface Answer<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** The body of an answer; throws `ApiError` for problem documents and where the server is silent. */
export async function answered<Data>(request: Promise<Answer<Data>>): Promise<Data> {
  let answer: Answer<Data>;
  try {
    answer = await request;
  } catch (silence) {
    throw silence instanceof DOMException && silence.name === "AbortError" ? silence : toApiError(silence);
  }
  if (!answer.response.ok) throw toApiError(answer.error, answer.response);
  return answer.data as Data;
}
