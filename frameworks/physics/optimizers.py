"""Rules of the optimizer that apply to every target."""

from __future__ import annotations

from cost_models.shapes.switches import Feature
from cost_models.shapes.traits import Library
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.rule import Rule, effective_features, every_row, has_effect, none_of, rules_in

OF_ADAM = Feature.BF16_MOMENTS | Feature.SWAP_OPTIMIZER | Feature.REUSE_FP32_PARAM | Feature.OPTIMIZER_CPU_OFFLOAD
PRECISIONS = ("bf16", "fp32")


def _names(features: Feature) -> str:
    return joined(" and ", (str(each.name).lower() for each in Feature if each in features))


def _orthogonalises(workload: Workload) -> bool:
    return workload.training.optimizer.rules.orthogonalises


def _types_states(workload: Workload) -> bool:
    """Whether the stack's Adam can have states of any type beside weights of 16 bits."""
    on_gpus = workload.device_traits.library is not Library.CANN
    return on_gpus and workload.software_traits.uses_transformer_engine and not workload.keeps_fp32_weights


ADAM_SWITCHES = Rule(
    "adam_switches",
    "[megatron-0.19, optimizer_config.py; mindspeed, swap_optimizer_feature.py, reuse_fp32_param.py]",
    Sentence("{} belong to adam", _names(OF_ADAM)),
    lambda w, b: none_of(b) if w.training.optimizer.name == "adam" else has_effect(w, b, OF_ADAM),
    lambda w, s: Sentence(
        "{} with optimizer {}: only adam has them", _names(effective_features(w, s) & OF_ADAM), w.training.optimizer.name
    ),
)
WHOLE_MATRICES = Rule(
    "muon_whole_matrices",
    "[megatron-0.19, arguments.py, layer_wise_optimizer.py; mindspeed, muon_optimizer_feature.py]",
    Sentence("muon needs whole matrices: zero_stage is 0, or 1 over all data-parallel ranks"),
    lambda w, b: ((b.zero_stage > 1) | (b.optimizer_shard_size > 0)) if _orthogonalises(w) else none_of(b),
    lambda w, s: (
        Sentence("zero_stage {} divides matrices, and {} takes them whole: take 0 or 1", s.zero_stage, w.training.optimizer.name)
        if s.zero_stage > 1
        else Sentence(
            "optimizer_shard_size {} shares states in groups, and {} deals matrices to all data-parallel ranks: leave it out",
            s.optimizer_shard_size,
            w.training.optimizer.name,
        )
    ),
)
MUON_PRECISION = Rule(
    "muon_precision",
    "[megatron-0.19, emerging_optimizers.py; mindspeed, muon_optimizer_feature.py]",
    Sentence("muon trains in bf16 or fp32: frameworks refuse it in fp16, and in 8 bits its buffers are not known"),
    lambda w, b: every_row(b, _orthogonalises(w) and w.training.precision not in PRECISIONS),
    lambda w, s: Sentence(
        "{} does not train in {}: give training.precision {}",
        w.training.optimizer.name,
        w.training.precision,
        joined(" or ", PRECISIONS),
    ),
    job_only=True,
)
STATE_TYPES = Rule(
    "state_types",
    "[megatron-0.19, optimizer_config.py; transformer-engine, fused_adam.py]",
    Sentence(
        "types of adam's states need Transformer Engine on GPUs, 16-bit weights and zero_stage 1, and exclude {}", _names(OF_ADAM)
    ),
    lambda w, b: (
        none_of(b)
        if w.training.optimizer.state_types is None
        else (b.zero_stage != 1) | has_effect(w, b, OF_ADAM) | (not _types_states(w))
    ),
    lambda w, s: (
        Sentence("states in types of their own with {}, which keeps others", _names(effective_features(w, s) & OF_ADAM))
        if effective_features(w, s) & OF_ADAM
        else Sentence(
            "states in types of their own with zero_stage {}, precision {} and stack {} on {}",
            s.zero_stage,
            w.training.precision,
            w.software.stack,
            w.cluster.profile.device,
        )
    ),
)
RULES = rules_in(globals())
