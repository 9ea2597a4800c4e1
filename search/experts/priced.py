"""The value of balance for one strategy, from estimates with the loads of its experts, and the plan that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.communication import network_of
from cost_models.memory.model_states import StageParameters, gradient_bytes, model_states
from cost_models.network.collectives import send_recv_s
from cost_models.network.rank_placement import crossed_tier
from cost_models.shapes.canonical import expert_domain_devices
from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.layout import default_layout
from cost_models.shapes.parameters import layer_rank_parameters
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate
from search.experts.packing import Floats, Ints
from search.experts.placement import Placement
from search.experts.plan import ExpertPlan, Prices, Terms, expected, plan, unchanged

Estimator = Callable[[Workload, StrategyBatch, Constants], Estimate]


@dataclass(frozen=True)
class PricedPlan:
    """A plan and the step of its job: with equal ranks, with the current placement, and with the new one. [s]

    ``exposed_*_s`` ``[layer]``: the extra time of a step for the fullest rank of each layer; they sum to the time above
    ``balanced_s``. ``after_s`` includes the gradients of copies, and excludes the moves, which take ``move_s`` once.
    """

    plan: ExpertPlan
    prices: Prices
    balanced_s: float
    before_s: float
    after_s: float
    exposed_before_s: Floats
    exposed_after_s: Floats
    move_s: float
    share_s: float

    @property
    def is_worth(self) -> bool:
        """Whether the plan changes anything."""
        return self.plan.change.placement is not self.plan.current

    @property
    def break_even_steps(self) -> float | None:
        """Steps after which the moves have paid; ``None`` without a gain."""
        gained_s = (self.before_s - self.after_s + self.share_s) * self.plan.realised_fraction - self.share_s
        return self.move_s / gained_s if self.is_worth and gained_s > 0.0 else None


def nodes_of_group(workload: Workload, strategy: ParallelStrategy, num_experts: int) -> int:
    """Nodes, or supernodes, over which an expert-parallel group and its experts spread evenly; 1 where they do not."""
    per_node = min(strategy.ep, max(expert_domain_devices(workload.cluster) // strategy.etp, 1))
    number = strategy.ep // per_node
    return number if strategy.ep % per_node == 0 and num_experts % number == 0 else 1


def stages_of_moe_layers(workload: Workload, strategy: ParallelStrategy) -> Ints:
    """The pipeline rank of each MoE layer; under a schedule that turns around, the column of its virtual stage."""
    model = workload.model
    layout = strategy.layer_layout or default_layout(model, strategy.pp, strategy.vpp, strategy.schedule)
    stages = [stage for row in layout for stage, count in enumerate(row) for _ in range(count)]
    return np.array([stage for stage, is_moe in zip(stages, model.moe_layers(), strict=True) if is_moe], dtype=np.int64)


def priced_plan(
    workload: Workload,
    strategy: ParallelStrategy,
    constants: Constants,
    estimate: Estimator,
    counts: Floats,
    current: Placement,
    terms: Terms,
) -> PricedPlan:
    """Plan for the steps that follow the steps of ``counts`` ``[step, layer, expert]``; empty where no move makes it faster."""
    coming = expected(counts, terms)
    prices, before_s, balanced_s = prices_of(workload, strategy, constants, estimate, coming.shares, current, terms.num_nodes)
    excess = current.load_factors(coming.shares) - 1.0
    found = plan(coming, current, prices, terms)
    after_s, share_s = before_s, 0.0
    if found.change.placement is not current:
        share_s = prices.of_stages(found.change.share_s)
        loads = _with_loads(workload, found.change.placement, coming.shares)
        after_s = float(estimate(loads, StrategyBatch.of([strategy]), constants).step_time_s[0]) + share_s
        gained_s = (before_s - after_s + share_s) * found.realised_fraction - share_s
        if terms.valid_steps * gained_s <= prices.of_stages(found.change.move_s):
            found, after_s, share_s = unchanged(found, prices, terms), before_s, 0.0
    return PricedPlan(
        plan=found,
        prices=prices,
        balanced_s=balanced_s,
        before_s=before_s,
        after_s=after_s,
        exposed_before_s=_shared_out(before_s - balanced_s, excess),
        exposed_after_s=_shared_out(after_s - balanced_s - share_s, found.change.load_factors - 1.0),
        move_s=prices.of_stages(found.change.move_s),
        share_s=share_s,
    )


def prices_of(
    workload: Workload,
    strategy: ParallelStrategy,
    constants: Constants,
    estimate: Estimator,
    shares: Floats,
    current: Placement,
    num_nodes: int,
) -> tuple[Prices, float, float]:
    """Prices of balance and moves for loads ``shares`` ``[layer, expert]``; the step with them, and with equal ranks. [s]"""
    batch = StrategyBatch.of([strategy])
    before, balanced = (estimate(_with_loads(workload, one, shares), batch, constants) for one in (current, None))
    before_s, balanced_s = float(before.step_time_s[0]), float(balanced.step_time_s[0])
    excess = current.load_factors(shares) - 1.0
    load_s = max(before_s - balanced_s, 0.0) / float(excess.sum()) if excess.any() else 0.0
    room_bytes = before.fit_rule.fit_limit_bytes - float(before.peak_memory_bytes[0])
    return _prices(workload, strategy, constants, load_s, room_bytes, num_nodes), before_s, balanced_s


def _shared_out(total_s: float, excess: Floats) -> Floats:
    whole = float(excess.sum())
    return excess * (total_s / whole) if whole > 0.0 else np.zeros_like(excess)


def _with_loads(workload: Workload, placement: Placement | None, shares: Floats) -> Workload:
    """The workload with loads of each slot, in the order of the ranks, or with equal ranks."""
    counts = None
    if placement is not None:
        slots = placement.slot_loads(shares)
        counts = ExpertCounts(tuple(map(tuple, slots.reshape(len(slots), -1).tolist())))
    training = replace(workload.training, expert_counts=counts, expert_spread=None, expert_load_factor=1.0)
    return replace(workload, training=training)


def _prices(
    workload: Workload, strategy: ParallelStrategy, constants: Constants, load_s: float, room_bytes: float, num_nodes: int
) -> Prices:
    """Prices of moves: weights, master copies and moments are sent whole [mindspeed-expert-placement]."""
    moe = workload.model.moe
    assert moe is not None
    batch = StrategyBatch.of([strategy])
    parameters = layer_rank_parameters(workload.model, batch, moe=True)[1] * strategy.ep / moe.num_experts
    none = np.zeros((1, 1))
    expert = StageParameters(none, parameters[None], *(none,) * 6)
    whole = model_states(workload, StrategyBatch.of([replace(strategy, zero_stage=0)]), expert)
    held = model_states(workload, batch, expert)
    expert_bytes = float((whole.total - whole.gradients + whole.swapped + whole.on_host)[0, 0])
    gradients = float(parameters[0] * gradient_bytes(workload, batch)[0])
    network, stages = network_of(workload, constants), stages_of_moe_layers(workload, strategy)

    def sent_s(num_bytes: float, ranks: int) -> float:
        return float(send_recv_s(num_bytes, ranks, strategy.etp, network))

    copy_bytes, layers = float(held.total[0, 0]), int(np.bincount(stages).max())
    per_node = strategy.ep // num_nodes
    inner, outer = (
        crossed_tier(ranks, strategy.etp, [tier.domain_devices for tier in network.tiers]) for ranks in (per_node, strategy.ep)
    )

    def ports(tier: int, ranks: int) -> float:
        """What a rank sends at once, over what it sends to one other."""
        each = network.tiers[tier]
        return float(each.rate(ranks - 1.0) / each.rate(1.0))

    return Prices(
        ports_inside=ports(int(inner), per_node),
        ports_between=ports(int(outer), strategy.ep),
        tiers_at_once=not network.sequential,
        load_s=load_s,
        move_inside_s=sent_s(expert_bytes, per_node),
        move_between_s=sent_s(expert_bytes, strategy.ep),
        share_inside_s=2.0 * sent_s(gradients, per_node),
        share_between_s=2.0 * sent_s(gradients, strategy.ep),
        expert_bytes=expert_bytes,
        copy_bytes=copy_bytes,
        spare_copies=max(int(room_bytes // (copy_bytes * layers)), 0),
        stage_of_layer=stages,
    )
