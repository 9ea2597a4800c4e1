import { expect, it } from "vitest";

import { changesOf, deletedAtS, mayChange, nameOf, nextName, tagsOfText } from "./labels";

const TERMS = { owner: "ada", scopes: ["read", "write"], keep_studies_days: 30 } as const;
const terms = (changes: object) => ({ ...TERMS, scopes: [...TERMS.scopes], ...changes }) as Parameters<typeof mayChange>[1];

it("a study goes by its name, else by its model", () => {
  expect(nameOf({ name: "", model: "llama" })).toBe("llama");
  expect(nameOf({ name: "tender", model: "llama" })).toBe("tender");
});

it("tags are what stands between commas, once each", () => {
  expect(tagsOfText(" b, a,，b、c c ,, ")).toEqual(["a", "b", "c c"]);
  expect(tagsOfText(" , ")).toEqual([]);
});

it("what begins from a study is counted on from its name, within the bound of names", () => {
  expect(["", "tender", "tender (2)", "(9)", "a (99)"].map(nextName)).toEqual(["", "tender (2)", "tender (3)", "(9) (2)", "a (100)"]);
  expect(nextName("x".repeat(120))).toBe(`${"x".repeat(116)} (2)`);
});

it("only what differs is sent", () => {
  const study = { name: "tender", tags: ["b", "a"], note: "why" };
  expect(changesOf(study, { name: " tender ", tags: "a, b", note: "why\n" })).toEqual({});
  expect(changesOf(study, { name: "", tags: "a", note: "why" })).toEqual({ name: "", tags: ["a"] });
});

it("one's own and nobody's are changed, an admin changes any, a reader none", () => {
  expect([{ owner: "ada" }, { owner: null }, { owner: "bob" }].map((study) => mayChange(study, terms({})))).toEqual([true, true, false]);
  expect(mayChange({ owner: "bob" }, terms({ scopes: ["read", "write", "admin"] }))).toBe(true);
  expect(mayChange({ owner: "ada" }, terms({ scopes: ["read"] }))).toBe(false);
  expect(mayChange({ owner: null }, undefined)).toBe(false);
});

it("what has ended is deleted when its days are over, unless it is archived", () => {
  const study = { finished_at_s: 1000, archived: false };
  expect(deletedAtS(study, terms({}))).toBe(1000 + 30 * 86_400);
  expect(deletedAtS(study, terms({ keep_studies_days: 0 }))).toBeNull();
  expect(deletedAtS({ ...study, archived: true }, terms({}))).toBeNull();
  expect(deletedAtS({ ...study, finished_at_s: null }, terms({}))).toBeNull();
});
