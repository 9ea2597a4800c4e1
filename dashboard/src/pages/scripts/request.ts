import type { Schemas } from "../../api/client";

export const FIELDS = ["script", "hardware", "devices", "target"] as const;
export type Field = (typeof FIELDS)[number];

/** What the form asks; a number of devices that is none travels as text, so that the server says what is wrong with it. */
export function requestOf({ script, hardware, devices, target }: Record<Field, string>): Schemas["ScriptRequest"] {
  const count = devices.trim() === "" || !Number.isFinite(Number(devices)) ? devices.trim() : Number(devices);
  return { script, hardware, ...(count !== "" && { devices: count }), ...(target && { target }) } as Schemas["ScriptRequest"];
}

/** The field that a problem's JSON pointer means; null where the form has none. */
export function fieldOfProblem(pointer: string | null): Field | null {
  const [, name] = (pointer ?? "").replace(/^#/, "").split("/");
  return FIELDS.find((field) => field === name) ?? null;
}

export type LineKind = "added" | "removed" | "place" | "same";

/** The lines of a unified diff with what each is; the two lines that name the files are left out. */
export function diffLines(diff: string): { text: string; kind: LineKind }[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  const begin = lines[0]?.startsWith("--- ") && lines[1]?.startsWith("+++ ") ? 2 : 0;
  return lines.slice(begin).map((text) => ({ text, kind: kindOf(text) }));
}

function kindOf(line: string): LineKind {
  if (line.startsWith("@@")) return "place";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "same";
}
