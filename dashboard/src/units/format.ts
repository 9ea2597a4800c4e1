/** Numbers as people read them: three or four significant digits, always with their unit. SI in, never converted elsewhere. */

import { spaced } from "../i18n";

const GIB = 2 ** 30;
const NOTHING = "–";

type Value = number | null | undefined;

function locale(): string {
  return globalThis.document?.documentElement.lang || "en";
}

const isChinese = (): boolean => locale().startsWith("zh");

const formats = new Map<string, Intl.NumberFormat>();

/** Made once: a formatter costs a hundred times what it does. */
function numberFormat(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = `${locale()} ${JSON.stringify(options)}`;
  const known = formats.get(key) ?? new Intl.NumberFormat(locale(), options);
  formats.set(key, known);
  return known;
}

/** `digits` significant digits, grouped. */
export function number(value: Value, digits = 3): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const whole = Math.abs(value) >= 10 ** (digits - 1);
  const options: Intl.NumberFormatOptions = whole ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return numberFormat(options).format(value);
}

export function count(value: Value): string {
  return value == null ? NOTHING : numberFormat({ maximumFractionDigits: 0 }).format(value);
}

function scaled(value: number, steps: readonly (readonly [number, string])[], digits: number): string {
  const step = steps.find(([size]) => Math.abs(value) >= size) ?? steps[steps.length - 1];
  const [size, unit] = step ?? [1, ""];
  return `${fixed(value / size, digits)} ${unit}`;
}

/** As many decimals as make `digits` significant ones, zeros kept: columns of numbers line up. */
function fixed(value: number, digits: number): string {
  const whole = Math.max(1, Math.floor(Math.log10(Math.abs(value) || 1)) + 1);
  const decimals = Math.min(6, Math.max(0, digits - whole));
  return numberFormat({ minimumFractionDigits: decimals, maximumFractionDigits: decimals }).format(value);
}

const TIMES = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
] as const;

/** 16.74 s, 412.0 ms, 3.100 µs. */
export function seconds(value: Value, digits = 4): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  return value === 0 ? "0 s" : scaled(value, TIMES, digits);
}

/** An interval, its unit once: 14.4 – 23.3 s. */
export function secondsRange(low: Value, high: Value, digits = 3): string {
  if (low == null || high == null) return NOTHING;
  const [size, unit] = TIMES.find(([step]) => Math.abs(high) >= step) ?? TIMES[3];
  return `${fixed(low / size, digits)} – ${fixed(high / size, digits)} ${unit}`;
}

/** A span of time on a human scale: 42 s, 3 min, 5 h, 12 d. */
export function duration(value: Value): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  if (value < 60) return `${number(value, 2)} s`;
  if (value < 3600) return `${number(value / 60, 2)} min`;
  if (value < 172_800) return `${number(value / 3600, 2)} h`;
  return `${number(value / 86_400, 3)} ${isChinese() ? "天" : "d"}`;
}

/** Device memory is in GiB everywhere, so that two numbers can be compared. */
export function bytes(value: Value, digits = 3): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  if (value !== 0 && Math.abs(value) < GIB / 100) return scaled(value, [[2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]], digits);
  return `${fixed(value / GIB, digits)} GiB`;
}

const RATES = [
  [1e12, "TB/s"],
  [1e9, "GB/s"],
  [1e6, "MB/s"],
  [1, "B/s"],
] as const;

/** Bandwidth of one device in one direction. */
export function bytesPerSecond(value: Value, digits = 3): string {
  return value == null || !Number.isFinite(value) ? NOTHING : scaled(value, RATES, digits);
}

const COMPUTE = [
  [1e15, "PFLOP/s"],
  [1e12, "TFLOP/s"],
  [1e9, "GFLOP/s"],
] as const;

/** As stated: 432.5 TFLOP/s has no three digits on which all agree. */
export function flopsPerSecond(value: Value, digits = 4): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const [size, unit] = COMPUTE.find(([step]) => Math.abs(value) >= step) ?? COMPUTE[2];
  return `${number(value / size, digits)} ${unit}`;
}

const POWER = [
  [1e6, "MW"],
  [1e3, "kW"],
  [1, "W"],
] as const;

export function watts(value: Value, digits = 3): string {
  return value == null || !Number.isFinite(value) ? NOTHING : scaled(value, POWER, digits);
}

export function tokensPerSecond(value: Value): string {
  return value == null || !Number.isFinite(value) ? NOTHING : `${compact(value)} tokens/s`;
}

const LARGE = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
  [1e4, "K"],
] as const;

const CHINESE = [
  [1e12, "万亿"],
  [1e8, "亿"],
  [1e4, "万"],
] as const;

/** 718B, 1.46M, 6,144; in Chinese 7,180 亿, 146 万. */
export function compact(value: Value, digits = 3): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  if (isChinese()) {
    const chinese = CHINESE.find(([size]) => Math.abs(value) >= size);
    return chinese ? `${number(value / chinese[0], digits)} ${chinese[1]}` : number(value, digits);
  }
  const step = LARGE.find(([size]) => Math.abs(value) >= (size === 1e4 ? 1e4 : size));
  if (!step) return number(value, digits);
  const [size, letter] = step[0] === 1e4 ? [1e3, "K"] : step;
  return `${number(value / size, digits)}${letter}`;
}

/** 0.5691 -> 56.9 %, which Chinese sets without the blank. */
export function percent(fraction: Value, decimals = 1): string {
  if (fraction == null || !Number.isFinite(fraction)) return NOTHING;
  const text = numberFormat({ minimumFractionDigits: decimals, maximumFractionDigits: decimals }).format(fraction * 100);
  return isChinese() ? `${text}%` : `${text} %`;
}

/** How many times as fast. */
export function factor(value: Value): string {
  return value == null ? NOTHING : `${number(value, 3)}×`;
}

/** With its sign: +3.2 %, −0.1 %. */
export function signedPercent(fraction: Value, decimals = 1): string {
  if (fraction == null || !Number.isFinite(fraction)) return NOTHING;
  const text = percent(Math.abs(fraction), decimals);
  return `${fraction > 0 ? "+" : fraction < 0 ? "−" : ""}${text}`;
}

/** A difference of two shares, in percentage points without their name: +4.1, −0.1. */
export function points(difference: number, decimals = 1): string {
  const text = numberFormat({ minimumFractionDigits: decimals, maximumFractionDigits: decimals }).format(Math.abs(difference) * 100);
  return `${difference > 0 ? "+" : "−"}${text}`;
}

/** A moment, seconds since 1970, in the reader's own time zone. */
export function moment(atS: Value): string {
  if (atS == null) return NOTHING;
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "medium" }).format(atS * 1000);
}

const AGES = [
  [1, "second", 60],
  [60, "minute", 3600],
  [3600, "hour", 86_400],
  [86_400, "day", Infinity],
] as const;

/** How long ago: "3 min. ago", "3 分钟前". */
export function ago(atS: Value, nowS = Date.now() / 1000): string {
  if (atS == null) return NOTHING;
  const text = new Intl.RelativeTimeFormat(locale(), { numeric: "auto", style: "short" });
  const passed = Math.max(0, nowS - atS);
  const [length, unit] = AGES.find(([, , below]) => passed < below) ?? AGES[3];
  const told = text.format(-Math.round(passed / length), unit);
  return isChinese() ? spaced(told) : told;
}
