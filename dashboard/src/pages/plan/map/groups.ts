/** Which ranks belong together, and through which tier of the network. Ranks fill the cluster node by node. */
import type { Analysis } from "../data";

export type Placed = Analysis["placement"][number];
type Tier = Analysis["tiers"][number];

export const positionIn = ({ size, stride }: Placed, rank: number): number => Math.floor(rank / stride) % size;

/** The ranks of the rank's group, in order. */
export function membersOf(group: Placed, rank: number): number[] {
  const first = rank - positionIn(group, rank) * group.stride;
  return Array.from({ length: group.size }, (_, place) => first + place * group.stride);
}

/** The innermost tier that joins two devices: its place among `tiers`. */
export function sharedTier(tiers: readonly Tier[], rank: number, other: number): number {
  const place = tiers.findIndex(({ domain_devices: held }) => held === null || Math.floor(rank / held) === Math.floor(other / held));
  return place < 0 ? tiers.length - 1 : place;
}

/** How many of the other ranks the rank reaches through each tier, from the inside out; tiers that reach none are left out. */
export function peersByTier(tiers: readonly Tier[], rank: number, ranks: readonly number[]): { tier: string; peers: number }[] {
  const peers = tiers.map(() => 0);
  for (const other of ranks) {
    const place = sharedTier(tiers, rank, other);
    if (other !== rank) peers[place] = (peers[place] ?? 0) + 1;
  }
  return tiers.map(({ name }, place) => ({ tier: name, peers: peers[place] ?? 0 })).filter(({ peers: some }) => some > 0);
}

const LISTED = 6;

/** A few ranks as words: `8–15`, `0, 8, 16, …, 504`. */
export function ranksText(ranks: readonly number[], written: (rank: number) => string): string {
  const [first = 0, second] = ranks;
  const last = ranks.at(-1) ?? first;
  if (ranks.length > 2 && second === first + 1 && last - first === ranks.length - 1) return `${written(first)}–${written(last)}`;
  const some = ranks.length > LISTED ? ranks.slice(0, LISTED - 2).map(written).concat("…", written(last)) : ranks.map(written);
  return some.join(", ");
}

/** Different positions in the group among `count` ranks from `first` on, in order of the ranks; null where they are more than `most`. */
export function positionsAmong(group: Placed, first: number, count: number, most: number): number[] | null {
  const found = new Set<number>();
  // Ranks of one position are neighbours: from one position to the next it is a stride.
  for (let rank = first; rank < first + count; rank += group.stride - (rank % group.stride)) {
    found.add(positionIn(group, rank));
    if (found.size > most) return null;
  }
  return [...found];
}

/** A line for each device, a line of names first. */
export function deviceLines(placement: readonly Placed[], devices: number, perNode: number): (string | number)[][] {
  const ranks = Array.from({ length: devices }, (_, rank) => rank);
  const names = ["rank", "node", "device_in_node", ...placement.map(({ group }) => `${group}_position`)];
  return [names, ...ranks.map((rank) => [rank, Math.floor(rank / perNode), rank % perNode, ...placement.map((group) => positionIn(group, rank))])];
}
