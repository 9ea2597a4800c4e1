import { afterEach, beforeEach, expect, it, vi } from "vitest";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", { getItem: (name: string) => kept.get(name) ?? null, setItem: (name: string, text: string) => kept.set(name, text) });
  vi.resetModules();
});
afterEach(() => vi.unstubAllGlobals());

const loaded = () => import("./currency");

it("without a choice amounts are in USD", async () => {
  const { money, moneyUnit, usdOf } = await loaded();
  expect([money(314_000), money(null), moneyUnit()]).toEqual(["314K USD", "–", "USD"]);
  expect(["1.5", "1,500 usd", "2 美元"].map(usdOf)).toEqual([1.5, 1500, 2]);
  expect(["12 CNY", "12元", "cheap", "1.5.2"].map(usdOf)).toEqual(["12 CNY", "12元", "cheap", "1.5.2"]); // no rate: the server refuses
});

it("a chosen currency shows and reads amounts at its rate", async () => {
  const { money, setCurrency, usdOf } = await loaded();
  setCurrency({ code: "CNY", perUsd: 8 });
  expect(money(314_000)).toBe("2.51M CNY");
  expect(["12 CNY", "12元", "¥12", "1.5"].map(usdOf)).toEqual([1.5, 1.5, "¥12", 1.5]) /* of yen or yuan */;
  expect(usdOf("12 EUR")).toBe("12 EUR");
});

it("the choice is kept, and one that makes no sense is not", async () => {
  (await loaded()).setCurrency({ code: "EUR", perUsd: 0.9 });
  vi.resetModules();
  expect((await loaded()).currency()).toEqual({ code: "EUR", perUsd: 0.9 });
  localStorage.setItem("meshplan-currency", "EUR -1");
  vi.resetModules();
  expect((await loaded()).currency().code).toBe("USD");
});
