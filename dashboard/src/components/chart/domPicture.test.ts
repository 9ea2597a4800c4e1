import { expect, it } from "vitest";

import { plainColor } from "./domPicture";

it("writes the colours of a browser as any program reads them", () => {
  expect(plainColor("rgb(36, 86, 214)")).toBe("rgba(36, 86, 214, 1)");
  expect(plainColor("rgba(0, 0, 0, 0)")).toBeNull();
  expect(plainColor("color(srgb 0.5 0.25 1 / 0.05)")).toBe("rgba(128, 64, 255, 0.05)");
  expect(plainColor("color(srgb 0 0 0)")).toBe("rgba(0, 0, 0, 1)");
});
