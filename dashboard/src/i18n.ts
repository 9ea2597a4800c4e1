/** The strings of the pages: looked up, filled in, and exchanged when the reader changes the language. */
import { createElement, Fragment, useMemo, useSyncExternalStore, type ReactNode } from "react";

export const LANGUAGES = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;

interface Strings {
  readonly [key: string]: string | Strings;
}
type Catalogue = Readonly<Record<string, Strings>>;

/** `count` chooses the plural form; `defaultValue` stands in for a string that may be missing. */
type Values = Readonly<Record<string, unknown>> & { readonly count?: number; readonly defaultValue?: string };
/** Of a key on the page, `a.b`, or on another one, `common:a.b`. */
export type TFunction = (key: string, values?: Values) => string;

/** One chunk a language. A page's strings are in locales/<language>/<page>.json, and `useTranslation("<page>")` reads them. */
const loaders = { en: () => import("./locales/en"), zh: () => import("./locales/zh") } as const;
/** Of what few pages show: apart, so that the others need not wait for it. */
const apart = {
  rarer: { en: () => import("./locales/rarer.en"), zh: () => import("./locales/rarer.zh") },
  rules: { en: () => import("./locales/rules.en"), zh: () => import("./locales/rules.zh") },
} as const;
const catalogues: Partial<Record<Language, Record<string, Strings>>> = {};
const wanted = new Set<keyof typeof apart>();
const STORED = "meshplan-language";
/** Of the page, and of what the server is asked for. */
const HTML_LANG = { en: "en", zh: "zh-CN" } as const;

let current: Language = "en";
const listeners = new Set<() => void>();

function isLanguage(text: string | null): text is Language {
  return text !== null && Object.hasOwn(LANGUAGES, text);
}

/** The address (`?lang=zh`), which stays for the tab, before the reader's choice before the browser's language. */
function preferred(): Language {
  const asked = new URLSearchParams(window.location.search).get("lang");
  if (isLanguage(asked)) sessionStorage.setItem(STORED, asked);
  const chosen = sessionStorage.getItem(STORED) ?? localStorage.getItem(STORED);
  if (isLanguage(chosen)) return chosen;
  return navigator.languages.some((name) => name.toLowerCase().startsWith("zh")) ? "zh" : "en";
}

async function load(language: Language): Promise<void> {
  const parts = await Promise.all([loaders[language](), ...[...wanted].map((name) => apart[name][language]())]);
  catalogues[language] = Object.assign(catalogues[language] ?? {}, ...parts.map((part) => part.default)) as Record<string, Strings>;
}

/** A module whose components show such strings, once they are there. */
export async function withStrings<Module>(name: keyof typeof apart, module: () => Promise<Module>): Promise<Module> {
  wanted.add(name);
  const [loaded] = await Promise.all([module(), load(current)]);
  return loaded;
}

/** Load such strings for what shows keys until they are there. */
export async function loadStrings(name: keyof typeof apart): Promise<void> {
  if (wanted.has(name)) return;
  wanted.add(name);
  try {
    await load(current);
  } catch {
    wanted.delete(name); // keys stay until the server answers again
    return;
  }
  shownAnew();
}

async function use(language: Language): Promise<void> {
  await load(language);
  current = language;
  document.documentElement.lang = HTML_LANG[language];
  for (const listener of listeners) listener();
}

export const startTranslations = (): Promise<void> => use(preferred());

export async function setLanguage(language: Language): Promise<void> {
  localStorage.setItem(STORED, language);
  sessionStorage.removeItem(STORED);
  await use(language);
}

function found(strings: Strings | undefined, key: string): string | undefined {
  let at: string | Strings | undefined = strings;
  for (const part of key.split(".")) at = typeof at === "object" && Object.hasOwn(at, part) ? at[part] : undefined;
  return typeof at === "string" ? at : undefined;
}

const HAN = "\\u4e00-\\u9fff";
const MEETING = new RegExp(`([${HAN}])(?=[A-Za-z0-9])|([A-Za-z0-9%])(?=[${HAN}])`, "g");

const OF_NUMBER = new RegExp(`(?<=(?<![\\w.-])[\\d.,]+) (?=[${HAN}]|[A-Za-zµ]{1,4}(?![A-Za-z]))`, "g");

/** With a blank where Chinese meets letters or digits; one that stays on its line between a number and its unit. */
export const spaced = (text: string): string => text.replace(MEETING, "$& ").replace(OF_NUMBER, "\u00a0");

/** `{{name}}` is the value as it is, `{{name, number}}` grouped as the language groups digits. */
function filled(text: string, values: Values, language: Language): string {
  const said = text.replace(/{{\s*(\w+)\s*(, number)?\s*}}/g, (_, name: string, isNumber) => {
    const value = values[name];
    return isNumber && typeof value === "number" ? new Intl.NumberFormat(HTML_LANG[language]).format(value) : String(value ?? "");
  });
  return language === "zh" ? spaced(said) : said;
}

export function translator(language: Language, catalogue: Catalogue | undefined, page: string): TFunction {
  const plurals = new Intl.PluralRules(HTML_LANG[language]);
  return (key, values = {}) => {
    const [namespace, name] = key.includes(":") ? (key.split(":", 2) as [string, string]) : [page, key];
    const strings = catalogue?.[namespace];
    const plural = values.count === undefined ? undefined : found(strings, `${name}_${plurals.select(values.count)}`);
    const text = plural ?? found(strings, name) ?? values.defaultValue;
    if (text === undefined) console.error(`no string ${namespace}:${name} in ${language}`);
    return filled(text ?? name, values, language);
  };
}


/** The language as headers and the page name it. */
export const languageTag = (): string => HTML_LANG[current];

/** Between texts that are put together: in a row, as parts of a sentence, after a name. */
const MARKS = {
  en: { list: ", ", comma: ", ", semicolon: "; ", colon: ": ", brackets: [" (", ")"] },
  zh: { list: "、", comma: "，", semicolon: "；", colon: "：", brackets: ["（", "）"] },
} as const;
export const marks = (): (typeof MARKS)[Language] => MARKS[current];

/** A remark as it stands behind what it is about. */
export const bracketed = (text: string): string => marks().brackets.join(text);

/** Calls the listener when the reader has changed the language; returns what ends that. */
export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let changes = 0;

/** Shows everything anew: the form of numbers has changed, as it does with the language. */
export function shownAnew(): void {
  changes += 1;
  for (const listener of listeners) listener();
}

export function useTranslation(page = "common"): { t: TFunction; i18n: { language: Language } } {
  const shown = useSyncExternalStore(subscribe, () => `${current} ${changes}`);
  return useMemo(() => ({ t: translator(current, catalogues[current], page), i18n: { language: current } }), [shown, page]);
}

/** A string whose `<code>words</code>` are shown as `components.code` shows them. */
export function Trans({ text, components }: { text: string; components: Readonly<Record<string, (words: string) => ReactNode>> }) {
  const parts = text.split(/<(\w+)>(.*?)<\/\1>/); // plain, name, words, plain, ...
  return parts.map((part, index) => {
    if (index % 3 === 0) return createElement(Fragment, { key: index }, part);
    return index % 3 === 1 ? createElement(Fragment, { key: index }, components[part]?.(parts[index + 1] ?? "") ?? parts[index + 1]) : null;
  });
}
