"""Writes arguments of ``pretrain_gpt.py`` of Megatron-LM [megatron-0.12, arguments.py; megatron-0.19, arguments.py]."""

from __future__ import annotations

from cost_models.shapes.canonical import expert_domain_devices
from cost_models.shapes.precision import QUANTISED_PRECISIONS
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.traits import FP32_ROUTER_EXPERTS
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.environment import start_note
from frameworks.framework import LaunchArguments
from frameworks.launch_text import RESUMES
from frameworks.megatron_lm import connections, fully_sharded, host_optimizer, hybrid, offload
from frameworks.megatron_lm.arguments import (
    batch_arguments,
    degree_arguments,
    embedding_rows,
    full_recompute,
    model_arguments,
    selective_recompute,
    tokens,
    unstated_note,
    where,
)
from frameworks.megatron_lm.balance import balance_arguments, balance_notes
from frameworks.megatron_lm.bridge import fields_of, packs_samples
from frameworks.megatron_lm.bridge_rules import adapts_experts
from frameworks.megatron_lm.dialect import Dialect
from frameworks.megatron_lm.job_reader import GATHERS, REUSES_BUFFER
from frameworks.megatron_lm.layouts import LAYOUT, layout_text
from frameworks.megatron_lm.nearest import nearest
from frameworks.megatron_lm.optimizer import optimizer_arguments, type_arguments
from frameworks.megatron_lm.reader import COUNTED_ENDS
from frameworks.megatron_lm.table import SFT, has_deepep
from frameworks.model_facts import Arguments, as_words
from frameworks.placements import ranks_are_alike
from frameworks.rule import layout_of
from frameworks.table import Table, settled

CONVERTS = Sentence(
    'Convert the model once, for every layout: python -c "from megatron.bridge import AutoBridge; '
    "AutoBridge.import_ckpt('HF_FOLDER', 'MODEL_PATH')\", with Megatron-Bridge."
)


