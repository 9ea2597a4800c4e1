import { languageTag } from "../i18n";
import { apiKey } from "./key";
import { toApiError } from "./problem";

export interface ServerEvent {
  id: string;
  kind: string;
  data: Record<string, unknown>;
}

/**
 * Server-sent events until the server ends the stream. EventSource cannot send an API key, so the stream is read with fetch.
 */
export async function* readEvents(path: string, signal: AbortSignal, lastEventId = ""): AsyncGenerator<ServerEvent> {
  const headers = new Headers({ Accept: "text/event-stream", "Accept-Language": languageTag() });
  if (apiKey()) headers.set("Authorization", `Bearer ${apiKey()}`);
  if (lastEventId) headers.set("Last-Event-ID", lastEventId);
  const response = await fetch(path, { headers, signal, cache: "no-store" });
  if (!response.ok || !response.body) throw toApiError(await response.json().catch(() => null), response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    pending += value;
    const blocks = pending.split(/\r?\n\r?\n/);
    pending = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event) yield event;
    }
  }
}

export function parseEvent(block: string): ServerEvent | null {
  const event = { id: "", kind: "message", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (field === "id") event.id = value ?? "";
    else if (field === "event") event.kind = value ?? "";
    else if (field === "data") event.data += value ?? "";
  }
  return event.data ? { ...event, data: JSON.parse(event.data) as Record<string, unknown> } : null;
}
