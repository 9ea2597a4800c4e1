import { describe, expect, it } from "vitest";

import type { Estimate } from "../../api/queries";
import { compared, largest } from "./compared";

const estimate = (parts: Record<string, number>, bytes = 0) =>
  ({
    step_time_s: Object.values(parts).reduce((a, b) => a + b, 0),
    peak_memory_bytes: bytes,
    time_breakdown_s: parts,
  }) as unknown as Estimate;

describe("one step against another", () => {
  it("names the parts that make the difference, and no more", () => {
    const found = compared(estimate({ matmul: 5, ep_comm: 4, host: 1, dp_comm: 2.01 }, 7), estimate({ matmul: 6, ep_comm: 1, host: 1, dp_comm: 2 }, 9));
    expect(found.fraction).toBeCloseTo(2.01 / 10);
    expect(found.loses).toEqual([{ part: "ep_comm", seconds: 3 }]);
    expect(found.saves).toEqual([{ part: "matmul", seconds: -1 }]);
    expect(found.memoryBytes).toBe(-2);
  });

  it("knows parts that only one of them has", () => {
    const found = compared(estimate({ matmul: 5 }), estimate({ matmul: 5, swap: 1 }));
    expect(found).toMatchObject({ loses: [], saves: [{ part: "swap", seconds: -1 }] });
  });

  it("lists a breakdown without its zeros", () => {
    expect(largest({ a: 1, b: 0, c: 3 })).toEqual([{ part: "c", value: 3 }, { part: "a", value: 1 }]);
  });
});
