import { beforeAll, expect, test, vi } from "vitest";

import { setLanguage } from "../i18n";
import names from "./strategyNames.json";
import { type Strategy, strategyText } from "./strategy";

beforeAll(async () => {
  vi.stubGlobal("localStorage", { setItem: () => undefined });
  vi.stubGlobal("document", { documentElement: {} });
  await setLanguage("en");
});

// A test of the server holds the file to the names that commands and reports print.
test.each(names)("a strategy has the server's name: $name", ({ strategy, name }) => {
  expect(strategyText(strategy as unknown as Strategy)).toBe(name);
});
