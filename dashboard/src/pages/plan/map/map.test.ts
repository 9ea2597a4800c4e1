import { describe, expect, it } from "vitest";

import { palettes } from "../../../theme/palette";
import { positionColors } from "../positions";
import { cellBoxes, frames, mapSvg } from "./draw";
import { deviceLines, membersOf, peersByTier, positionsAmong, ranksText, type Placed } from "./groups";
import { arrangeMap, cellAfter, cellUnder } from "./layout";

// 64 ranks: tp 4 inside dp 4 inside pp 4.
const TP: Placed = { group: "tp", size: 4, stride: 1 };
const DP: Placed = { group: "dp", size: 4, stride: 4 };
const PP: Placed = { group: "pp", size: 4, stride: 16 };
const TIERS = [
  { name: "hccs", wiring: "mesh" as const, domain_devices: 8 },
  { name: "roce", wiring: "fabric" as const, domain_devices: null },
];

describe("groups", () => {
  it("have the ranks that Megatron's order gives them", () => {
    expect(membersOf(TP, 22)).toEqual([20, 21, 22, 23]);
    expect(membersOf(DP, 22)).toEqual([18, 22, 26, 30]);
    expect(membersOf(PP, 22)).toEqual([6, 22, 38, 54]);
  });

  it("share a node with some and the network between nodes with others", () => {
    expect(peersByTier(TIERS, 22, membersOf(TP, 22))).toEqual([{ tier: "hccs", peers: 3 }]);
    expect(peersByTier(TIERS, 22, membersOf(DP, 22))).toEqual([{ tier: "hccs", peers: 1 }, { tier: "roce", peers: 2 }]);
  });

  it("are told in a few words", () => {
    expect(ranksText([8, 9, 10, 11], String)).toBe("8–11");
    expect(ranksText([6, 22, 38, 54], String)).toBe("6, 22, 38, 54");
    expect(ranksText(membersOf({ group: "dp", size: 64, stride: 8 }, 3), String)).toBe("3, 11, 19, 27, …, 507");
  });

  it("are a line for each device in a file", () => {
    const lines = deviceLines([TP, DP, PP], 64, 8);
    expect(lines).toHaveLength(65);
    expect(lines[0]).toEqual(["rank", "node", "device_in_node", "tp_position", "dp_position", "pp_position"]);
    expect(lines[23]).toEqual([22, 2, 6, 2, 1, 1]);
  });

  it("put a few positions into a node", () => {
    expect(positionsAmong(DP, 8, 8, 8)).toEqual([2, 3]);
    expect(positionsAmong(TP, 8, 8, 8)).toEqual([0, 1, 2, 3]);
    expect(positionsAmong(TP, 8, 8, 3)).toBeNull();
  });
});

describe("the map", () => {
  it("has a cell for each device, a node's beside each other", () => {
    const map = arrangeMap(64, 8, [8, null], 1000);
    expect([map.cells, map.perCell, map.perBlock]).toEqual([64, 1, 8]);
    expect(new Set([...map.y].slice(0, 8)).size).toBe(1);
    for (let cell = 0; cell < 64; cell++) expect(cellUnder(map, (map.x[cell] ?? 0) + 3, (map.y[cell] ?? 0) + 3)).toBe(cell);
  });

  it.each([
    [8, 1000, 1],
    [6144, 1000, 1],
    [6144, 330, 8],
    [100_000, 1000, 8],
    [1_000_000, 330, 384],
  ])("holds %i devices in %i pixels with %i in a cell", (devices, width, perCell) => {
    const map = arrangeMap(devices, 8, [8, 384, null], width);
    expect(map.perCell).toBe(perCell);
    expect(map.cells).toBe(Math.ceil(devices / perCell));
    expect(map.height).toBeLessThanOrEqual(640);
    expect(Math.max(...map.x) + map.size).toBeLessThanOrEqual(width);
  });

  it.each([[100_000, 8], [12_345, 8], [7, 16], [1, 8], [5_000_000, 72]])("has a place for %i devices without domains", (devices, perNode) => {
    const map = arrangeMap(devices, perNode, [null], 640);
    expect(map.cells).toBe(Math.ceil(devices / map.perCell));
    expect(new Set([...map.x].map((x, cell) => `${x} ${map.y[cell]}`)).size).toBe(map.cells);
  });

  it("is walked with the keys", () => {
    const map = arrangeMap(64, 8, [8, null], 8 * 24 + 4);
    expect(["ArrowRight", "ArrowDown", "PageDown", "End", "Home", "ArrowUp"].map((key) => cellAfter(map, 9, key))).toEqual([10, 17, 17, 63, 0, 1]);
    expect(cellAfter(map, 63, "ArrowRight")).toBe(63);
    expect(cellAfter(map, 0, "a")).toBeNull();
  });

  it("gives each position a colour of its own, and a node with several a stripe of each", () => {
    for (const size of [2, 8, 9, 64]) expect(new Set(positionColors(palettes.light, size)).size).toBe(size);
    const devices = arrangeMap(64, 8, [8, null], 1000);
    const fills = cellBoxes(devices, PP, 64, palettes.light).map(({ fill }) => fill);
    expect(new Set(fills.slice(0, 16)).size).toBe(1);
    expect(new Set(fills).size).toBe(4);
    const nodes = { ...devices, perCell: 8, cells: 8 };
    expect(cellBoxes(nodes, DP, 64, palettes.light)).toHaveLength(16);
    expect(cellBoxes(nodes, PP, 64, palettes.light)).toHaveLength(8);
  });

  it("is a drawing with faded cells around the marked ones", () => {
    const map = arrangeMap(64, 8, [8, null], 1000);
    const cells = cellBoxes(map, PP, 64, palettes.light);
    const text = mapSvg(map, 1000, cells, frames(map, membersOf(DP, 0), "#112233"), palettes.light);
    expect(text.match(/stroke="#112233"/g)).toHaveLength(4);
    expect(text.match(/fill-opacity/g)).toHaveLength(60);
  });
});
