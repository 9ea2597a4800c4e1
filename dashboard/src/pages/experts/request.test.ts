import { describe, expect, it } from "vitest";

import { cellsOf, fieldOfProblem, requestOf, type Form } from "./request";

const FORM: Form = {
  model: "deepseek-v3",
  hardware: "atlas-900-a3-superpod",
  devices: "2048",
  tp: "",
  pp: "16",
  ep: "32",
  validSteps: "50",
  maxCopies: "",
  log: "",
  steps: "20",
  early: false,
};

describe("requestOf", () => {
  it("leaves out what is empty and generates a trace without a log", () => {
    expect(requestOf(FORM)).toEqual({
      model: "deepseek-v3",
      cluster: { hardware: "atlas-900-a3-superpod", num_devices: 2048 },
      strategy: { pp: 16, ep: 32, recompute: "full" },
      loads: { generated: { steps: 20, early: false } },
      terms: { valid_steps: 50 },
    });
  });

  it("sends a log, and numbers that are none as text", () => {
    const sent = requestOf({ ...FORM, log: "layer,expert,tokens\n", ep: "many" }) as unknown as Record<string, Record<string, unknown>>;
    expect(sent.loads).toEqual({ text: "layer,expert,tokens\n" });
    expect(sent.strategy?.ep).toBe("many");
  });
});

it("finds the field that a pointer means", () => {
  expect(fieldOfProblem("#/strategy/ep")).toBe("ep");
  expect(fieldOfProblem("#/loads/text/0/3")).toBe("log");
  expect(fieldOfProblem("#/cluster/num_devices")).toBe("devices");
  expect(fieldOfProblem("#/strategy")).toBeNull();
  expect(fieldOfProblem(null)).toBeNull();
});

it("makes a cell of each layer and rank", () => {
  expect(cellsOf([[1.5, 0.5], [0.9, 1.1]])).toEqual({
    cells: [[0, 0, 1.5], [1, 0, 0.5], [0, 1, 0.9], [1, 1, 1.1]],
    most: 1.5,
  });
  expect(cellsOf([]).most).toBe(1);
});
