"""Rules of MindSpeed-LLM's FSDP2 backend: its checks, and what a file of it cannot say or makes another run than is priced.

A source has the file and the line of the backend.
"""

from __future__ import annotations

from cost_models.shapes.strategy import CpAlgo, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks import fully_sharded
from frameworks.fixed import Fixed
from frameworks.fully_sharded import stack_rule, whole_layers_rule
from frameworks.mindspeed_llm_fsdp2.families import CONTEXT_PARALLEL, KNOWN, is_trained, model_id_of, why_not_trained
from frameworks.mindspeed_llm_fsdp2.table import STACK, TABLE
from frameworks.offer_rules import dispatcher_rule, offered_rule, optimizer_rule, precision_rule, task_rule
from frameworks.physics.memory import tensor_plan_rule
from frameworks.placements import Placements, placement_rule
from frameworks.rule import Mask, Rule, either, every_row, rules_in

NAME = Sentence("MindSpeed-LLM's FSDP2")
_MESH = "[mindspeed-llm, fsdp2/distributed/parallel_state.py:97]"

TASK = task_rule("mindspeed_fsdp2_task", "[mindspeed-llm, fsdp2/utils/arguments.py:583]", NAME, Task.PRETRAIN, Task.SFT)
PRECISION = precision_rule("mindspeed_fsdp2_precision", "[mindspeed-llm, fsdp2/utils/arguments.py:444]", NAME, "bf16")
OPTIMIZERS = ("adam",)
OPTIMIZER = optimizer_rule("mindspeed_fsdp2_optimizer", "[mindspeed-llm, fsdp2/optim/optimizer.py]", NAME, *OPTIMIZERS)
MODEL = Rule(
    "mindspeed_fsdp2_model",
    "[mindspeed-llm, fsdp2/models/model_factory.py:106; mindspeed-llm, fsdp2/models/model_registry.py:25]",
    Sentence("the model is of a type whose layers in the backend are priced: {}", either(KNOWN)),
    lambda w, b: every_row(b, not is_trained(w.model)),
    lambda w, s: why_not_trained(w.model),
    job_only=True,
)
SHARDED_STACK = stack_rule("mindspeed_fsdp2_stack", "[mindspeed-llm, fsdp2/models/model_loader.py:121]", NAME, STACK)
COMPILED = Rule(
    "mindspeed_fsdp2_compile",
    "[mindspeed-llm, fsdp2/models/model_factory.py:54]",
    Sentence("neither layers nor the loss are compiled"),
    lambda w, b: every_row(b, w.software.torch_compile or w.software.compiled_loss),
    lambda w, s: Sentence("torch_compile: {} compiles neither layers nor the loss", NAME),
    job_only=True,
)
TENSOR_PARALLEL = Rule(
    "mindspeed_fsdp2_tp",
    _MESH,
    Sentence("tp is 1: fsdp_size is all devices"),
    lambda w, b: b.tp > 1,
    lambda w, s: Sentence("tp {}: the backend takes all devices as fsdp_size, which leaves none for tensor parallelism", s.tp),
)
PIPELINE = Rule(
    "mindspeed_fsdp2_pp",
    "[mindspeed-llm, fsdp2/utils/arguments.py:371]",
    Sentence("there is no pipeline"),
    lambda w, b: b.pp > 1,
    lambda w, s: Sentence("pp {}: the backend has no pipelines", s.pp),
)
SHARDS = Rule(
    "mindspeed_fsdp2_shards",
    "[mindspeed-llm, fsdp2/distributed/parallel_state.py:93]",
    Sentence("weights are sharded over all devices: a data_parallel_size above 1 is refused"),
    lambda w, b: (b.optimizer_shard_size > 0) & (b.optimizer_shard_size < b.dp * b.cp),
    lambda w, s: Sentence("optimizer_shard_size {}: the backend shards over all {} devices", s.optimizer_shard_size, s.dp * s.cp),
)
ZERO_STAGE = Rule(
    "mindspeed_fsdp2_zero_stage",
    "[mindspeed-llm, fsdp2/models/model_factory.py:162]",
    Sentence("zero_stage is 3 (reshard_after_forward true) or 2 (false)"),
    lambda w, b: (b.zero_stage < 2) & (b.dp * b.cp > 1),
    lambda w, s: Sentence("zero_stage {}: the backend shards weights and gradients", s.zero_stage),
)
EXPERTS = Rule(
    "mindspeed_fsdp2_etp",
    "[mindspeed-llm, fsdp2/distributed/expert_parallel/expert_parallel.py:108]",
    Sentence("an expert is whole on a rank: etp is 1"),
    lambda w, b: b.etp > 1,
    lambda w, s: Sentence("etp {}: the backend divides experts over ep alone", s.etp),
)
EXPERT_SHARDS = Rule(
    "mindspeed_fsdp2_expert_shards",
    "[mindspeed-llm, fsdp2/distributed/parallel_state.py:78]",
    Sentence("ep divides the devices: ep_fsdp_size is the rest, since nothing adds the gradients of replicas of an expert"),
    lambda w, b: (b.dp * b.cp) % b.ep != 0,
    lambda w, s: Sentence("ep {} does not divide {} devices", s.ep, s.dp * s.cp),
)
CONTEXT_MODEL = Rule(
    "mindspeed_fsdp2_cp_model",
    "[mindspeed-llm, fsdp2/distributed/context_parallel/context_parallel_mappings.py:75]",
    Sentence("context parallelism has attention for the model's type: {}", either(CONTEXT_PARALLEL)),
    lambda w, b: (b.cp > 1) & every_row(b, w.model.constants.model_type not in CONTEXT_PARALLEL),
    lambda w, s: Sentence(
        "cp {}: the backend has no attention for it of type {}", s.cp, w.model.constants.model_type or Sentence("unknown")
    ),
)
CONTEXT_ALGORITHM = Rule(
    "mindspeed_fsdp2_cp_algo",
    "[mindspeed-llm, fsdp2/distributed/context_parallel/context_parallel_functions.py:38]",
    Sentence("context parallelism is ulysses or ring"),
    lambda w, b: (b.cp > 1) & (b.cp_algo != CpAlgo.ULYSSES) & (b.cp_algo != CpAlgo.RING),
    lambda w, s: Sentence("{} over cp {}: the backend has ulysses and ring", s.cp_algo.label, s.cp),
)
RING_SEQUENCE = Rule(
    "mindspeed_fsdp2_ring",
    "[mindspeed-llm, fsdp2/train/trainer.py:597]",
    Sentence("ring cuts the sequence in 2 cp parts"),
    lambda w, b: (b.cp > 1) & (b.cp_algo == CpAlgo.RING) & (w.training.seq_length % (2 * b.cp) != 0),
    lambda w, s: Sentence("seq_length {} does not divide by 2 cp {}", w.training.seq_length, s.cp),
)
DISPATCHER = dispatcher_rule(
    "mindspeed_fsdp2_dispatcher",
    "[mindspeed-llm, fsdp2/distributed/expert_parallel/dispatcher.py:159]",
    NAME,
    TABLE,
    Sentence("experts are reached by alltoall"),
)
FEATURES = offered_rule("mindspeed_fsdp2_features", "[mindspeed-llm, fsdp2/utils/arguments.py]", NAME, TABLE)
TENSOR_PLAN = tensor_plan_rule("mindspeed_fsdp2_tensor_plan", "[mindspeed, fsdp/memory/recompute/recompute.py]", NAME)
WHOLE_LAYERS = whole_layers_rule("mindspeed_fsdp2_whole_layers", "[mindspeed, fsdp/memory/recompute/recompute.py]", NAME)
BY_RANK = Rule(
    "mindspeed_fsdp2_recompute",
    "[mindspeed, fsdp/memory/recompute/recompute.py]",
    Sentence("recompute is of all layers, or of the first ones"),
    lambda w, b: (
        (b.recompute == Recompute.FULL)
        & (
            (b.recompute_plan_index >= 0)
            | ~((b.recompute_method == RecomputeMethod.BLOCK) | (b.recompute_method == RecomputeMethod.UNIFORM))
        )
    ),
    lambda w, s: Sentence("recompute by rank: the backend takes names of layers"),
)
PLACEMENTS = Placements()
STAGES = placement_rule("mindspeed_fsdp2_stages", "[mindspeed-llm, fsdp2/utils/arguments.py:371]", NAME, PLACEMENTS)

