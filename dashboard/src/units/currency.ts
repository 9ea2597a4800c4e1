/** Money in the currency of the reader, at the rate that the reader gives: a server without a network knows none. */
import { languageTag, shownAnew } from "../i18n";
import { compact } from "./format";

export interface Currency {
  readonly code: string;
  readonly perUsd: number;
}

const USD: Currency = { code: "USD", perUsd: 1 };
const STORED = "meshplan-currency";
export const CODES = ["USD", "CNY", "EUR", "GBP", "INR", "JPY", "KRW", "SGD"] as const;
const CHINESE: Readonly<Record<string, string>> = { USD: "美元", CNY: "元" };

function kept(): Currency {
  const [code = "", rate] = (localStorage.getItem(STORED) ?? "").split(" ");
  const perUsd = Number(rate);
  return (CODES as readonly string[]).includes(code) && Number.isFinite(perUsd) && perUsd > 0 ? { code, perUsd } : USD;
}

let current: Currency | null = null;

export const currency = (): Currency => (current ??= kept());

export function setCurrency(chosen: Currency): void {
  current = chosen.code === USD.code ? USD : chosen;
  localStorage.setItem(STORED, `${current.code} ${current.perUsd}`);
  shownAnew();
}

/** The currency that amounts may be typed in beside USD. */
export const otherCode = (): string => (currency().code === USD.code ? "CNY" : currency().code);

/** The currency as it stands behind an amount and on an axis. */
export const moneyUnit = (): string => (languageTag().startsWith("zh") && CHINESE[currency().code]) || currency().code;

/** An amount without its currency, as it stands on an axis that names it. */
export const amount = (usd: number, digits = 3): string => compact(usd * currency().perUsd, digits);

/** 314K USD, 2.23M CNY; in Chinese 223 万元. */
export function money(usd: number | null | undefined): string {
  if (usd == null) return "–";
  const unit = moneyUnit();
  const shown = amount(usd);
  return `${shown}${/^[A-Z]/.test(unit) || /\d$/.test(shown) ? " " : ""}${unit}`;
}

/** Dollars of an amount that the reader typed: "1.5", "12 CNY", "12元". Text of another form or currency stays as it is. */
export function usdOf(text: string): number | string {
  const found = /^([\d.,]+(?:[eE][+-]?\d+)?)\s*([A-Za-z]{3}|元|美元)?$/.exec(text.trim());
  const amount = Number((found?.[1] ?? "").replaceAll(",", ""));
  const written = found?.[2] ?? USD.code;
  const code = Object.keys(CHINESE).find((each) => CHINESE[each] === written) ?? written.toUpperCase();
  if (!found || !Number.isFinite(amount)) return text.trim();
  if (code === USD.code) return amount;
  return code === currency().code ? amount / currency().perUsd : text.trim();
}
