import type { Schemas } from "../api/client";

export type Strategy = Schemas["StrategyDocument"];

const DEGREES = ["tp", "pp", "vpp", "cp", "ep", "etp"] as const;
const USUAL_SCHEDULES = ["none", "1f1b", "interleaved-1f1b"]; // vpp says which
const TOLD_FEATURES = ["swap_optimizer", "reuse_fp32_param"];

/** "tp 4 -> 8", as the server tells a change, with an arrow that does not break. */
export const changeText = (change: string): string => change.replaceAll(" -> ", "\u00a0→ ");

/** A strategy on one line, as the command line writes it. */
export function strategyText(strategy: Strategy): string {
  const { degrees, options } = strategyParts(strategy);
  return options ? `${degrees} ${options}` : degrees;
}

/** Degrees above one with the micro batch, and what else is not usual. */
export function strategyParts(strategy: Strategy): { degrees: string; options: string } {
  const { tp, pp, cp, dp, zero_stage: zeroStage, recompute } = strategy;
  const group = strategy.microbatch_group_size_per_vp_stage;
  const degrees = [
    ...DEGREES.filter((name) => strategy[name] > 1).map((name) => `${name.toUpperCase()}${strategy[name]}`),
    `DP${dp}`,
    `MBS${strategy.micro_batch_size}`,
  ];
  const options = [
    ...(USUAL_SCHEDULES.includes(strategy.schedule) ? [] : [strategy.schedule]),
    ...(group == null || group === pp ? [] : [`groups of ${group}`]),
    ...(cp > 1 && strategy.cp_algo ? [strategy.cp_algo] : []),
    ...(tp > 1 && !strategy.sequence_parallel ? ["no SP"] : []),
    ...(zeroStage !== 1 && dp * cp > 1 ? [`ZeRO-${zeroStage}`] : []),
    ...(strategy.moe_dispatcher && strategy.moe_dispatcher !== "alltoall" ? [strategy.moe_dispatcher] : []),
    ...(recompute.granularity === "none" ? [] : [`recompute ${recomputeText(recompute)}`]),
    ...TOLD_FEATURES.filter((name) => strategy.features.includes(name)),
  ];
  return { degrees: degrees.join(" "), options: options.join(" ") };
}

/** The recompute as `--recompute` takes it. */
export function recomputeText(recompute: Strategy["recompute"]): string {
  if (recompute.granularity === "selective") return recompute.modules.join("+");
  if (recompute.layers_per_stage) return "by stage";
  if (recompute.granularity !== "full") return "none";
  if (recompute.method === "block") return `block:${recompute.num_layers}`;
  return recompute.num_layers === 1 ? "full" : `full:${recompute.num_layers}`;
}
