import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { ago, bytes, bytesPerSecond, compact, duration, factor, flopsPerSecond, number, percent, points, seconds, secondsRange, signedPercent, tokensPerSecond } from "./format";

describe("quantities carry their unit and as many digits as they deserve", () => {
  it.each([
    [seconds(16.7390870238393), "16.74 s"],
    [seconds(0.41234), "412.3 ms"],
    [seconds(3.1e-6), "3.100 µs"],
    [seconds(0), "0 s"],
    [seconds(null), "–"],
    [seconds(Number.NaN), "–"],
    [secondsRange(14.419, 23.341), "14.4 – 23.3 s"],
    [secondsRange(0.00095, 0.0012), "0.95 – 1.20 ms"],
    [secondsRange(null, 3), "–"],
    [bytes(60_924_928_381), "56.7 GiB"],
    [bytes(2 ** 20), "1.00 MiB"],
    [bytes(0), "0.00 GiB"],
    [bytes(-3 * 2 ** 30), "-3.00 GiB"],
    [bytesPerSecond(1.6e12), "1.60 TB/s"],
    [bytesPerSecond(25e9), "25.0 GB/s"],
    [flopsPerSecond(313e12), "313 TFLOP/s"],
    [flopsPerSecond(432.5e12), "432.5 TFLOP/s"],
    [tokensPerSecond(250_569.46), "251K tokens/s"],
    [tokensPerSecond(1_460_000), "1.46M tokens/s"],
    [percent(0.569066), "56.9 %"],
    [factor(1.2871), "1.29×"],
    [factor(null), "–"],
    [signedPercent(0.0321), "+3.2 %"],
    [signedPercent(-0.001), "−0.1 %"],
    [signedPercent(0), "0.0 %"],
    [points(0.041), "+4.1"],
    [points(-0.0012), "−0.1"],
    [duration(42), "42 s"],
    [duration(190), "3.2 min"],
    [duration(20_000), "5.6 h"],
    [duration(1_036_800), "12 d"],
    [compact(718e9), "718B"],
    [compact(6144), "6,144"],
    [number(6144), "6,144"],
    [number(0.56789), "0.568"],
    [ago(1000, 1180), "3 min. ago"],
  ])("%s", (text, expected) => expect(text).toBe(expected));
});

describe("Chinese", () => {
  beforeAll(() => vi.stubGlobal("document", { documentElement: { lang: "zh-CN" } }));
  afterAll(() => vi.unstubAllGlobals());

  it("sets a percentage without a blank, and days and moments in words", () => {
    expect([percent(0.569066), signedPercent(0.0321)]).toEqual(["56.9%", "+3.2%"]);
    expect([duration(190), duration(1_036_800)]).toEqual(["3.2 min", "12 天"]);
    expect([compact(718e9), compact(1_460_000), compact(2e12), compact(6144)]).toEqual(["7,180 亿", "146 万", "2 万亿", "6,144"]);
    expect(ago(1000, 1180)).toBe("3\u00a0分钟前");
  });
});
