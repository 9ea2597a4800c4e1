import { describe, expect, it } from "vitest";

import { diffLines, fieldOfProblem, requestOf } from "./request";

const FORM = { script: "torchrun pretrain_gpt.py", hardware: "atlas-800t-a2", devices: "", target: "" };

describe("the request", () => {
  it("says no more than what was filled in", () => expect(requestOf(FORM)).toEqual({ script: FORM.script, hardware: FORM.hardware }));

  it("holds devices as a number and the framework by name", () =>
    expect(requestOf({ ...FORM, devices: "64", target: "megatron-lm" })).toEqual({
      script: FORM.script,
      hardware: FORM.hardware,
      devices: 64,
      target: "megatron-lm",
    }));

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
