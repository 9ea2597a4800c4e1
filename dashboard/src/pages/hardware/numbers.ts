/** The numbers of a profile as its sources state them, in the parts that a reader looks for. */
import type { Schemas } from "../../api/client";
import { tierName } from "../../components/tiers";

export type Stated = Schemas["Stated"];
export type Part = "device" | "memory" | "cost" | "network";

export interface StatedNumber extends Stated {
  /** The field in the profile's file, such as `tiers.0.latency_s`. */
  path: string;
  /** Names the field in the catalogue of strings. */
  field: string;
  /** The precision or network tier that it is about. */
  of: string;
  part: Part;
}

const MEMORY = ["hbm_bytes", "usable_hbm_bytes", "hbm_bytes_per_s", "host_link_bytes_per_s", "context_bytes", "communicator_bytes"];
const COST = ["power_w", "price_usd"];

/** Points of measured curves are left out: they are drawn. */
export function numbersOf(provenance: Readonly<Record<string, Stated>>, tiers: readonly { name: string }[]): StatedNumber[] {
  return Object.entries(provenance)
    .filter(([path]) => !path.includes(".curves."))
    .map(([path, stated]) => {
      const [first = "", second = "", third] = path.split(".");
      if (first === "tiers") return { ...stated, path, field: third ?? "", of: tierName(tiers[Number(second)]?.name ?? second), part: "network" };
      const part = MEMORY.includes(first) ? "memory" : COST.includes(first) ? "cost" : "device";
      return { ...stated, path, field: first, of: second.toUpperCase(), part };
    });
}

/** Points of one curve: what each rank of the group moves a second, by message size. */
export function ratesOf({ message_bytes, time_s }: { message_bytes: readonly number[]; time_s: readonly number[] }): [number, number][] {
  return message_bytes.map((size, index) => [size, size / (time_s[index] ?? Infinity)]);
}
