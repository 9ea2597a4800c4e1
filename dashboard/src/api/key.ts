/** The API key, kept for this tab only. Empty on loopback, where nobody needs one. */
const STORED = "meshplan-api-key";
const listeners = new Set<() => void>();
let wanted = false;
let isChanged = false;

export function apiKey(): string {
  const key = sessionStorage.getItem(STORED) ?? "";
  return isPossibleKey(key) ? key : ""; // a browser sends no other in a header
}

export function setApiKey(key: string): void {
  sessionStorage.setItem(STORED, key);
  wanted = isChanged = false;
  listeners.forEach((listener) => listener());
}

/** Keys are printable ASCII: a full-width letter of an input method is none. */
export const isPossibleKey = (key: string): boolean => /^[\x21-\x7e]+$/.test(key);

/** The reader wants another key, or no longer. */
export function changeApiKey(isWanted: boolean): void {
  isChanged = isWanted;
  listeners.forEach((listener) => listener());
}

export const isApiKeyChanged = (): boolean => isChanged;

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
