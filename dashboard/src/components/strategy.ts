import type { Schemas } from "../api/client";
import { translated, type Values } from "../i18n";

export type Strategy = Schemas["StrategyDocument"];

const DEGREES = ["tp", "pp", "vpp", "cp", "ep", "etp"] as const;
const USUAL_SCHEDULES = ["none", "1f1b", "interleaved-1f1b"]; // vpp says which
// Switches that a name tells where they are on, and where they are off although they would act.
const TOLD_ON = [
  ...["replicated_embedding", "mc2", "coc", "tp_comm_overlap", "reuse_fp32_param", "swap_optimizer", "swap_attention", "grad_reduce_in_bf16"],
  ...["moe_allgather_overlap_comm", "moe_alltoall_overlap_comm", "moe_comm_overlap", "moe_shared_expert_overlap", "moe_pad_to_capacity"],
  ...["moe_zero_memory", "tp_2d", "cuda_graph", "fine_grain_interleave", "dualpipev_dw_detach", "bf16_moments", "fp8_activation_input"],
  "moe_tier_streams",
];

/** A part of a name as the command line says it. */
const word = (name: string, values?: Values): string => translated(`strategyName.${name}`, values);

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
    ...(group == null || group === pp ? [] : [word("groups", { n: group })]),
    ...(cp > 1 && strategy.cp_algo ? [strategy.cp_algo] : []),
    ...(tp > 1 && !strategy.sequence_parallel ? [word("noSequenceParallel")] : []),
    ...(zeroStage !== 1 && dp * cp > 1 ? [`ZeRO-${zeroStage}`] : []),
    ...(strategy.moe_dispatcher && strategy.moe_dispatcher !== "alltoall" ? [strategy.moe_dispatcher] : []),
    ...(strategy.tensor_plan ? [word("byTensor")] : []),
    ...(recompute.granularity === "none" ? [] : [rankText(recompute) ?? word("recompute", { what: recomputeText(recompute) })]),
    ...(strategy.noop_layers ? [word("emptySlots", { n: strategy.noop_layers })] : []),
    ...TOLD_ON.filter((name) => strategy.features.includes(name)),
    ...usualSwitches(strategy)
      .filter((name) => !strategy.features.includes(name))
      .map((name) => word("off", { name })),
  ];
  return { degrees: degrees.join(" "), options: options.join(" ") };
}

/** Switches that are on by default and act in the strategy. */
function usualSwitches(strategy: Strategy): string[] {
  const replicas = strategy.dp * strategy.cp > 1;
  return [
    ...["flash_attention", "fused_norm"],
    ...(strategy.moe_dispatcher ? ["moe_grouped_gemm", "moe_permute_fusion"] : []),
    ...(replicas ? ["overlap_grad_reduce"] : []),
    ...(replicas && strategy.zero_stage > 0 ? ["overlap_param_gather"] : []),
    ...(strategy.microbatch_group_size_per_vp_stage == null ? [] : ["overlap_p2p"]),
  ];
}

/** The recompute by pipeline rank, if it is one. */
function rankText({ granularity, layers_per_stage: layers, modules }: Strategy["recompute"]): string | null {
  if (granularity === "selective" || !layers?.length) return null;
  const whole = new Set(layers).size > 1 ? word("byStage") : word("aRank", { n: layers[0] });
  return modules.length ? word("others", { whole, modules: modules.join("+") }) : whole;
}

/** The recompute as `--recompute` takes it. */
export function recomputeText(recompute: Strategy["recompute"]): string {
  if (recompute.granularity === "selective") return recompute.modules.join("+");
  if (recompute.layers_per_stage) return "by stage";
  if (recompute.granularity !== "full") return "none";
  if (recompute.method === "block") return `block:${recompute.num_layers}`;
  return recompute.num_layers === 1 ? "full" : `full:${recompute.num_layers}`;
}
