import type { Schemas } from "../api/client";

export type Strategy = Schemas["StrategyDocument"];

/** "tp 4 -> 8", as the server tells a change, with an arrow that does not break. */
export const changeText = (change: string): string => change.replaceAll(" -> ", "\u00a0→ ");

/** A strategy on one line; of an answer that an earlier version stored without names, its degrees. */
export const strategyText = (strategy: Strategy): string =>
  strategy.name ?? `TP${strategy.tp} PP${strategy.pp} CP${strategy.cp} EP${strategy.ep} DP${strategy.dp} MBS${strategy.micro_batch_size}`;

/** The name in two parts: degrees with the micro batch, and what else is not usual. */
export function strategyParts(strategy: Strategy): { degrees: string; options: string } {
  const [degrees = "", ...options] = strategyText(strategy).split(/(?<=MBS\d+) /);
  return { degrees, options: options.join(" ") };
}

/** The recompute as `--recompute` takes it. */
export function recomputeText(recompute: Strategy["recompute"]): string {
  if (recompute.granularity === "selective") return recompute.modules.join("+");
  if (recompute.layers_per_stage) return "by stage";
  if (recompute.granularity !== "full") return "none";
  if (recompute.method === "block") return `block:${recompute.num_layers}`;
  return recompute.num_layers === 1 ? "full" : `full:${recompute.num_layers}`;
}
