"""Two published trainings as they ran, with the memory of their fullest rank by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from cost_models.memory.peak import held_activations, memory_estimate
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorShare
from cost_models.shapes.workload import Workload
from cost_models.step.priced_groups import priced_groups
from scripts.case_studies.deepseek import MERGED, trained, workload_of
from scripts.pages.text import table

# A chunk is one layer; the first has only the embedding, the last only the head [llama-3, section 3.3.2].
LAYERS = [[0] + [1] * 15, *([1] * 16 for _ in range(6)), [1] * 15 + [0]]
LLAMA: dict[str, Any] = {
    "model": "llama-3.1-405b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8192},
    "training": {"seq_length": 8192, "global_batch_size": 2048, "precision": "bf16"},
    "software": {"target": "any"},
    "strategy": {
        "tp": 8,
        "pp": 16,
        "vpp": 8,
        "micro_batch_size": 1,
        "zero_stage": 2,
        "recompute": "none",
        "layer_layout": LAYERS,
    },
}
GIB = 2.0**30
PARTS = {
    "weights": ("weights",),
    "gradients": ("gradients",),
    "master weights and moments": ("optimizer_master_weights", "optimizer_moments"),
    "norms: inputs": ("activations_residual",),
    "norms: outputs": ("activations_norm_output",),
    "attention": ("activations_attention",),
    "MLP and experts": ("activations_mlp", "activations_routed_experts", "activations_shared_experts", "activations_router"),
    "layer that runs, loss": ("working_set", "logits"),
    "buffers between chunks": ("module_buffers",),
    "communicators and runtime": ("communicators", "runtime"),
}


def llama() -> tuple[Workload, ParallelStrategy]:
    """Llama 3.1 405B on 8,192 H100; stages keep only shards of gradients [llama-3, section 3.3.2 and table 4]."""
    job = parse_job(LLAMA)
    assert job.strategy is not None
    software = replace(job.workload.software, sharded_accumulation=True)
    return replace(job.workload, software=software), job.strategy


def without_products(strategy: ParallelStrategy) -> ParallelStrategy:
    """Copy with kernels that recompute the product of gate and up in the backward [xformers, swiglu_op.py]."""
    choice = TensorChoice(recompute=Tensor.MLP_ACTIVATION)
    return replace(strategy, tensor_plan=((((TensorShare(choice),),),) * strategy.pp,) * strategy.vpp)


def deepseek() -> tuple[Workload, ParallelStrategy]:
    """DeepSeek-V3 on 2,048 H800 [deepseek-v3, sections 3.2 and 3.3]."""
    return workload_of("trained"), trained(Schedule.DUALPIPE, 1, MERGED)


def rank_parts(workload: Workload, strategy: ParallelStrategy) -> list[dict[str, float]]:
    """Memory that each rank needs, by part of the breakdown, without the pool, which grows into free memory."""
    constants = constants_for(workload)
    ((_, group),) = priced_groups(workload, StrategyBatch.of([strategy]), constants, merge=False, tables=True)
    batch, stages, sharded = group.batch, group.stages, group.sharded
    held = held_activations(workload, stages, batch, group.num_microbatches, group.priced.activations)
    parts = memory_estimate(workload, batch, stages, sharded.parameters, sharded.trained, sharded.states, held, constants).parts
    of_ranks = range(strategy.pp)
    return [{name: float(part[rank, 0]) for name, part in parts.items() if name != "allocator_pool"} for rank in of_ranks]


def fullest(ranks: list[dict[str, float]]) -> dict[str, float]:
    """Memory of the fullest rank, by line of the table."""
    parts = max(ranks, key=lambda parts: sum(parts.values()))
    return {label: sum(parts[name] for name in names) for label, names in PARTS.items()}


def ran_section() -> str:
    """The table of parts, with its text."""
    job, strategy = llama()
    forms = (deepseek(), (job, strategy), (job, without_products(strategy)))
    columns = [fullest(rank_parts(*form)) for form in forms]
    rows = [(label, *(f"{column[label] / GIB:.1f}" for column in columns)) for label in PARTS]
    totals = [sum(column.values()) / GIB for column in columns]
    limit = job.cluster.profile.usable_hbm_bytes / GIB
    header = ("GiB on the fullest rank", "DeepSeek-V3", "405B", "405B, products made again")
    filled = table(header, [*rows, ("needed", *(f"{total:.1f}" for total in totals)), ("usable", *(f"{limit:.1f}",) * 3)])
    products = columns[1]["MLP and experts"] - columns[2]["MLP and experts"]
    return RAN.format(table=filled, over=totals[1] - limit, products=products / GIB, assumed=columns[1][list(PARTS)[-1]] / GIB)


RAN = """\
### Layouts that ran

Two trainings on 80 GB devices are priced here as jobs, because their reports state what their memory depends
on (`scripts/case_studies/ran_layouts.py`). No constant is fitted to them, and neither report states a peak.

{table}
- **DeepSeek-V3** on 2,048 H800 (`deepseek-v3`, sections 3.2 and 3.3) fits with the settings of its report:
  moments in 16 bits (`bf16_moments`), activation inputs in 8 bits (`fp8_activation_input`), recompute of
  norms, activation functions and up-projections, one embedding for the prediction layer and the model. These
  points are in doubt: the place of its 61 layers (four a stage here); the 1.5 bytes in which it keeps
  attention's output, 2 here, 2.1 GiB less on a middle rank; dispatch in 8 bits, 16 here; whether the
  optimizer is shared over both copies of a stage, 2.7 GiB less; and the load of the fullest rank, 1.1 times
  the mean here, of which each tenth is 2.3 GiB. The figure is the expected need: at a confidence of 90 % the
  remaining room is too small.
- **Llama 3.1 405B** on 8,192 H100 (`llama-3`, section 3.3.2) has gradients and optimizer sharded, no
  checkpoint, and eight chunks of one layer (its first chunk holds the embedding alone). It needs {over:.1f}
  GiB too much, from 141 layers in flight on the second rank, 2 · 14 + 7 · 16 + 1. Gradients kept whole until
  the step ends would add 10.2. The byte in doubt is the product of gate and up: 2 bytes a token and channel,
  104 MiB a layer, {products:.1f} GiB. Megatron keeps it for the second matmul. The fused operator of Llama's
  authors keeps only gate and up and makes the product again in its backward (`xformers`, swiglu_op.py), which
  nobody would call checkpointing. Whether the training used it is not published. The layout is therefore
  infeasible with `recompute: none`, and feasible with `recompute: mlp_act`. Smaller doubts are the input and
  output of a chunk, which that training frees early, and {assumed:.1f} GiB of communicators and runtime,
  which are assumed.
"""
