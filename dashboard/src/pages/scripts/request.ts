import type { Schemas } from "../../api/client";
import { numberOrText } from "../../units/written";

export const FIELDS = ["script", "hardware", "devices", "target", "assume"] as const;
export const REQUIRED = ["script", "hardware"] as const;
export type Field = (typeof FIELDS)[number];
export const DEVICES = { name: "num_devices", whole: true };

/** What the form asks; a number of devices that is none travels as text, so that the server says what is wrong with it. */
export function requestOf({ script, hardware, devices, target, assume }: Record<Field, string>): Schemas["ScriptRequest"] {
  const names = namesOf(assume);
  const count = numberOrText(devices, DEVICES);
  return { script, hardware, ...(count !== "" && { devices: count }), ...(target && { target }), ...(names.length > 0 && { assume: Object.fromEntries(names.map((name) => [name, "ignored"])) }) } as Schemas["ScriptRequest"];
}

/** Names of arguments between commas or blanks, with or without their dashes and `=ignored`. */
export const namesOf = (text: string): string[] =>
  [...new Set(text.split(/[\s,，、]+/).map((name) => name.replace(/^--/, "").replace(/=ignored$/, "")))].filter(Boolean);

/** Fields without which nothing can be asked, in the order of the form. */
export const missingOf = (form: Record<Field, string>): Field[] => REQUIRED.filter((field) => !form[field].trim());

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

export interface Piece {
  text: string;
  isChanged: boolean;
}

/** The words of a changed line, those marked that the other version does not have in their place. */
export function piecesOf(line: string, other: string): Piece[] {
  const [words, others] = [line, other].map((text) => text.split(/(?<=\s)(?=\S)/)) as [string[], string[]];
  const lengths = commonLengths(words, others);
  const pieces: Piece[] = [];
  let at = 0;
  words.forEach((text, index) => {
    while (at < others.length && others[at]?.trim() !== text.trim() && (lengths[index]?.[at + 1] ?? 0) === (lengths[index]?.[at] ?? 0)) at++;
    const isSame = others[at]?.trim() === text.trim() && (lengths[index]?.[at] ?? 0) === 1 + (lengths[index + 1]?.[at + 1] ?? 0);
    if (isSame) at++;
    pieces.push({ text, isChanged: !isSame });
  });
  return pieces;
}

/** The longest common subsequence of the words from each place on. */
function commonLengths(words: readonly string[], others: readonly string[]): number[][] {
  const lengths = Array.from({ length: words.length + 1 }, () => new Array<number>(others.length + 1).fill(0));
  for (let i = words.length - 1; i >= 0; i--)
    for (let j = others.length - 1; j >= 0; j--) {
      const row = lengths[i];
      if (row) row[j] = words[i]?.trim() === others[j]?.trim() ? 1 + (lengths[i + 1]?.[j + 1] ?? 0) : Math.max(lengths[i + 1]?.[j] ?? 0, row[j + 1] ?? 0);
    }
  return lengths;
}

/** For each line of a diff the line of the other version that it stands against: a run of removed lines against the run that follows. */
export function partnersOf(lines: readonly { text: string; kind: LineKind }[]): (string | null)[] {
  const partners: (string | null)[] = lines.map(() => null);
  for (let start = 0; start < lines.length; start++) {
    if (lines[start]?.kind !== "removed") continue;
    let middle = start;
    while (lines[middle]?.kind === "removed") middle++;
    let end = middle;
    while (lines[end]?.kind === "added") end++;
    for (let place = 0; place < Math.min(middle - start, end - middle); place++) {
      partners[start + place] = lines[middle + place]?.text ?? null;
      partners[middle + place] = lines[start + place]?.text ?? null;
    }
    start = end - 1;
  }
  return partners;
}
