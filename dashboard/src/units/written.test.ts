import { describe, expect, it } from "vitest";

import { readNumber, unreadText, type Written } from "./written";

const DEVICES: Written = { name: "num_devices", whole: true };
const LENGTH: Written = { name: "seq_length", whole: true };
const TOKENS: Written = { name: "train_tokens" };
const SPEED: Written = { name: "inter_node_bytes_per_s", scale: 1e9 };
const LIMIT: Written = { name: "time_limit_s" };
const REPAIR: Written = { name: "repair_s", scale: 86_400 };
const DEGREE: Written = { name: "tp", whole: true };

describe("numbers are read as the command line reads them", () => {
  // The table "Numbers are read as people write them" of docs/cli.md.
  it.each([
    [LENGTH, "4096", 4096],
    [LENGTH, "4,096", 4096],
    [LENGTH, "4k", 4096],
    [LENGTH, "4K", 4096],
    [DEVICES, "1024", 1024],
    [DEVICES, "1,024", 1024],
    [DEVICES, "1Ki", 1024],
    [DEVICES, "1e3", 1000],
    [DEVICES, "1k", null],
    [TOKENS, "2T", 2e12],
    [TOKENS, "36.00 T", 36e12],
    [TOKENS, "500B", 500e9],
    [TOKENS, "100k", 100_000],
    [TOKENS, "1e12", 1e12],
    [SPEED, "50GB/s", 50e9],
    [SPEED, "400Gbps", 50e9],
    [SPEED, "400 Gbit/s", 50e9],
    [SPEED, "400gb/s", null],
    [SPEED, "12.5", 12.5e9],
    [LIMIT, "90s", 90],
    [LIMIT, "45min", 2700],
    [LIMIT, "3.1h", 11_160],
    [LIMIT, "2d", 172_800],
    [LIMIT, "90", 90],
    [REPAIR, "3", 259_200],
    [REPAIR, "12h", 43_200],
    [DEGREE, "8", 8],
    [DEGREE, "8k", null],
    [DEGREE, "1.5", null],
  ])("%o %s", (written, text, value) => expect(readNumber(text, written)).toBe(value));

  it.each(["16x16", "-3", "4 4", "1,02", "0x10", "many", "∞", "１６", "1e", " "])("%s is no number", (text) => {
    for (const written of [DEVICES, LENGTH, TOKENS, SPEED, LIMIT, DEGREE]) expect(readNumber(text, written)).toBeNull();
  });

  it("says what cannot be read, and in which form it can", () => {
    const told = (key: string, values: object = {}) => `${key} ${JSON.stringify(values)}`;
    expect(unreadText(told, " 16x16 ", DEVICES)).toBe(told("common:notRead", { text: "16x16", form: told("common:numberForm.size") }));
    expect(unreadText(told, "x", DEGREE)).toContain("common:numberForm.whole");
    expect([unreadText(told, "16", DEVICES), unreadText(told, "", DEVICES)]).toEqual([undefined, undefined]);
  });
});