_TRANSFORMERS = Sentence("dense layers are those of transformers, without fused kernels")
_ALONE = Sentence("dense layers and experts that run one by one have PyTorch's activation")
_UNSORTED = Sentence("experts that run one by one have PyTorch's permutation")
_GROUPED = Sentence("grouped experts have a fused activation")
_SORTED = Sentence("grouped experts without exchange have the fused permutation")


def _is_grouped(workload: Workload, batch: StrategyBatch) -> Mask:
    mask: Mask = every_row(batch, workload.model.moe is not None) & batch.has(Feature.MOE_GROUPED_GEMM)
    return mask


FIXED = (
    *fully_sharded.FIXED,
    Fixed(
        Feature.CHUNKED_LOSS,
        lambda w, b: every_row(b, model_id_of(w.model) is None or w.training.task.name is not Task.PRETRAIN),
        Sentence("only pre-training of the backend's own layers takes a loss by chunks"),
    ),
    Fixed(Feature.FUSED_NORM, lambda w, b: every_row(b, w.model.moe is None), _TRANSFORMERS),
    Fixed(Feature.FUSED_ROPE, lambda w, b: every_row(b, w.model.moe is None), _TRANSFORMERS),
    Fixed(Feature.FUSED_SWIGLU, lambda w, b: ~_is_grouped(w, b), _ALONE),
    Fixed(Feature.FUSED_SWIGLU, _is_grouped, _GROUPED, on=True),
    Fixed(Feature.MOE_PERMUTE_FUSION, lambda w, b: ~_is_grouped(w, b), _UNSORTED),
    Fixed(Feature.MOE_PERMUTE_FUSION, lambda w, b: _is_grouped(w, b) & (b.ep == 1), _SORTED, on=True),
)

RULES = rules_in(globals())
