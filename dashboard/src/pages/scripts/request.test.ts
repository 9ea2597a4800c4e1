import { describe, expect, it } from "vitest";

import { diffLines, fieldOfProblem, missingOf, partnersOf, piecesOf, requestOf } from "./request";

const FORM = { script: "torchrun pretrain_gpt.py", hardware: "atlas-800t-a2", devices: "", target: "", assume: "" };

describe("the request", () => {
  it("says no more than what was filled in", () => expect(requestOf(FORM)).toEqual({ script: FORM.script, hardware: FORM.hardware }));

  it("holds devices as a number and the framework by name", () =>
    expect(requestOf({ ...FORM, devices: "64", target: "megatron-lm" })).toEqual({
      script: FORM.script,
      hardware: FORM.hardware,
      devices: 64,
      target: "megatron-lm",
    }));

  it("names the arguments to leave out, as people write them", () =>
    expect(requestOf({ ...FORM, assume: "--our-own-flag=ignored, moe-router-dtype，our-own-flag" }).assume).toEqual({ "our-own-flag": "ignored", "moe-router-dtype": "ignored" }));

  it("wants script and hardware, and says so of both", () => expect(missingOf({ ...FORM, script: " ", hardware: "" })).toEqual(["script", "hardware"]));

  it("sends what is no number as it is, for the server to refuse", () => expect(requestOf({ ...FORM, devices: "many" }).devices).toBe("many"));
});

it.each([
  ["#/script", "script"],
  ["#/hardware", "hardware"],
  ["#/devices", "devices"],
  ["#/files/common.sh", null],
  [null, null],
])("the problem at %s belongs to %s", (pointer, field) => expect(fieldOfProblem(pointer)).toBe(field));

it("tells added, removed and unchanged lines apart", () =>
  expect(diffLines("--- a\n+++ b\n@@ -1,3 +1,3 @@\n TP=1\n---tensor 8\n+--tensor 4\n")).toEqual([
    { text: "@@ -1,3 +1,3 @@", kind: "place" },
    { text: " TP=1", kind: "same" },
    { text: "---tensor 8", kind: "removed" },
    { text: "+--tensor 4", kind: "added" },
  ]));

it("marks the words of a long line that changed", () => {
  const [was, now] = ['GPT_ARGS="--tp 8 --bf16 --recompute full"', 'GPT_ARGS="--tp 4 --bf16 --recompute full --mc2"'];
  const marked = (line: string, other: string) => piecesOf(line, other).filter(({ isChanged }) => isChanged).map(({ text }) => text.trim());
  expect(marked(was, now)).toEqual(["8", 'full"']);
  expect(marked(now, was)).toEqual(["4", "full", '--mc2"']);
  expect(piecesOf(was, now).map(({ text }) => text).join("")).toBe(was);
});

it("sets a removed line against the one that replaces it", () =>
  expect(partnersOf(diffLines("@@ -1 +1 @@\n-TP=8\n-PP=2\n+TP=4\n same\n"))).toEqual([null, "+TP=4", null, "-TP=8", null]));
