import { expect, it, vi } from "vitest";

import { translator } from "./i18n";

const EN = { page: { inner: { plain: "Plans" }, found_one: "{{count}} plan", found_other: "{{count, number}} plans", of: "{{a}} of {{b}}" }, common: { close: "Close" } };
const ZH = { page: { found_other: "{{count, number}} 个方案" } };
const t = translator("en", EN, "page");

it("a string is found by its path, on its page or on another", () => {
  expect(t("inner.plain")).toBe("Plans");
  expect(t("common:close")).toBe("Close");
});

it("values are filled in", () => expect(t("of", { a: 1, b: "<2>" })).toBe("1 of <2>"));

it("a count chooses the form and is grouped", () => {
  expect([1, 2, 10_000].map((count) => t("found", { count }))).toEqual(["1 plan", "2 plans", "10,000 plans"]);
  expect(translator("zh", ZH, "page")("found", { count: 1 })).toBe("1\u00a0个方案");
});

it("what is missing is told, unless something stands in", () => {
  const told = vi.spyOn(console, "error").mockImplementation(() => undefined);
  expect(t("inner.none", { defaultValue: "as it is" })).toBe("as it is");
  expect(t("constructor.name", { defaultValue: "" })).toBe("");
  expect(told).not.toHaveBeenCalled();
  expect(t("inner.none")).toBe("inner.none");
  expect(told).toHaveBeenCalledWith("no string page:inner.none in en");
});

it("Chinese has a blank beside letters and digits, wherever a value brings them together", () => {
  const zh = translator("zh", { page: { by: "按{{by}}通信域", of: "{{plan}}柱状图", share: "{{share}}的把握", plain: "在{{scope}}中", took: "耗时 {{time}}，第 {{count}} 个" } }, "page");
  expect([zh("by", { by: "TP" }), zh("of", { plan: "PP2" }), zh("share", { share: "97.0%" })]).toEqual(["按 TP 通信域", "PP2 柱状图", "97.0% 的把握"]);
  expect(zh("took", { time: "12 s", count: 3 })).toBe("耗时 12\u00a0s，第 3\u00a0个");
  expect(zh("plain", { scope: "全部策略" })).toBe("在全部策略中");
});
