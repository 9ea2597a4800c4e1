import { expect, it } from "vitest";

import { untilLoaded } from "./lazyPart";

it("asks again, less and less often, until the part comes", async () => {
  const waits: number[] = [];
  let asked = 0;
  const load = () => (++asked < 7 ? Promise.reject(new TypeError("Failed to fetch dynamically imported module")) : Promise.resolve("the part"));
  await expect(untilLoaded(load, (ms) => (waits.push(ms), Promise.resolve()))).resolves.toBe("the part");
  expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 8000]);
});
