"""What the cost model counts for a case, by the names of the executed counts."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from app.jobs.job import parse_job
from cost_models.constants import prior_constants
from cost_models.layer.activations import layer_activations
from cost_models.schedules.orders import rank_orders
from cost_models.schedules.schedule import PipelineShape
from cost_models.shapes.flops import attention_score_flops_per_token, layer_flops_per_token
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.parameters import layer_parameters
from cost_models.shapes.strategy import StrategyBatch
from cost_models.step.stage_costs import stage_costs
from cost_models.step.traffic import GroupTraffic, step_traffic

STATES = {"gradients": "gradients", "master": "optimizer_master_weights", "moments": "optimizer_moments"}
WEIGHT_BYTES = {"bf16": 2, "fp32": 4}


def job_of(case: dict[str, Any], year: float | None) -> dict[str, Any]:
    """The case as a job file. Without a year the newest release is meant."""
    plan = case["strategy"]
    replicas = case["num_devices"] // (plan.get("tp", 1) * plan.get("pp", 1))
    sequences = plan["micro_batch_size"] * case["num_micro_batches"] * replicas
    training = {"seq_length": case["seq_length"], "global_batch_size": sequences, "precision": case["precision"]}
    if "moe" in case["model"]:
        training["router_balance"] = "forced"
    return {
        "model": case["model"],
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": case["num_devices"]},
        "training": training,
        "software": {"stack": case.get("stack", "megatron-lm"), "target": "any"} | ({"year": year} if year else {}),
        "strategy": plan,
    }


class Predicted:
    """Counts of one case. Raises the errors of a job file that is refused."""

    def __init__(self, case: dict[str, Any], year: float | None) -> None:
        job = parse_job(job_of(case, year), folder=Path(), labels={})
        assert job.strategy is not None
        self.case, self.workload, self.strategy = case, job.workload, job.strategy
        self.constants = prior_constants(job.workload.cluster.profile.family)

    @cached_property
    def _memory(self) -> dict[str, Any]:
        return stage_costs(self.workload, self.strategy, self.constants).memory_bytes

    def parameters(self, rank: int) -> float:
        """Parameters that a pipeline rank holds; under FSDP its shard, in FP32."""
        precision = "fp32" if self.workload.software_traits.fp32_shards else self.case["precision"]
        return float(self._memory["weights"][rank]) / WEIGHT_BYTES[precision]

    def states(self, rank: int) -> dict[str, float]:
        """Bytes of gradients, master weights and moments of a pipeline rank."""
        return {name: float(self._memory[part][rank]) for name, part in STATES.items()}

    def layer_bytes(self) -> dict[str, float]:
        """Bytes that a layer keeps from its forward, by its kind: dense or moe."""
        keys, _ = layer_keys(self.workload, StrategyBatch.of([self.strategy]))
        kinds = {"moe" if kind.moe else "dense": kind for kind in self.workload.model.layer_kinds()}
        kept = {name: layer_activations(self.workload, keys, moe=kind.moe, local=kind.local) for name, kind in kinds.items()}
        full = self.case["strategy"].get("recompute", {}).get("granularity") == "full"
        return {name: float((found.input_bytes if full else found.saved_bytes)[0]) for name, found in kept.items()}

    def layer_parameters(self, kind: str) -> int:
        """Parameters of a whole layer of a kind: dense or moe."""
        return layer_parameters(self.workload.model, moe=kind == "moe").total

    @cached_property
    def traffic(self) -> dict[str, tuple[int, float]]:
        """Bytes that a rank sends in each group, at the pipeline rank that sends the most."""

        def of(group: GroupTraffic) -> tuple[int, float]:
            return group.stage, sum(tier.bytes_moved for tier in group.tiers)

        return {group.group: of(group) for group in step_traffic(self.workload, self.strategy, self.constants)}

    def forward_flops(self) -> dict[str, float]:
        """FLOPs of all forwards of a rank of each stage in a step: of linear layers, and of all scores."""
        model, training = self.workload.model, self.workload.training
        kinds = model.kinds_of_layers()
        kinds = [*kinds, *kinds[-1:] * model.mtp_num_layers]
        seq = training.seq_length
        linear = sum(layer_flops_per_token(model, 0.0, moe=kind.moe, local=kind.local) for kind in kinds)
        linear += 2.0 * model.hidden_size * model.vocab_size * (1 + model.mtp_num_layers)
        linear += 4.0 * model.hidden_size**2 * model.mtp_num_layers
        scores = 2.0 * len(kinds) * attention_score_flops_per_token(model, seq)
        return {"linear": self._tokens * linear / self.strategy.tp, "attention": self._tokens * scores / self.strategy.tp}

    def repeated_flops(self) -> float:
        """FLOPs of linear layers that the model's figure leaves out: routers, and projections that ranks repeat."""
        model, strategy = self.workload.model, self.strategy
        kinds = model.kinds_of_layers()
        routers = [*kinds, *kinds[-1:] * model.mtp_num_layers]
        found = 0.0
        if model.moe is not None:
            found += 2.0 * model.hidden_size * model.moe.num_experts * sum(kind.moe for kind in routers) / strategy.tp
        if model.mla is not None and not strategy.sequence_parallel:
            latents = model.mla.q_lora_rank + model.mla.kv_lora_rank + model.mla.qk_rope_head_dim
            found += 2.0 * model.hidden_size * latents * model.num_layers * (strategy.tp - 1) / strategy.tp
        return self._tokens * found

    @property
    def _tokens(self) -> int:
        return int(self.case["seq_length"] * self.case["strategy"]["micro_batch_size"] * self.case["num_micro_batches"])

    def order(self, rank: int) -> str:
        """Passes of a pipeline rank: F with its chunk, and B."""
        plan, strategy = self.case["strategy"], self.strategy
        shape = PipelineShape(
            strategy.schedule,
            strategy.pp,
            strategy.vpp,
            self.case["num_micro_batches"],
            plan.get("microbatch_group_size_per_vp_stage") or strategy.pp,
        )
        return " ".join(f"F{task.chunk}" if task.kind.name.startswith("F") else "B" for task in rank_orders(shape)[rank])
