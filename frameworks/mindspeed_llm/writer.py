"""Writes arguments of ``pretrain_gpt.py`` and ``posttrain_gpt.py`` of MindSpeed-LLM on MindSpeed.

Sources: [mindspeed-llm, features_manager; mindspeed, features_manager].
"""

from __future__ import annotations

from cost_models.shapes.precision import EIGHT_BITS, QUANTISED_PRECISIONS, RECIPES
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import ModelShape, TrainingJob, Workload
from documents.sentences import Sentence
from frameworks.environment import hccl, start_note
from frameworks.framework import LaunchArguments
from frameworks.launch_text import RESUMES
from frameworks.megatron_lm.arguments import (
    BARE,
    batch_arguments,
    degree_arguments,
    full_recompute,
    model_arguments,
    selective_recompute,
    tokens,
    unstated_note,
    where,
)
from frameworks.megatron_lm.balance import balance_arguments, balance_notes
from frameworks.megatron_lm.optimizer import optimizer_arguments
from frameworks.mindspeed_llm import layers
from frameworks.mindspeed_llm.model_table import MODEL
from frameworks.mindspeed_llm.nearest import nearest
from frameworks.mindspeed_llm.rules import first_moe_position, noop_positions
from frameworks.mindspeed_llm.specs import PACKAGE, spec_of
from frameworks.mindspeed_llm.table import COC_PARALLEL_NUM, RELEASE, TABLE, recipe_of
from frameworks.mindspeed_llm.tasks import has_expert_adapters, task_arguments
from frameworks.model_facts import Arguments, as_words
from frameworks.rule import layout_of

# Written before the other switches, next to the arguments that they belong to.
PLACED = Feature.DUALPIPEV_DW_DETACH | Feature.CP_SEND_RECV_OVERLAP | Feature.MOE_TP_EXTEND_EP | Feature.OVERLAP_P2P


