import { describe, expect, it } from "vitest";

import en from "./en";
import rarerEn from "./rarer.en";
import rarerZh from "./rarer.zh";
import rulesEn from "./rules.en";
import rulesZh from "./rules.zh";
import zh from "./zh";

type Strings = Record<string, unknown>;

const PLURAL = /_(zero|one|two|few|many|other)$/;

function flat(strings: Strings, prefix = ""): Map<string, string> {
  const found = new Map<string, string>();
  for (const [key, value] of Object.entries(strings)) {
    if (typeof value === "string") found.set(prefix + key.replace(PLURAL, ""), value);
    else for (const [inner, text] of flat(value as Strings, `${prefix}${key}.`)) found.set(inner, text);
  }
  return found;
}

const catalogues = { en: { ...en, ...rarerEn, ...rulesEn }, zh: { ...zh, ...rarerZh, ...rulesZh } };
const flatEn = new Map(Object.entries(catalogues.en).map(([name, strings]) => [name, flat(strings)]));
const sources = import.meta.glob<string>("../**/*.{ts,tsx}", { eager: true, query: "?raw", import: "default" });

describe.each(Object.keys(catalogues.en))("%s", (name) => {
  it("has the same strings in both languages", () => {
    expect([...flat(catalogues.zh[name] ?? {}).keys()].sort()).toEqual([...flat(catalogues.en[name] ?? {}).keys()].sort());
  });

  it("fills in the same values in both languages", () => {
    const fields = (text: string) => [...new Set(text.match(/{{\w+|<\w+>/g) ?? [])].filter((field) => field !== "{{count").sort();
    const chinese = flat(catalogues.zh[name] ?? {});
    for (const [key, text] of flat(catalogues.en[name] ?? {})) expect([key, fields(chinese.get(key) ?? "")]).toEqual([key, fields(text)]);
  });
});

it("every string that the pages name is in the catalogue", () => {
  const missing: string[] = [];
  for (const [path, text] of Object.entries(sources)) {
    if (path.endsWith(".test.ts")) continue;
    const declared = [...text.matchAll(/useTranslation\((?:\[)?((?:"\w+"(?:, )?)+)/g)].flatMap(([, names]) => names?.match(/\w+/g) ?? []);
    for (const [, key] of text.matchAll(/\b(?:t\(|i18nKey=)"([\w.:-]+)"/g)) {
      const [namespace, name] = key?.includes(":") ? key.split(":", 2) : [undefined, key];
      const places = namespace ? [namespace] : declared.length ? declared : ["common"];
      if (!places.some((place) => flatEn.get(place ?? "")?.has(name ?? ""))) missing.push(`${path}: ${key}`);
    }
  }
  expect(missing).toEqual([]);
});

it("no page holds text of its own", () => {
  const found: string[] = [];
  for (const [path, text] of Object.entries(sources)) {
    if (!path.endsWith(".tsx")) continue;
    for (const [, words] of text.matchAll(/>\s*([A-Z][a-z]+(?: [a-z]+)+)[^<>{}]*</g)) found.push(`${path}: ${words}`);
    for (const [, words] of text.matchAll(/\b(?:label|title|placeholder|aria-label|alt)="([^"]*[A-Za-z]{2}[^"]*)"/g)) found.push(`${path}: ${words}`);
  }
  expect(found).toEqual([]);
});
