/** The view lives in the address: what is filtered, chosen and sorted survives a reload and can be sent to somebody. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "react-router";

type Change = string | readonly string[] | null;

/** Changes parameters without a new entry in the history; `null` and the empty list remove one. */
export function useUrlChange(): (changes: Record<string, Change>) => void {
  const [, setParams] = useSearchParams();
  return useCallback(
    (changes) =>
      setParams(
        () => {
          // Of the address as it is now: the router's own argument is that of the last render, and changes would get lost.
          const after = new URLSearchParams(window.location.search);
          for (const [name, value] of Object.entries(changes)) {
            const text = value === null ? "" : typeof value === "string" ? value : value.map(encodeURIComponent).join(",");
            if (text) after.set(name, text);
            else after.delete(name);
          }
          return after;
        },
        { replace: true, flushSync: true }, // a checkbox shows its state at once
      ),
    [setParams],
  );
}

/** One parameter as text. The default is not written into the address. */
export function useUrlText(name: string, initial = ""): [string, (value: string) => void] {
  const [params] = useSearchParams();
  const change = useUrlChange();
  const set = useCallback((value: string) => change({ [name]: value === initial ? null : value }), [change, name, initial]);
  return [params.get(name) ?? initial, set];
}

/** One parameter as a choice among `allowed`; anything else in the address counts as the default. */
export function useUrlChoice<Choice extends string>(
  name: string,
  allowed: readonly Choice[],
  initial: Choice,
): [Choice, (value: Choice) => void] {
  const [text, set] = useUrlText(name, initial);
  return [allowed.find((choice) => choice === text) ?? initial, set];
}

/** One parameter as a list, `a,b,c`. */
export function useUrlList(name: string, initial: readonly string[] = []): [readonly string[], (values: readonly string[]) => void] {
  const [params] = useSearchParams();
  const change = useUrlChange();
  const text = params.get(name);
  const initialText = initial.join(",");
  const values = useMemo(
    () => (text ?? initialText).split(",").filter(Boolean).map(decodedComponent),
    [text, initialText],
  );
  const set = useCallback(
    (next: readonly string[]) => change({ [name]: next.join(",") === initialText ? null : next }),
    [change, name, initialText],
  );
  return [values, set];
}

function decodedComponent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const PAUSE_MS = 200;

/** Like `useUrlText` for fields that are typed into: the address follows when the typing pauses. */
export function useUrlDraft(name: string): [string, (value: string) => void] {
  const [text, setText] = useUrlText(name);
  const [draft, setDraft] = useState(text);
  const written = useRef(text);

  useEffect(() => {
    if (text !== written.current) setDraft(text); // somebody else changed the address: a link, the back button
    written.current = text;
  }, [text]);

  useEffect(() => {
    if (draft === written.current) return undefined;
    const timer = setTimeout(() => {
      written.current = draft;
      setText(draft);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [draft, setText]);

  return [draft, setDraft];
}

/**
 * The fields of a form: what differs from `defaults` is in the address, written when the typing pauses. `defaults` must not change.
 *
 * The third function writes at once. Whoever leaves the page does so first: a write that comes later would call the reader back.
 */
export function useUrlForm<Field extends string>(
  defaults: Readonly<Record<Field, string>>,
): [Readonly<Record<Field, string>>, (changes: Partial<Record<Field, string>>) => void, () => void] {
  type Form = Readonly<Record<Field, string>>;
  const [params] = useSearchParams();
  const change = useUrlChange();
  const fields = useMemo(() => Object.keys(defaults) as Field[], [defaults]);
  const text = JSON.stringify(Object.fromEntries(fields.map((field) => [field, params.get(field) ?? defaults[field]])));
  const [form, setForm] = useState<Form>(() => JSON.parse(text) as Form);
  const written = useRef(text);

  useEffect(() => {
    if (text !== written.current) setForm(JSON.parse(text) as Form); // a link, the back button
    written.current = text;
  }, [text]);

  const settle = useCallback(() => {
    const next = JSON.stringify(form);
    if (next === written.current) return;
    written.current = next;
    change(Object.fromEntries(fields.map((field) => [field, form[field] === defaults[field] ? null : form[field]])));
  }, [form, fields, defaults, change]);

  useEffect(() => {
    const timer = setTimeout(settle, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [settle]);

  const set = useCallback((changes: Partial<Record<Field, string>>) => setForm((before) => ({ ...before, ...changes })), []);
  return [form, set, settle];
}