def arguments(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Arguments, environment and notes of the nearest strategy that MindSpeed-LLM supports."""
    s, replaced = nearest(workload, planned)
    model = workload.model
    written = {
        "use-mcore-models": BARE,
        **_layers(workload, s),
        **model_arguments(RELEASE, MODEL, workload),
        **_vocabulary(workload, s),
        **_layer_spec(model),
        **_latent_attention(workload, s),
        **_linear_attention(model),
        **batch_arguments(workload, s),
        **where(workload.training.precision in ("bf16", *QUANTISED_PRECISIONS), "bf16"),
        **where(workload.training.precision == "fp16", "fp16"),
        **_eight_bits(workload.training),
        **degree_arguments(TABLE, s),
        **_context_parallel(s),
        **_experts(workload, s),
        **task_arguments(workload),
        **balance_arguments(RELEASE, workload),
        **_recompute(workload, s),
        **optimizer_arguments(workload),
        **where(s.zero_stage, "use-distributed-optimizer"),
        # As in MindSpeed-LLM's examples; its layers of Transformer Engine are for 8 bits.
        "transformer-impl": "transformer_engine" if workload.training.precision in EIGHT_BITS else "local",
        "no-masked-softmax-fusion": BARE,
        "attention-softmax-in-fp32": BARE,
        **where(not model.learned_positions, "use-rotary-position-embeddings"),
        **TABLE.arguments_of(~PLACED),
        **({"tp-x": s.tp // 2, "tp-y": 2} if Feature.TP_2D in s.features else {}),
    }
    notes = replaced + _notes(workload, s, planned)
    return LaunchArguments(s, tokens(RELEASE, written, s.features), _environment(workload), notes)


def _environment(workload: Workload) -> dict[str, str]:
    """Environment variables as in the examples [mindspeed-llm, examples; cann, HCCL_BUFFSIZE]."""
    return {
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        **hccl(workload),
        "TASK_QUEUE_ENABLE": "2",
        "CPU_AFFINITY_CONF": "1",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
    }


def _layers(workload: Workload, s: ParallelStrategy) -> Arguments:
    layout = layout_of(workload, s)
    slots = max(map(max, layout))
    arguments: Arguments = {"num-layers": slots * s.pp * s.vpp}
    noops = noop_positions(layout, vee=s.schedule.rules.is_vee)
    if noops:
        arguments["noop-layers"] = ",".join(map(str, noops))
    method = TABLE.schedules.get(s.schedule)
    if method:
        return arguments | {"schedules-method": method} | TABLE.arguments_of(Feature.DUALPIPEV_DW_DETACH)
    return arguments | ({"num-layers-per-virtual-pipeline-stage": slots} if s.vpp > 1 else {})


def _layer_spec(model: ModelShape) -> Arguments:
    """The argument that makes ``pretrain_gpt.py`` build the model's layers."""
    module = spec_of(model).module
    return {"spec": (f"{PACKAGE}.{module}", "layer_spec")} if module else {}


def _latent_attention(workload: Workload, s: ParallelStrategy) -> Arguments:
    """Unpadded values, as plans are priced, and the switch that allows to recompute the up-projections over tp."""
    if workload.model.mla is None:
        return {}
    repeats = s.tp > 1 and s.recompute is not Recompute.NONE and RecomputeModule.MLA_UP_PROJ in s.recompute_modules
    return {
        **where(Feature.FLASH_ATTENTION in s.features, "mla-fa-without-pad"),
        **where(repeats, "mla-mm-split", "mla-up-proj-tp-overlap"),
    }


def _linear_attention(model: ModelShape) -> Arguments:
    """Kernels of linear attention as in MindSpeed-LLM's example; full attention beside it splits no joint projection."""
    if model.local_attention is None or not model.local_attention.is_linear:
        return {}
    return {**where(True, "use-triton-gdn", "no-enable-linear-qkv"), "mamba-chunk-size": 64}


def _vocabulary(workload: Workload, s: ParallelStrategy) -> Arguments:
    rows = workload.model.vocab_size
    return {"vocab-size": rows, "padded-vocab-size": -(-rows // s.tp) * s.tp, "make-vocab-size-divisible-by": 1}


def _eight_bits(training: TrainingJob) -> Arguments:
    """Format and recipe of 8-bit matmuls; gradients scaled as whole tensors have the wider exponent."""
    if training.precision not in EIGHT_BITS:
        return {}
    recipe = recipe_of(training)
    fp8 = "e4m3" if RECIPES[recipe].casts_each_way else "hybrid"
    return {"fp8-format": "hif8" if training.precision == "hif8" else fp8, "fp8-recipe": recipe}


def _context_parallel(s: ParallelStrategy) -> Arguments:
    if s.cp == 1 or s.cp_algo is CpAlgo.NONE:
        return {}
    arguments: Arguments = {"context-parallel-algo": TABLE.cp_algos.get(s.cp_algo, TABLE.cp_algos[CpAlgo.RING])}
    if s.cp_algo is CpAlgo.HYBRID:
        arguments["ulysses-degree-in-cp"] = s.ulysses_degree
    return arguments | TABLE.arguments_of(Feature.CP_SEND_RECV_OVERLAP)


def _experts(workload: Workload, s: ParallelStrategy) -> Arguments:
    moe = workload.model.moe
    if moe is None:
        return {}
    ep, etp, dispatcher = s.ep, s.etp, "alltoall"
    if Feature.MOE_TP_EXTEND_EP in s.features:
        # MindSpeed counts the expert ranks outside tp here, and its dispatcher needs the experts' tp to equal the layers'.
        ep, etp, dispatcher = s.ep // s.tp, s.tp, "alltoall_seq"
    elif has_expert_adapters(workload):
        dispatcher = "alltoall_seq"
    elif s.ep * s.etp > 1:
        dispatcher = TABLE.dispatchers.get(s.dispatcher, "alltoall")
    return {
        "first-k-dense-replace": first_moe_position(layout_of(workload, s), workload.model, vee=s.schedule.rules.is_vee),
        "moe-layer-freq": 1,
        TABLE.columns["ep"]: ep,
        TABLE.columns["etp"]: etp,
        **TABLE.arguments_of(Feature.MOE_TP_EXTEND_EP),
        TABLE.columns["dispatcher"]: dispatcher,
    }


def _recompute(workload: Workload, s: ParallelStrategy) -> Arguments:
    if s.recompute is Recompute.NONE:
        return layers.arguments_of(workload, s)
    plan = s.recompute_layers_per_stage
    if s.recompute is Recompute.SELECTIVE:
        arguments = selective_recompute(TABLE, s.recompute_modules)
    elif plan:
        arguments = {"recompute-granularity": "full", "recompute-method": "block", "recompute-num-layers": max(plan)}
        arguments |= where(True, "enable-recompute-layers-per-pp-rank")
    else:
        arguments = full_recompute(s)
    return arguments | where(True, *(name for module, name in TABLE.module_switches.items() if module in s.recompute_modules))


def _task_notes(workload: Workload, s: ParallelStrategy) -> list[str]:
    """How a fine-tune starts: the conversion of the model to this plan's layout [mindspeed-llm, convert_ckpt_v2.py]."""
    if workload.training.task.name is Task.PRETRAIN:
        return []
    layers = _layers(workload, s)
    given: Arguments = {
        "target-tensor-parallel-size": s.tp,
        "target-pipeline-parallel-size": s.pp,
        **({"target-expert-parallel-size": s.ep} if workload.model.moe is not None else {}),
        **({"expert-tensor-parallel-size": s.etp} if workload.model.moe is not None else {}),
        **{name: layers[name] for name in ("num-layers-per-virtual-pipeline-stage", "schedules-method") if name in layers},
        **({name: layers[name] for name in ("num-layers", "noop-layers")} if "noop-layers" in layers else {}),
        **where(workload.model.moe is not None and Feature.MOE_GROUPED_GEMM in s.features, "moe-grouped-gemm"),
        **where("mla-mm-split" in _latent_attention(workload, s), "mla-mm-split"),
    }
    words = " ".join(word for name, value in given.items() for word in (f"--{name}", *as_words(value)))
    return [
        Sentence(
            "Convert the model for this plan first, with its --model-type-hf: python convert_ckpt_v2.py --load-model-type hf "
            "--save-model-type mg {} --load-dir HF_FOLDER --save-dir MODEL_PATH",
            words,
        ),
        RESUMES,
    ]


def _notes(workload: Workload, s: ParallelStrategy, planned: ParallelStrategy) -> tuple[str, ...]:
    notes = [start_note(workload, Sentence("torchrun --nnodes and --nproc-per-node")), *unstated_note(RELEASE, MODEL, workload)]
    notes += balance_notes("MindSpeed-LLM", RELEASE, workload)
    layout = layout_of(workload, s)
    noops = noop_positions(layout, vee=s.schedule.rules.is_vee)
    notes += _task_notes(workload, s)
    if noops:
        total = max(map(max, layout)) * s.pp * s.vpp
        notes.append(
            Sentence(
                "{} no-op layers fill {} layers up to {}; layer positions count them.",
                len(noops),
                workload.model.num_layers,
                total,
            )
        )
    if "mla-up-proj-tp-overlap" in _latent_attention(workload, s):
        notes.append(
            Sentence(
                "--mla-up-proj-tp-overlap, without which MindSpeed-LLM refuses recompute of mla_up_proj over tp, "
                "hides gathers that "
                "the plan is priced with; its --mla-mm-split makes four up-projections of two."
            )
        )
    if Feature.COC in s.features:
        notes.append(Sentence("Try --coc-parallel-num {}, 4 and 8; the plan does not choose between them.", COC_PARALLEL_NUM))
    if Feature.TP_2D in s.features:
        notes.append(Sentence("tp {} is split into {} x 2; other splits are possible.", s.tp, s.tp // 2))
    if planned.dispatcher == Dispatcher.HIERARCHICAL and s.dispatcher != planned.dispatcher and s.ep * s.etp > 1:
        notes.append(
            Sentence(
                "Hierarchical all-to-all exists in MindSpeed core_r0.8.0 (--moe-hierarchical-alltoallv with --moe-tp-extend-ep), "
                "not in the release that these arguments are for."
            )
        )
    return tuple(notes)
