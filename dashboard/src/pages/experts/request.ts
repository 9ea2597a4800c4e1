import type { Schemas } from "../../api/client";
import { numberOrText, type Written } from "../../units/written";

/** What the form holds, as text: the server says what is wrong with it. */
export interface Form {
  model: string;
  hardware: string;
  devices: string;
  tp: string;
  pp: string;
  ep: string;
  validSteps: string;
  maxCopies: string;
  /** Text of a log; empty where a trace is generated. */
  log: string;
  steps: string;
  early: boolean;
}

export const FIELDS = ["model", "hardware", "devices", "tp", "pp", "ep", "validSteps", "maxCopies", "log", "steps"] as const;
export type Field = (typeof FIELDS)[number];

const PLACES: Record<string, Field> = {
  model: "model",
  "cluster/hardware": "hardware",
  "cluster/num_devices": "devices",
  "strategy/tp": "tp",
  "strategy/pp": "pp",
  "strategy/ep": "ep",
  "terms/valid_steps": "validSteps",
  "terms/max_copies": "maxCopies",
  "loads/text": "log",
  "loads/generated/steps": "steps",
};

/** How the field of a number is read. */
export function writtenOf(field: Field): Written {
  const place = Object.keys(PLACES).find((each) => PLACES[each] === field);
  return { name: place?.split("/").pop() ?? field, whole: true };
}

function given(fields: Record<string, string>): Record<string, number | string> {
  const filled = Object.entries(fields).filter(([, text]) => text.trim() !== "");
  return Object.fromEntries(filled.map(([name, text]) => [name, numberOrText(text, { name, whole: true })]));
}

/** A number that is none travels as text. */
export function requestOf(form: Form): Schemas["ExpertPlanRequest"] {
  const { model, hardware, devices, tp, pp, ep, validSteps, maxCopies, log, steps, early } = form;
  return {
    model,
    cluster: { hardware, num_devices: numberOrText(devices, writtenOf("devices")) },
    strategy: { ...given({ tp, pp, ep }), recompute: "full" },
    loads: log.trim() ? { text: log } : { generated: { ...given({ steps }), early } },
    terms: given({ valid_steps: validSteps, max_copies: maxCopies }),
  } as unknown as Schemas["ExpertPlanRequest"];
}

/** The field that a problem's JSON pointer means; null where the form has none. */
export function fieldOfProblem(pointer: string | null): Field | null {
  const path = (pointer ?? "").replace(/^#\/?/, "");
  const place = Object.keys(PLACES).find((known) => path === known || path.startsWith(`${known}/`));
  return place ? (PLACES[place] ?? null) : null;
}

/** Cells of a heat map, `[rank, layer, load]`, and the largest load. */
export function cellsOf(loads: readonly (readonly number[])[]): { cells: [number, number, number][]; most: number } {
  const cells = loads.flatMap((ranks, layer) => ranks.map((load, rank): [number, number, number] => [rank, layer, load]));
  return { cells, most: cells.reduce((most, [, , load]) => Math.max(most, load), 1) };
}

/** The map that MindSpeed-RL and vLLM-Ascend read. */
export function mapOf(placement: readonly (readonly (readonly number[])[])[]) {
  return {
    moe_layer_count: placement.length,
    layer_list: placement.map((ranks, layer) => ({
      layer_id: layer,
      device_count: ranks.length,
      device_list: ranks.map((experts, device) => ({ device_id: device, device_expert: experts })),
    })),
  };
}
