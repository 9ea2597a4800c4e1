/** The API key, kept for this tab only. Empty on loopback, where nobody needs one. */
const STORED = "meshplan-api-key";
const listeners = new Set<() => void>();
let wanted = false;

export function apiKey(): string {
  return sessionStorage.getItem(STORED) ?? "";
}

export function setApiKey(key: string): void {
  sessionStorage.setItem(STORED, key);
  wanted = false;
  listeners.forEach((listener) => listener());
}

/** The server refused a request for want of a (valid) key. */
export function wantApiKey(): void {
  wanted = true;
  listeners.forEach((listener) => listener());
}

export function isApiKeyWanted(): boolean {
  return wanted;
}

export function onApiKeyChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
