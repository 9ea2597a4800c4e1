/** Numbers as people type them in forms: 4k, 2T, 400Gbps, 45min, 65,536, 1e3. The rule of the command line (docs/cli.md). */
import type { TFunction } from "../i18n";

type Kind = "size" | "length" | "count" | "bytes_per_s" | "seconds" | "number";

/** A field that takes a number. */
export interface Written {
  /** Its name in the job, which says the units it takes. */
  name: string;
  whole?: boolean;
  /** What a number without a unit is in, in SI: 1e9 where the label says GB/s. */
  scale?: number;
}

/** The fields of a form that take a number. */
export type Numbers<Field extends string> = Partial<Record<Field, Written>>;

const NUMBER = /^(\d{1,3}(?:,\d{3})+(?:\.\d*)?|[\d_]*\.?\d+|\d[\d_]*\.?)((?:[eE][+-]?\d{1,3})?) ?([A-Za-z/]{0,9})$/;
const MAX_CHARACTERS = 40;

type Units = Readonly<Record<string, number>>;

const SIZES: Units = { Ki: 2 ** 10, Mi: 2 ** 20 };
const PREFIXES = [["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12]] as const;
const BINARY = [["Ki", 2 ** 10], ["Mi", 2 ** 20], ["Gi", 2 ** 30], ["Ti", 2 ** 40]] as const;
const perSecond = (name: string, size: number) => [[`${name}/s`, size], [`${name}ps`, size]] as const;

const UNITS: Readonly<Record<Kind, Units>> = {
  // Batches and devices come in powers of two as well as of ten: 4k would be a guess.
  size: SIZES,
  length: { ...SIZES, k: 2 ** 10, M: 2 ** 20 },
  count: { ...SIZES, k: 1e3, M: 1e6, G: 1e9, B: 1e9, T: 1e12 },
  bytes_per_s: {
    "B/s": 1,
    ...Object.fromEntries([...PREFIXES, ...BINARY].flatMap(([prefix, size]) => perSecond(`${prefix === "k" ? "K" : prefix}B`, size))),
    ...Object.fromEntries(PREFIXES.flatMap(([prefix, size]) => ["bps", "b/s", "bit/s"].map((name) => [`${prefix}${name}`, size / 8]))),
  },
  seconds: { s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9, sec: 1, min: 60, h: 3600, d: 86_400, days: 86_400 },
  number: {},
};

const KINDS: Readonly<Record<string, Kind>> = {
  seq_length: "length",
  prompt_tokens: "length",
  response_tokens: "length",
  train_tokens: "count",
  num_devices: "size",
  devices: "size",
  global_batch_size: "size",
  budget_usd: "count",
  max_trials: "count",
};
const ENDINGS = [["_bytes_per_s", "bytes_per_s"], ["_s", "seconds"], ["_tokens", "count"]] as const;

const kindOf = (name: string): Kind => KINDS[name] ?? ENDINGS.find(([ending]) => name.endsWith(ending))?.[1] ?? "number";

/** Letters count in any case, unless two units differ by case alone (Gb/s and GB/s). */
function sizeOf(unit: string, units: Units): number | null {
  const exact = units[unit];
  if (exact !== undefined) return exact;
  const alike = new Set(Object.keys(units).filter((name) => name.toLowerCase() === unit.toLowerCase()).map((name) => units[name]));
  const [size] = alike;
  return alike.size === 1 ? (size ?? null) : null;
}

/** The number in SI units that a text says of a field; null where it says none, or no whole one where one is needed. */
export function readNumber(text: string, { name, whole, scale = 1 }: Written): number | null {
  const typed = text.trim();
  const [, digits, exponent = "", unit] = (typed.length <= MAX_CHARACTERS && NUMBER.exec(typed)) || [];
  if (digits === undefined) return null;
  const size = unit ? sizeOf(unit, UNITS[kindOf(name)]) : scale;
  if (size === null) return null;
  const value = Number(digits.replace(/[,_]/g, "") + exponent) * size;
  return Number.isFinite(value) && (!whole || Number.isInteger(value)) ? value : null;
}

/** The number, or where the text says none the text itself, which the server refuses with a sentence. */
export const numberOrText = (text: string, written: Written): number | string => readNumber(text, written) ?? text.trim();

/** What is wrong with a text that was typed; undefined where it can be read, or nothing was typed. */
export function unreadText(t: TFunction, text: string, written: Written): string | undefined {
  if (text.trim() === "" || readNumber(text, written) !== null) return undefined;
  const kind = kindOf(written.name);
  return t("common:notRead", { text: text.trim(), form: t(`common:numberForm.${kind === "number" && written.whole ? "whole" : kind}`) });
}
