"""The parallel strategy of a run record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calibration.records.known_flags import Effect, Flag, read_features
from calibration.records.layout import record_layout
from calibration.records.recompute import record_recompute
from calibration.records.sections import Degrees, Notes, StrategySection, refused
from calibration.records.software import RecordSoftware
from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence

# NeMo's distributed optimizers overlap both by default, also where a record lists other switches. Its performance recipes overlap
# all that they can; a record without switches ran one unchanged [nemo, recipes]. For MoE models, Megatron-Core's page gives one
# script, which overlaps both [megatron-main, moe/README.md].
_EXCHANGE_OVERLAP = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER
_LAYOUTS = ("pp-layout", Sentence("pipeline layout"), "pipeline-model-parallel-layout")
_SEQUENCE_AT_A_TIME = 2025.25  # torchtitan: micro batches of a pipeline have one sequence by default
_MEGATRONS = ("mindspeed-llm", "megatron-lm", "nemo")
_SCHEDULES = {
    **{schedule.label: schedule for schedule in Schedule if schedule},
    "interleaved": Schedule.INTERLEAVED,
    "zb-1p": Schedule.ZB1P,
    "zb-2p": Schedule.ZB2P,
    "zb-2p*": Schedule.ZB2P,  # the same at half the micro batch, within the memory of ZB-V [zero-bubble, table 6]
    "zb-v": Schedule.ZBV,
}
_NUM_CHUNKS: dict[Schedule, int] = {
    schedule: {"one": 1, "two": 2}[schedule.rules.chunks] for schedule in Schedule if not schedule.rules.usual
}
_DISPATCHERS = {
    "allgather": Dispatcher.ALLGATHER,
    "alltoall": Dispatcher.ALLTOALL,
    "alltoall_seq": Dispatcher.ALLTOALL,
    "deepep": Dispatcher.TWO_LEVEL,
    "hybridep": Dispatcher.TWO_LEVEL,
    "flex": Dispatcher.TWO_LEVEL,
    "two_level": Dispatcher.TWO_LEVEL,
    "hierarchical": Dispatcher.HIERARCHICAL,
}


@dataclass(frozen=True)
class RecordStrategy:
    """The strategy for the cost model, and whether the record states recompute."""

    strategy: ParallelStrategy
    recompute_stated: bool


def record_degrees(section: StrategySection, notes: Notes, num_devices: int) -> Degrees:
    """Degrees of a record's ``strategy`` section. A dp that does not fit the devices is replaced by one that does, if any."""
    tp, pp, cp, dp = section.tp, section.pp, section.cp, section.dp
    product = tp * pp * cp
    if num_devices % product:
        raise InputError(
            Sentence(
                "strategy needs tp {} x pp {} x cp {} = {} devices a replica, which do not divide {}.",
                tp,
                pp,
                cp,
                product,
                num_devices,
            )
        )
    derived = num_devices // product
    if dp is not None and dp != derived:
        notes.add(
            "dp",
            dp,
            Sentence("does not fit: tp {} x pp {} x cp {} x dp = {} devices gives dp {}", tp, pp, cp, num_devices, derived),
        )
    return Degrees(tp, pp, cp, derived, _virtual_stages(section, notes, pp))


def _virtual_stages(section: StrategySection, notes: Notes, pp: int) -> int:
    """Chunks of a rank: as stated, unless the schedule fixes them (scripts of DualPipeV state none)."""
    vpp = section.vpp
    chunks = _NUM_CHUNKS.get(_schedule_named(section)) if pp > 1 else None
    if chunks is not None:
        if vpp not in (None, 1, chunks):
            notes.add("vpp", vpp, Sentence("does not fit: {} holds {} chunks a rank", _schedule_named(section).label, chunks))
        return chunks
    if vpp is None and pp > 1:
        notes.add("vpp", None, Sentence("is not stated, read as 1"))
    if vpp is not None and vpp > 1 and pp == 1:
        notes.add("vpp", vpp, Sentence("has no effect without a pipeline"))
        return 1
    return vpp or 1


