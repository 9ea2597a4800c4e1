import { expect, test } from "vitest";

import { type Strategy, strategyParts, strategyText } from "./strategy";

const strategy = (fields: Partial<Strategy>): Strategy => fields as Strategy;

test("a strategy has the server's name", () => {
  expect(strategyText(strategy({ name: "TP2 DP8 MBS1 no SP", tp: 4 }))).toBe("TP2 DP8 MBS1 no SP");
});

test.each([
  ["PP4 VPP2 DP4 MBS12 groups of 8", "PP4 VPP2 DP4 MBS12", "groups of 8"],
  ["DP8 MBS1", "DP8 MBS1", ""],
])("the name %s is cut behind the micro batch", (name, degrees, options) => {
  expect(strategyParts(strategy({ name }))).toEqual({ degrees, options });
});

test("an answer of an earlier version has no names, and shows degrees", () => {
  const earlier = strategy({ tp: 2, pp: 4, cp: 1, ep: 1, dp: 8, micro_batch_size: 1 });
  expect(strategyText(earlier)).toBe("TP2 PP4 CP1 EP1 DP8 MBS1");
});
