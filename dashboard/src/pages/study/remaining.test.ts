import { expect, it } from "vitest";

import { remaining } from "./remaining";

/** Seconds, and the fraction of layouts done, of searches as they ran on two cores; the end is that of their explanation. */
const RECORDED: readonly { endS: number; reports: readonly (readonly [number, number])[] }[] = [
  // pangu-ultra-moe-718b on 6,144 atlas-800t-a2
  {
    endS: 42,
    reports: [
      [6.6, 0.02], [8.8, 0.03], [11, 0.051], [13.9, 0.101], [15.4, 0.141], [16.6, 0.172], [18, 0.232], [19.5, 0.313],
      [20.9, 0.374], [22.3, 0.475], [23.6, 0.515], [24.6, 0.566], [26.6, 0.697], [27.8, 0.99], [28.9, 0.99],
      [30.2, 0.99], [31.5, 0.99], [33.1, 0.99], [34.9, 0.99], [35.2, 0.99],
    ],
  },
  // deepseek-v3 on 2,048 h100-sxm-80gb
  {
    endS: 19.4,
    reports: [
      [1.9, 0.247], [2.2, 0.495], [2.8, 0.504], [3.6, 0.514], [4.2, 0.523], [4.7, 0.532], [5.5, 0.551], [6.1, 0.57],
      [6.8, 0.598], [7.7, 0.616], [8.1, 0.626], [8.7, 0.635], [9.6, 0.663], [10.2, 0.7], [10.6, 0.71], [11.3, 0.728],
      [12.2, 0.757], [12.7, 0.775], [13.5, 0.99], [13.9, 0.99],
    ],
  },
  // llama-2-70b on 256 atlas-800t-a2
  {
    endS: 6.7,
    reports: [
      [0.2, 0.006], [0.4, 0.018], [0.6, 0.035], [0.8, 0.047], [1.1, 0.077], [1.3, 0.088], [1.5, 0.106], [1.7, 0.124],
      [2, 0.165], [2.2, 0.23], [2.4, 0.247], [2.6, 0.259], [2.9, 0.271], [3.1, 0.289], [3.3, 0.495], [3.8, 0.495],
      [4, 0.542], [4.2, 0.595], [4.4, 0.625], [4.7, 0.725], [4.9, 0.76], [5.1, 0.99],
    ],
  },
  // qwen3-30b-a3b on 128 atlas-900-a3-superpod
  {
    endS: 11.3,
    reports: [
      [0.4, 0.007], [0.7, 0.014], [1.1, 0.028], [1.5, 0.056], [1.9, 0.167], [2.2, 0.188], [2.6, 0.209], [3, 0.244],
      [3.4, 0.495], [3.5, 0.509], [4, 0.523], [4.4, 0.544], [4.9, 0.662], [5.3, 0.683], [5.5, 0.69], [5.8, 0.697],
      [6.3, 0.711], [6.6, 0.725], [7.2, 0.76], [7.4, 0.99], [7.7, 0.99],
    ],
  },
];

const history = (reports: readonly (readonly [number, number])[]) => reports.map(([elapsed_s, done_fraction]) => ({ elapsed_s, done_fraction }));

it("holds the true end in nine of ten forecasts of recorded searches, and forecasts for half of the time", () => {
  let [forecast, held, moments] = [0, 0, 0];
  for (const { endS, reports } of RECORDED)
    for (let at = 1; at <= reports.length; at += 1) {
      moments += 1;
      const range = remaining(history(reports.slice(0, at)));
      const left = endS - (reports[at - 1]?.[0] ?? 0);
      if (!range) continue;
      forecast += 1;
      if (range.low <= left && left <= range.high) held += 1;
    }
  expect(held / forecast).toBeGreaterThanOrEqual(0.9);
  expect(forecast / moments).toBeGreaterThan(0.4);
});

const EVEN = [[1, 0.1], [2, 0.2], [3, 0.3], [4, 0.4]] as const;

it("forecasts an even pace within its margin", () => {
  // 10 s in all, between half and twice of it: 5 - 4 and 20 - 4.
  const range = remaining(history(EVEN));
  expect(range?.low).toBeCloseTo(1);
  expect(range?.high).toBeCloseTo(16);
});

it("widens the range by how wrong forecasts of the past were", () => {
  // From (1, 0.1), (2, 0.2) and (3, 0.3), 0.4 was due at 4 s; it came at 6 s: half as much again.
  const range = remaining(history([...EVEN.slice(0, 3), [6, 0.4]]));
  expect(range?.low).toBeCloseTo(7.5 - 6); // of 15 s
  expect(range?.high).toBeCloseTo(45 - 6);
});

it("says nothing at the beginning, at the end, while plans are explained and of an uneven pace", () => {
  expect(remaining([])).toBeNull();
  expect(remaining(history(EVEN.slice(0, 2)))).toBeNull();
  expect(remaining(history([[3, 0.3], [5, 0.5], [6, 0.6], [9.5, 0.95]]))).toBeNull();
  expect(remaining(history(EVEN).map((report) => ({ ...report, phase: "explain" })))).toBeNull();
  expect(remaining(history([...EVEN.slice(0, 3), [20, 0.4]]))).toBeNull();
});

it("ends with the time limit", () => {
  expect(remaining(history(EVEN), 6)).toEqual({ low: expect.closeTo(1) as number, high: 2 });
});
