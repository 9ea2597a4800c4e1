import { expect, it } from "vitest";

import { levels, type Tier } from "./tiers";

const tier = (name: string, domain_devices: number | null): Tier => ({ name, domain_devices, bandwidth_bytes_per_s: 1, latency_s: 1 });
const A2 = [tier("hccs", 8), tier("roce", null)];
const A3 = [tier("sio", 2), tier("hccs", 16), tier("ub", 768), tier("roce", null)];

it.each([
  [A2, 64, [[8, 8, true], [64, 8, true]]],
  [A2, 8, [[8, 8, true], [8, 1, false]]],
  [A2, 3, [[3, 3, true], [8, 1, false]]],
  [A2, 20, [[8, 8, true], [20, 3, true]]],
  [A3, 1024, [[2, 2, true], [16, 8, true], [768, 48, true], [1024, 2, true]]],
])("devices and members of each tier", (tiers, numDevices, expected) => {
  expect(levels(tiers, numDevices).map(({ devices, members, isUsed }) => [devices, members, isUsed])).toEqual(expected);
});