def record_strategy(
    section: StrategySection,
    notes: Notes,
    degrees: Degrees,
    model: ModelShape,
    software: RecordSoftware,
    *,
    global_batch_size: int,
) -> RecordStrategy:
    """Strategy of a record's ``strategy`` section; ``InputError`` if its numbers do not fit together."""
    tp, cp, dp = degrees.tp, degrees.cp, degrees.dp
    parts, usual_count = _interleaved_parts(section, software), _usual_micro_batches(software, degrees.pp)
    micro_batch_size = _micro_batch_size(section, notes, dp, global_batch_size, parts=parts, usual_count=usual_count)
    schedule, vpp = _schedule(section, notes, degrees, model.num_layers)
    num_microbatches = global_batch_size // (micro_batch_size * dp)
    if schedule.rules.in_groups and num_microbatches % degrees.pp:  # [megatron-0.12, schedules.py]
        notes.add(
            "schedule",
            schedule.label,
            Sentence("cannot run {} micro batches over {} ranks, read as 1f1b", num_microbatches, degrees.pp),
        )
        schedule, vpp = canonical_schedule(degrees.pp, 1), 1
    degrees = replace(degrees, vpp=vpp)
    named = read_features(section.features)
    names = frozenset(flag.name for flag in named)
    recompute_notes = Notes("strategy.recompute", notes.sentences)
    recompute = record_recompute(section.recompute, recompute_notes, software, names, degrees, model.num_layers)
    if section.offload:
        notes.add("offload", section.offload, Sentence("is not modelled"))
    algo, ulysses = _context_parallel(section, notes, cp, model.num_attention_heads // tp, software)
    ep, etp = _expert_degrees(section, notes, degrees, model, software)
    zero_stage, shard_size = _optimizer_sharding(section, degrees, dp, software)
    return RecordStrategy(
        ParallelStrategy(
            tp=tp,
            pp=degrees.pp,
            dp=dp,
            cp=cp,
            ep=ep,
            etp=etp,
            vpp=vpp,
            micro_batch_size=micro_batch_size,
            sequence_parallel=section.sequence_parallel and tp > 1,
            cp_algo=algo,
            ulysses_degree=ulysses,
            schedule=schedule,
            zero_stage=zero_stage,
            optimizer_shard_size=shard_size,
            dispatcher=_dispatcher(section, notes, software) if model.moe else Dispatcher.NONE,
            recompute=recompute.granularity,
            recompute_method=recompute.method,
            recompute_num_layers=recompute.num_layers,
            recompute_modules=recompute.modules,
            features=_features(notes, named, software, interleaved=schedule.rules.in_groups, is_moe=model.moe is not None),
            recompute_layers_per_stage=recompute.layers_per_stage,
            layer_layout=record_layout(section, notes, degrees, model, pipeline_layout=software.flag_value(*_LAYOUTS)),
        ),
        # Offloaded activations explain a peak beyond the device's memory as well as recompute does.
        recompute_stated=recompute.stated or recompute.granularity is not Recompute.NONE or bool(section.offload),
    )


def _schedule_named(section: StrategySection) -> Schedule:
    return _SCHEDULES.get(section.schedule.lower(), Schedule.NONE)


def _schedule(section: StrategySection, notes: Notes, degrees: Degrees, num_layers: int) -> tuple[Schedule, int]:
    """Schedule and virtual stages. Interleaving without their number gets the fewest that divide a stage's layers.

    "1f1b or interleaved" is read as interleaved: such a source publishes the faster one.
    """
    if degrees.pp == 1:
        return Schedule.NONE, 1
    vpp = degrees.vpp
    name = section.schedule.lower()
    named = _schedule_named(section)
    if named in _NUM_CHUNKS:
        return named, vpp
    if "interleaved" in name and vpp == 1:
        each = num_layers // degrees.pp
        vpp = next((count for count in range(2, each + 1) if each % count == 0), 1)
    usual = canonical_schedule(degrees.pp, vpp)
    if vpp != degrees.vpp or (name not in ("", "none") and named is not usual):
        notes.add("schedule", name, Sentence("with vpp {} is read as {} with vpp {}", section.vpp, usual.label, vpp))
    return usual, vpp


def _interleaved_parts(section: StrategySection, software: RecordSoftware) -> int:
    """Parts of MindSpore's micro batch, ``micro_batch_interleave_num``, if the record counts each as a micro batch."""
    stated, count = software.flag_value("micro-batch-interleave-num") or "1", section.num_microbatches or 1
    parts = int(stated[:9]) if stated.isdecimal() else 1
    return parts if parts > 1 and count % parts == 0 else 1


def _usual_micro_batches(software: RecordSoftware, pp: int) -> int | None:
    """Micro batches of a step if a record does not state them; ``None``: of one sequence each.

    Before April 2025 torchtitan made as many as the pipeline has ranks [torchtitan, commit 5e2033c75].
    """
    year = software.software.year
    return pp if software.software.stack == "fsdp" and pp > 1 and year is not None and year < _SEQUENCE_AT_A_TIME else None


def _micro_batch_size(
    section: StrategySection, notes: Notes, dp: int, global_batch_size: int, *, parts: int, usual_count: int | None
) -> int:
    size, count = section.micro_batch_size, section.num_microbatches
    size, count = size and size * parts, count and count // parts
    if size is None:
        count = count or (usual_count if usual_count and global_batch_size >= dp * usual_count else None)
        size = global_batch_size // (dp * count) if count else 1
        notes.add("micro_batch_size", None, Sentence("is not stated, read as {}", size))
    if size < 1 or global_batch_size < size * dp:
        raise InputError(
            Sentence(
                "training.global_batch_size is {}; micro_batch_size {} x dp {} = {} or more is needed.",
                global_batch_size,
                max(size, 1),
                dp,
                max(size, 1) * dp,
            )
        )
    if global_batch_size % (size * dp):
        notes.add(
            "micro_batch_size",
            size,
            Sentence("x dp {} = {} does not divide the global batch of {}", dp, size * dp, global_batch_size),
        )
    elif count is not None and count != global_batch_size // (size * dp):
        notes.add(
            "num_microbatches", count, Sentence("does not fit: {} / ({} x {}) samples are used", global_batch_size, size, dp)
        )
    return size


def _context_parallel(
    section: StrategySection, notes: Notes, cp: int, heads_per_rank: int, software: RecordSoftware
) -> tuple[CpAlgo, int]:
    """Algorithm and Ulysses degree; a hybrid without one gets the smallest that its heads allow, as in MindSpeed."""
    if cp == 1:
        return CpAlgo.NONE, 1
    name = section.cp_algo.lower()
    if "hybrid" in name:
        stated = software.flag_value("ulysses-degree-in-cp") or ""
        if stated.isdecimal() and 1 < int(stated[:9]) < cp and cp % int(stated[:9]) == 0:
            return CpAlgo.HYBRID, int(stated)
        degree = next((u for u in range(2, cp // 2 + 1) if cp % u == 0 and heads_per_rank % u == 0), 1)
        notes.add("cp_algo", name, Sentence("has no Ulysses degree, read as {} inside cp {}", degree, cp))
        return (CpAlgo.HYBRID, degree) if degree > 1 else (CpAlgo.RING, 1)
    if "ulysses" in name or name == "a2a":
        return CpAlgo.ULYSSES, cp
    if name in ("kv_allgather", "all_gather", "kvallgather_cp_algo"):
        return CpAlgo.KV_ALLGATHER, 1
    if "ring" in name or name in ("p2p", "megatron_cp_algo"):
        return CpAlgo.RING, 1
    ulysses = software.software.stack == "mindspeed-llm"  # MindSpeed-LLM's default of --context-parallel-algo; Megatron's is p2p
    notes.add(
        "cp_algo",
        name or None,
        Sentence("is read as {}, the framework's default", Sentence("ulysses") if ulysses else Sentence("ring")),
    )
    return (CpAlgo.ULYSSES, cp) if ulysses else (CpAlgo.RING, 1)


def _expert_degrees(
    section: StrategySection, notes: Notes, degrees: Degrees, model: ModelShape, software: RecordSoftware
) -> tuple[int, int]:
    """Expert parallel degree, and the tensor parallel degree of experts.

    Without a statement the latter is that of the framework: tp in Megatron-Core, in frameworks built on it and in MindFormers; 1
    in Megatron-Bridge's recipes, in fully sharded data parallelism, and if tp ranks hold whole experts.
    """
    ep, etp = section.ep, section.etp or 1
    if model.moe is None:
        if ep * etp > 1:
            notes.add("ep", ep, Sentence("has no effect without experts"))
        return 1, 1
    ranks = degrees.tp * degrees.cp * degrees.dp
    if section.etp is None and degrees.tp > 1:
        whole = software.is_bridge or software.software.stack == "fsdp" or software.has("moe-tp-extend-ep")
        etp = 1 if whole or ranks % (ep * degrees.tp) else degrees.tp
        notes.add("etp", None, Sentence("is not stated, read as {}", etp))
    if ranks % (ep * etp):
        raise InputError(
            Sentence(
                "strategy.ep {} x etp {} = {} do not divide the tp {} x cp {} x dp {} = {} devices of a pipeline stage.",
                ep,
                etp,
                ep * etp,
                degrees.tp,
                degrees.cp,
                degrees.dp,
                ranks,
            )
        )
    if model.moe.num_experts % ep:
        raise refused("strategy.ep", ep, Sentence("a divisor of model.moe.num_experts {}", model.moe.num_experts))
    return ep, etp


def _optimizer_sharding(section: StrategySection, degrees: Degrees, dp: int, software: RecordSoftware) -> tuple[int, int]:
    """ZeRO stage and ranks that share a state. FSDP shards everything over ``fsdp_shard_size`` ranks.

    PyTorch's FSDP frees weights behind a forward, but under a pipeline keeps them by default, because every micro batch would
    gather them again; its context-parallel ranks share states too, where a shard size counts data-parallel ranks alone
    [torchtitan, distributed/fsdp.py].
    """
    shard, stage, distributed = section.fsdp_shard_size, section.zero_stage, section.distributed_optimizer
    stack = software.software.stack
    if stage is None:
        if shard is not None or stack == "fsdp":
            stage = 2 if stack == "fsdp" and degrees.pp > 1 else 3
        elif stack == "megatron-deepspeed" if distributed is None else distributed:
            stage = 2 if stack == "mindformers" and software.has("gradient-accumulation-shard") else 1
        else:
            stage = 0
    if stack == "fsdp" and shard == dp:
        shard = dp * degrees.cp
    return stage, min(shard or 0, dp * degrees.cp)


def _dispatcher(section: StrategySection, notes: Notes, software: RecordSoftware) -> Dispatcher:
    """Null is the framework's default: all-gather in MindSpeed-LLM, whose releases follow Megatron's, else all-to-all.

    Megatron-Bridge's recipes switch to DeepEP or HybridEP where experts span nodes, also where a table does not say so.
    """
    name = section.moe_dispatcher.lower()
    usual = Dispatcher.ALLGATHER if software.software.stack == "mindspeed-llm" else Dispatcher.ALLTOALL
    if software.is_bridge:
        usual = Dispatcher.TWO_LEVEL
    if name and name not in _DISPATCHERS:
        notes.add("moe_dispatcher", name, Sentence("is not a known dispatcher, read as {}", usual.label))
    return _DISPATCHERS.get(name, usual)


def _features(notes: Notes, named: Sequence[Flag], software: RecordSoftware, *, interleaved: bool, is_moe: bool) -> Feature:
    features = software.features
    for flag in sorted(named, key=lambda flag: flag.name):
        features |= flag.on & ~Feature.CUDA_GRAPH  # the software's own entry may switch CUDA graphs on again
        if flag.effect is Effect.NOT_UNDERSTOOD:
            notes.add("features", flag.name, Sentence("is not a known switch, left out"))
    is_nemo = software.software.stack == "nemo"
    runs_script = software.software.stack == "megatron-lm" and is_moe and not named and not software.lists_switches
    if is_nemo or runs_script:
        features |= _EXCHANGE_OVERLAP & ~software.features_off
    if is_nemo and not named:
        features |= Feature.TP_COMM_OVERLAP & ~software.features_off
        if software.captures_steps and is_moe and software.cuda_graph is None:
            features |= Feature.CUDA_GRAPH | Feature.MOE_COMM_OVERLAP
    if software.cuda_graph or (software.cuda_graph is None and any(flag.on & Feature.CUDA_GRAPH for flag in named)):
        features |= Feature.CUDA_GRAPH
    if interleaved and software.software.stack in _MEGATRONS and software.overlaps_sends:
        features |= Feature.OVERLAP_P2P
    return features