def arguments(dialect: Dialect, workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Arguments, environment and notes of the nearest strategy that the release supports."""
    model, table = workload.model, dialect.table
    s, replaced = nearest(dialect, workload, planned)
    tunes = workload.training.task.name is Task.SFT
    optimizer = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER | Feature.GRAD_REDUCE_IN_BF16
    written = {
        **({} if model.hybrid_layer_pattern else {"num-layers": model.num_layers}),
        **model_arguments(dialect.release, dialect.models, workload),
        **embedding_rows(workload, s),
        **batch_arguments(workload, s),
        **_precision(dialect, workload, s),
        **degree_arguments(table, s),
        **_pipeline(dialect, workload, s),
        **_context_parallel(table, s),
        **_experts(dialect, workload, s),
        **balance_arguments(dialect.release, workload),
        **(selective_recompute(table, s.recompute_modules) if s.recompute is Recompute.SELECTIVE else full_recompute(s)),
        **offload.arguments_of(model, s.tensor_plan),
        **optimizer_arguments(workload),
        **where(s.zero_stage, "use-distributed-optimizer"),
        **table.arguments_of(optimizer),
        **_sharding(dialect, workload, s),
        **table.arguments_of(~optimizer),
        **type_arguments(workload),
        **where(tunes, SFT),
        # Attention is causal; the mask would be seq-length squared.
        **where(tunes or not workload.software.loader_mask, "no-create-attention-mask-in-dataloader"),
    }
    if workload.training.task.adapters is not None:
        fields = fields_of(dialect.release, settled(dialect.release, written, s.features, as_words), workload, s)
        return LaunchArguments(s, fields, _environment(workload, s), replaced + _adapter_notes(workload))
    notes = replaced + _notes(dialect, workload, s, planned)
    return LaunchArguments(s, tokens(dialect.release, written, s.features), _environment(workload, s), notes)


def _environment(workload: Workload, s: ParallelStrategy) -> dict[str, str]:
    ranks, domain = s.ep * s.etp, expert_domain_devices(workload.cluster)
    variables = connections.variables(s) | ({} if s.tensor_plan is None else offload.ENVIRONMENT)
    if Feature.OPTIMIZER_CPU_OFFLOAD in s.features:
        variables |= host_optimizer.ENVIRONMENT
    if s.dispatcher is not Dispatcher.TWO_LEVEL or ranks == 1 or has_deepep(workload.cluster):
        return variables
    return variables | {"NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN": str(min(ranks, domain)), "USE_MNNVL": "1"}


def _precision(dialect: Dialect, workload: Workload, s: ParallelStrategy) -> Arguments:
    precision = workload.training.precision
    fewer: Arguments = {}
    if precision == "fp8":
        fewer = _eight_bits(dialect, workload, s)
    elif precision == "nvfp4":
        fewer = {"fp4-format": "e2m1", "fp4-recipe": "nvfp4"}
    return where(precision in ("bf16", *QUANTISED_PRECISIONS), "bf16") | where(precision == "fp16", "fp16") | fewer


def _eight_bits(dialect: Dialect, workload: Workload, s: ParallelStrategy) -> Arguments:
    """Format and recipe as in Megatron-Bridge [megatron-bridge-0.6, training/mixed_precision.py].

    The distributed optimizer has the weights in FP32, so that the layers' can be in 8 bits alone: else they are in both.
    """
    recipe = workload.training.fp8_recipe
    stated = {} if recipe is None else {"fp8-recipe": recipe}
    shares = recipe == "mxfp8"
    known = not shares or REUSES_BUFFER in dialect.release.arguments
    gathers = where(s.zero_stage and workload.gathers_eight_bits and known, GATHERS)
    buffer = where(gathers and shares, REUSES_BUFFER)
    return {"fp8-format": "e4m3" if shares else "hybrid", **stated, **gathers, **buffer}


def _pipeline(dialect: Dialect, workload: Workload, s: ParallelStrategy) -> Arguments:
    if s.pp == 1:
        return {}
    layout = layout_of(workload, s)
    if workload.model.hybrid_layer_pattern:
        return hybrid.pattern_arguments(workload.model, layout)
    if s.mtp_before_head or not ranks_are_alike(layout):
        if not dialect.placements.even:
            return {LAYOUT: layout_text(layout, workload.model.mtp_num_layers, s.mtp_before_head)}
        slots = max(map(max, layout))
        lacking = [name for name, layers in zip(COUNTED_ENDS, (layout[0][0], layout[-1][-1]), strict=True) if layers < slots]
        return where(True, *lacking) | ({"num-layers-per-virtual-pipeline-stage": slots} if s.vpp > 1 else {})
    ranks = [sum(row[i] for row in layout) for i in range(s.pp)]
    if len(set(ranks)) == 1:
        return {"num-layers-per-virtual-pipeline-stage": ranks[0] // s.vpp} if s.vpp > 1 else {}
    arguments: Arguments = {"num-virtual-stages-per-pipeline-rank": s.vpp} if s.vpp > 1 else {}
    inner = ranks[1] if s.pp > 2 else ranks[-1]
    if ranks[0] != inner:
        arguments["decoder-first-pipeline-num-layers"] = ranks[0]
    if s.pp > 2 and ranks[-1] != inner:
        arguments["decoder-last-pipeline-num-layers"] = ranks[-1]
    return arguments


def _context_parallel(table: Table, s: ParallelStrategy) -> Arguments:
    if s.cp == 1:
        return {}
    arguments: Arguments = {"cp-comm-type": table.cp_algos.get(s.cp_algo, "p2p")}
    if s.cp_algo is CpAlgo.HYBRID:
        arguments["hierarchical-context-parallel-sizes"] = (s.ulysses_degree, s.cp // s.ulysses_degree)
    return arguments


def _experts(dialect: Dialect, workload: Workload, s: ParallelStrategy) -> Arguments:
    moe = workload.model.moe
    if moe is None:
        return {}
    pattern = "+".join(f"[{int(is_moe)}]*{length}" for is_moe, length in _runs(workload.model.moe_layers()))
    frequency = {} if workload.model.hybrid_layer_pattern else {"moe-layer-freq": f"({pattern})"}
    names = dialect.table.columns
    routed = s.ep * s.etp > 1
    return {
        **frequency,
        names["ep"]: s.ep,
        names["etp"]: s.etp,
        names["dispatcher"]: dialect.table.dispatchers.get(s.dispatcher if routed else Dispatcher.ALLTOALL, "alltoall"),
        **(_flexible(dialect, workload) if s.dispatcher is Dispatcher.TWO_LEVEL and routed else {}),
        **(
            {"moe-router-dtype": "fp32"} if moe.num_experts >= FP32_ROUTER_EXPERTS or s.dispatcher is Dispatcher.TWO_LEVEL else {}
        ),
    }


def _flexible(dialect: Dialect, workload: Workload) -> Arguments:
    """The back end of the flexible dispatcher that runs on the devices."""
    return dialect.deepep if has_deepep(workload.cluster) else dialect.hybridep


def _runs(layers: tuple[bool, ...]) -> list[tuple[bool, int]]:
    runs: list[tuple[bool, int]] = []
    for is_moe in layers:
        if runs and runs[-1][0] == is_moe:
            runs[-1] = (is_moe, runs[-1][1] + 1)
        else:
            runs.append((is_moe, 1))
    return runs


def _sharding(dialect: Dialect, workload: Workload, s: ParallelStrategy) -> Arguments:
    if s.zero_stage >= 2:
        return {**dialect.fsdp, **fully_sharded.arguments_of(dialect.release, workload, s)}
    if s.zero_stage == 1 and 0 < s.optimizer_shard_size < s.dp * s.cp:
        return {fully_sharded.INSTANCES: s.dp * s.cp // s.optimizer_shard_size}
    return {}


def _adapter_notes(workload: Workload) -> tuple[str, ...]:
    """How Megatron-Bridge trains adapters, and what of it has no price [megatron-bridge-0.6, peft/utils.py; gpt_sft.py]."""
    shared = Sentence(
        "Experts of a rank share an adapter; its gradients are added over ep in each micro batch, which has no price."
    )
    padded = Sentence("Samples are padded to the whole sequence, as they are priced.")
    packed = Sentence("Samples are packed into whole sequences before the first step.")
    return (
        Sentence("Megatron-Bridge adds adapters to the models of Megatron-Core; pretrain_gpt.py trains none."),
        packed if packs_samples(workload) else padded,
        CONVERTS,
        RESUMES,
        *((shared,) if adapts_experts(workload) else ()),
    )


def _task_notes(workload: Workload, s: ParallelStrategy) -> list[str]:
    """How a fine-tune starts: from which data and which checkpoint [megatron-0.19, sft_dataset.py; megatron-bridge]."""
    if workload.training.task.name is not Task.SFT:
        return []
    sharded = Sentence(
        "Fully sharded data parallelism has a format of its own: tools/checkpoint/checkpoint_inspector.py "
        "convert-torch-dist-to-fsdp-dtensor makes it of that checkpoint."
    )
    return [
        Sentence("Each line of the data has a list of messages; a line with several conversations packs them into one sequence."),
        CONVERTS,
        *([sharded] if s.zero_stage >= 2 else []),
        RESUMES,
    ]


def _notes(dialect: Dialect, workload: Workload, s: ParallelStrategy, planned: ParallelStrategy) -> tuple[str, ...]:
    notes = [
        start_note(workload, Sentence("torchrun --nnodes and --nproc-per-node")),
        *unstated_note(dialect.release, dialect.models, workload),
        *balance_notes(dialect.name, dialect.release, workload),
        *_task_notes(workload, s),
    ]
    model = workload.model
    if RecomputeModule.MLP_ACT in s.recompute_modules and model.moe is not None:
        dense = sum(not is_moe for is_moe in model.moe_layers())
        if dense or model.moe.num_shared_experts:
            notes.append(
                Sentence(
                    "moe_act recomputes the activation of routed experts; {} dense layers and {} "
                    "shared experts keep theirs, which takes slightly more memory than the plan states.",
                    dense,
                    model.moe.num_shared_experts,
                )
            )
    if Feature.FUSED_NORM not in planned.features:
        notes.append(Sentence("Transformer Engine always fuses the norms."))
    if s.zero_stage >= 2 and s.tp * s.cp > 1:
        notes.append(
            Sentence(
                "Before Blackwell, tensor and context parallelism want CUDA_DEVICE_MAX_CONNECTIONS=1, which fully sharded data "
                "parallelism refuses; it is left unset."
            )
        )
    return tuple(notes)
