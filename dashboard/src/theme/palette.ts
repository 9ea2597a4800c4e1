import { css, mixed, rgb } from "./color";

/** Colours of data: the same quantity has the same colour on every page, apart in both themes and for colour-blind readers. */
export interface Palette {
  text: string;
  muted: string;
  grid: string;
  surface: string;
  series: readonly string[];
  good: string;
  bad: string;
  warn: string;
}

const LIGHT: Palette = {
  text: "#1b212c",
  muted: "#5a6475",
  grid: "#e3e7ee",
  surface: "#ffffff",
  series: ["#2456d6", "#e07a10", "#0f8a6c", "#c2337e", "#7a52d1", "#9a6b00", "#1490b8", "#b3382c", "#5d6b1a", "#606a7b",
    "#1f5f7a", "#8a5638", "#a63fb3", "#3d8f2c"],
  good: "#0f7a55",
  bad: "#c22f2f",
  warn: "#a85b00",
};

const DARK: Palette = {
  text: "#dfe3ea",
  muted: "#a3acba",
  grid: "#2b3341",
  surface: "#1b212c",
  series: ["#6d95f5", "#f5a04a", "#3cc49d", "#ec75b0", "#ab8bf2", "#d9ae3d", "#56c3e6", "#ef7d70", "#a8ba55", "#98a3b5",
    "#6fa8c2", "#c79573", "#d987e5", "#83cf6c"],
  good: "#4bcf9b",
  bad: "#f28080",
  warn: "#f2b25c",
};

export const palettes = { light: LIGHT, dark: DARK } as const;

/** Position in `series` of the parts of a step's time and of a device's memory; parts of one family are neighbours. */
export const PARTS: Record<string, number> = {
  matmul: 0, attention: 6, vector: 4, permute: 8, recompute: 5, embedding: 7, head_and_loss: 7,
  tp_comm: 1, cp_comm: 12, ep_comm: 3, contention: 12, dp_comm: 2, pipeline_p2p: 10, weight_gather: 2, activation_swap: 10,
  pipeline_bubble: 9, host: 11, size_synchronisation: 4, gradient_accumulation: 13, optimizer: 2, step_overhead: 9,
  weights: 0, gradients: 6, optimizer_master_weights: 2, optimizer_moments: 2, optimizer_transient: 2,
  activations_residual: 1, activations_norm_output: 1, activations_attention: 5, activations_attention_scores: 5,
  activations_mlp: 3, activations_routed_experts: 7, activations_shared_experts: 7, activations_router: 7,
  recompute_checkpoints: 8, working_set: 4, logits: 4, allocator_pool: 9, communicators: 9, runtime: 9,
};

const SHADE = 0.28;

/** A colour for each part that may stand in one bar: those of one family share a colour, and are told apart by shade. */
export function partColors(palette: Palette, parts: readonly string[]): Record<string, string> {
  const order = Object.keys(PARTS);
  const times = new Map<string, number>();
  const inOrder = [...parts].sort((a, b) => order.indexOf(a) - order.indexOf(b) || a.localeCompare(b));
  return Object.fromEntries(
    inOrder.map((part) => {
      const color = partColor(palette, part);
      const before = times.get(color) ?? 0;
      times.set(color, before + 1);
      return [part, before ? css(mixed(rgb(color), rgb(palette.surface), 1 - (1 - SHADE) ** before)) : color];
    }),
  );
}

function partColor(palette: Palette, part: string): string {
  return palette.series[PARTS[part] ?? 9] ?? palette.muted;
}

export function seriesColor(palette: Palette, index: number): string {
  return palette.series[index % palette.series.length] ?? palette.muted;
}
