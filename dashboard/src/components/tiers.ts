import type { Cell } from "./csv";

const NAMES: Record<string, string> = {
  hccs: "HCCS", "hccs-ring": "HCCS ring", roce: "RoCE", sio: "SIO", ub: "UB", "ub-rack": "UB rack", "ub-superpod": "UB SuperPoD", uboe: "UBoE",
  pcie: "PCIe", nvlink: "NVLink", infiniband: "InfiniBand", ethernet: "Ethernet", xgmi: "xGMI", rdma: "RDMA",
};

/** A network tier as its vendor writes it. */
export function tierName(name: string): string {
  return NAMES[name] ?? name;
}

export interface Tier {
  name: string;
  domain_devices: number | null;
  bandwidth_bytes_per_s: number;
  latency_s: number;
}

/** The network as the data file of its drawing has it, in SI units. */
export const tierLines = (tiers: readonly Tier[]): Cell[][] => [
  ["tier", "domain_devices", "bandwidth_bytes_per_s", "latency_s"],
  ...tiers.map((tier) => [tier.name, tier.domain_devices, tier.bandwidth_bytes_per_s, tier.latency_s]),
];

export interface Level<Of = Tier> {
  tier: Of;
  /** Devices that the tier joins, at most those there are. */
  devices: number;
  /** Domains of the tier below, or devices, that one domain of this tier joins. */
  members: number;
  isUsed: boolean;
}

/** The tiers from the inside out, as far as `numDevices` fill them. The outermost one has no bound. */
export function levels<Of extends Pick<Tier, "domain_devices">>(tiers: readonly Of[], numDevices: number): Level<Of>[] {
  let inner = 1;
  return tiers.map((tier) => {
    const isUsed = numDevices > inner;
    const devices = Math.max(inner, Math.min(tier.domain_devices ?? numDevices, numDevices));
    const level = { tier, devices, members: Math.ceil(devices / inner), isUsed };
    inner = tier.domain_devices ?? devices;
    return level;
  });
}
