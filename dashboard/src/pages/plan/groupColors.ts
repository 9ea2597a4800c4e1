import type { Placed } from "./map/groups";

/** Position in the palette of each kind of group; parts of the step's time that it causes have the same. */
export const GROUP_COLORS: Record<Placed["group"], number> = { tp: 1, cp: 7, ep: 3, dp: 2, expert_dp: 6, pp: 8, shard: 4, copies: 5 };
