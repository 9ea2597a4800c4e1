import { describe, expect, it } from "vitest";

import { batches, NotRuns, recordsOf, stackOf } from "./runFile";

describe("recordsOf", () => {
  it("reads lines, lists, and a request's body alike", () => {
    const one = { id: "a" };
    const two = { id: "b" };
    for (const text of [`{"id": "a"}\n\n{"id": "b"}\n`, JSON.stringify([one, two]), JSON.stringify({ runs: [one, two] }, null, 2)]) {
      expect(recordsOf(text)).toEqual([one, two]);
    }
    expect(recordsOf(JSON.stringify(one, null, 2))).toEqual([one]);
  });

  it("names the line that is no record", () => {
    const failure = (text: string) => {
      try {
        return recordsOf(text);
      } catch (error) {
        return error instanceof NotRuns ? [error.reason, error.line] : error;
      }
    };
    expect(failure('{"id": 1}\nstep,time\n')).toEqual(["line", 2]);
    expect(failure("  \n")).toEqual(["empty", 0]);
    expect(failure("[]")).toEqual(["empty", 0]);
  });
});

describe("batches", () => {
  it("keeps requests within 500 records and the size that the server takes", () => {
    expect(batches(Array.from({ length: 1001 }, (_, id) => ({ id }))).map((batch) => batch.length)).toEqual([500, 500, 1]);
    const large = { text: "x".repeat(2_000_000) };
    expect(batches([large, large, large]).map((batch) => batch.length)).toEqual([1, 1, 1]);
  });
});

it("guesses the stack from a framework's name", () => {
  expect(stackOf("MindSpeed-LLM (then named ModelLink)", ["mindformers", "mindspeed-llm"])).toBe("mindspeed-llm");
  expect(stackOf("something else", ["mindformers"])).toBeUndefined();
});
