"""Tensors of a layer: their sums are those of the layer model, module by module."""

from dataclasses import replace
from functools import reduce
from itertools import product
from operator import or_

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.costs import layer_costs
from cost_models.layer.modules import layer_compute
from cost_models.layer.overlap import layer_comm
from cost_models.layer.tensors import TensorCosts, chosen_activations, chosen_costs, tensor_costs
from cost_models.shapes.recompute_modules import MODULES, RecomputeModule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.tensors import RECOMPUTABLE, TENSORS, Tensor, TensorChoice, TensorShare, covering_modules, tensor_names
from cost_models.shapes.workload import LocalAttention, ModelShape
from tests.workloads import DENSE, GROUPED, LATENT, SPARSE, constants, device, keys, network, workload

MODELS = (DENSE, GROUPED, SPARSE, LATENT, replace(LATENT, sandwich_norm=True), replace(GROUPED, attention_output_gate=True))
COLUMNS = (
    {},
    {"tp": 2, "sequence_parallel": True},
    {"features": DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION},
    {"features": DEFAULT_FEATURES | Feature.FUSED_ROPE, "ep": 4},
    {"cp": 2, "ulysses_degree": 2},
    {"features": DEFAULT_FEATURES | Feature.MOE_ALLTOALL_OVERLAP_COMM, "ep": 4, "dispatcher": 2},
)


def costs(model: ModelShape, *, moe: bool, local: bool = False, stack: str = "mindspeed-llm", **columns: object) -> TensorCosts:
    job = workload(model, stack=stack)  # recompute of mindspeed-llm drops every norm and activation
    return tensor_costs(job, keys(**columns), device(job), network(job), moe=moe, local=local)


def kinds(model: ModelShape) -> tuple[bool, ...]:
    return tuple(sorted(set(model.moe_layers())))


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_tensors_of_a_class_are_all_that_a_layer_keeps_of_it(model: ModelShape, columns: dict[str, object]) -> None:
    for moe, stack in product(kinds(model), ("megatron-lm", "mindspeed-llm")):
        saved = layer_activations(workload(model, stack=stack), keys(**columns), moe=moe).saved
        found = costs(model, moe=moe, stack=stack, **columns).bytes
        for name, kept in saved.items():
            own = sum(float(each[0]) for tensor, each in found.items() if TENSORS[tensor].saved_as == name)
            assert own == pytest.approx(float(kept[0]), rel=1e-9)
        assert all(float(each[0]) > 0 for each in found.values())


def test_a_recurrence_keeps_what_only_the_host_can_take() -> None:
    linear = LocalAttention("linear", 4, num_key_heads=8, num_value_heads=8, key_head_dim=128, value_head_dim=128)
    found = costs(replace(GROUPED, local_attention=linear), moe=False, local=True)
    assert Tensor.ATTENTION_REST in found.bytes
    assert Tensor.ATTENTION_REST not in found.again_s


@pytest.mark.parametrize(
    ("module", "tensors"),
    [
        (RecomputeModule.LAYERNORM, Tensor.NORM_OUTPUT),
        (RecomputeModule.MLA_UP_PROJ, Tensor.QUERIES | Tensor.KEYS_VALUES),
        (RecomputeModule.MLP_ACT, Tensor.MLP_ACTIVATION | Tensor.EXPERT_ACTIVATION | Tensor.SHARED_ACTIVATION),
        (
            RecomputeModule.MLP,
            Tensor.MLP_HIDDEN | Tensor.MLP_ACTIVATION,
        ),
        (
            RecomputeModule.MOE,
            Tensor.ROUTER
            | Tensor.EXPERT_INPUT
            | Tensor.EXPERT_HIDDEN
            | Tensor.EXPERT_ACTIVATION
            | Tensor.SHARED_HIDDEN
            | Tensor.SHARED_ACTIVATION,
        ),
    ],
)
@pytest.mark.parametrize("moe", [False, True])
def test_a_module_drops_the_bytes_of_its_tensors_and_takes_their_time(
    module: RecomputeModule, tensors: Tensor, moe: bool
) -> None:
    if not MODULES[module].in_layer(LATENT, moe):
        return
    job, key = workload(LATENT, stack="mindspeed-llm"), keys(ep=4)
    again = keys(ep=4, recompute=1, recompute_modules=module)
    before, after = (layer_activations(job, each, moe=moe).saved_bytes[0] for each in (key, again))
    found = costs(LATENT, moe=moe, ep=4)
    assert float(found.bytes_of(tensors)[0]) == pytest.approx(float(before - after), rel=1e-9)
    compute = layer_compute(job, again, device(job), moe=moe)
    expected = float(compute.selective_recompute[0])
    if module in (RecomputeModule.MLP, RecomputeModule.MOE):  # which also repeat matmuls whose output no gradient needs
        expected -= float(compute.matmuls.last[0])
    if module is RecomputeModule.MOE:  # beside which the exchange and the routing count
        _, exchange = layer_comm(job, key, network(job), compute, constants(), moe=True)
        expected += float(exchange.dispatch_s[0]) + float((found.again_s[Tensor.ROUTER] - compute.matmuls.router)[0])
    assert float(found.recomputed_s(tensors)[0]) == pytest.approx(expected, rel=1e-9)


def test_queries_and_keys_rotate_once() -> None:
    found = costs(LATENT, moe=True)
    apart = [float(found.recomputed_s(tensor)[0]) for tensor in (Tensor.QUERIES, Tensor.KEYS_VALUES)]
    together = float(found.recomputed_s(Tensor.QUERIES | Tensor.KEYS_VALUES)[0])
    assert together == pytest.approx(sum(apart) - float(found.rope_s[0]), rel=1e-12)
    assert float(found.rope_s[0]) > 0


def test_hand_worked_bytes_of_latent_attention() -> None:
    # 2,048 tokens, 8 heads: queries 2 (8 x 96 + 256), keys and their latents 2 (8 x 96 + 128) with tables of 8 x 32, output
    # 2 x 8 x 64 + 64 x 8. The copy of the values, 2 x 8 x 64, stays with the latents whatever is recomputed.
    found = costs(LATENT, moe=False)
    assert float(found.bytes[Tensor.QUERIES][0]) == 2048 * 2 * (8 * 96 + 256)
    assert float(found.bytes[Tensor.KEYS_VALUES][0]) == 2048 * (2 * (8 * 96 + 128) + 8 * 32)
    assert float(found.bytes[Tensor.ATTENTION_OUTPUT][0]) == 2048 * (2 * 8 * 64 + 64 * 8)
    assert float(found.bytes[Tensor.LATENTS][0]) == 2048 * 2 * (256 + 128 + 32 + 8 * 64)
    assert float(found.bytes[Tensor.MLP_HIDDEN][0]) == 2 * float(found.bytes[Tensor.MLP_ACTIVATION][0]) == 2048 * 4 * 4096


def test_copies_hide_behind_the_compute_of_their_pass_and_cost_it_their_share_of_the_memory_bandwidth() -> None:
    found = costs(DENSE, moe=False)
    window = float(found.window_forward_s[0])
    moved = found.window_forward_s * found.host_bytes_per_s
    copies = found.copies(2.0 * moved)
    assert float(copies.forward_s[0]) == pytest.approx(window * (1.0 + found.stretch), rel=1e-9)
    beside = min(2.0 * window, float(found.window_backward_s[0]))
    assert float(copies.contention_backward_s[0]) == pytest.approx(found.stretch * beside, rel=1e-9)
    whole = copies.exposed_forward_s + copies.exposed_backward_s + copies.masked_s
    assert float(whole[0]) == pytest.approx(4.0 * window, rel=1e-9)
    job = workload(DENSE)
    assert found.stretch == job.cluster.profile.host_link_bytes_per_s / job.cluster.profile.hbm_bytes_per_s


@pytest.mark.parametrize(("stack", "times"), [("megatron-lm", 1), ("mindspeed-llm", 0)])
def test_the_output_of_attention_is_copied_with_its_inputs_where_groups_copy_what_they_save(stack: str, times: int) -> None:
    """Queries, keys and values of 16 bits, 2 (H + 2 G) d bytes a token; the output 2 H d, and 64 H of softmax on Ascend."""
    found = costs(GROUPED, moe=False, stack=stack)
    h, g, d = GROUPED.num_attention_heads, GROUPED.num_query_groups, GROUPED.kv_channels
    inputs, output = 2048 * 2 * (h + 2 * g) * d, 2048 * (2 * h * d + 64 * h)
    assert float(found.bytes_of(Tensor.QUERY_KEY_VALUE)[0]) == pytest.approx(inputs)
    assert float(found.copied_bytes(Tensor.QUERY_KEY_VALUE)[0]) == pytest.approx(inputs + times * output)
    both = Tensor.QUERY_KEY_VALUE | Tensor.ATTENTION_OUTPUT
    assert float(found.bytes_of(both)[0]) == pytest.approx(inputs + output)
    assert float(found.copied_bytes(both)[0]) == pytest.approx(inputs + output + times * output)
    assert float(found.copied_bytes(Tensor.ATTENTION_OUTPUT)[0]) == pytest.approx(output)


@pytest.mark.parametrize("modules", [RecomputeModule.LAYERNORM, RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT])
def test_tensors_of_recomputed_modules_are_no_choice_and_others_keep_their_bytes(modules: RecomputeModule) -> None:
    gone = Tensor.NORM_OUTPUT
    if RecomputeModule.MLP_ACT in modules:
        gone |= Tensor.EXPERT_ACTIVATION | Tensor.SHARED_ACTIVATION
    whole, left = costs(LATENT, moe=True), costs(LATENT, moe=True, recompute=1, recompute_modules=int(modules))
    assert set(left.bytes) == {tensor for tensor in whole.bytes if tensor not in gone}
    assert all(float(left.bytes[tensor][0]) == float(whole.bytes[tensor][0]) for tensor in left.bytes)


def test_what_a_choice_does_to_a_layer() -> None:
    job, key = workload(LATENT, stack="mindspeed-llm"), keys(ep=4)
    whole_costs = layer_costs(job, key, device(job), network(job), moe=True)
    whole = layer_activations(job, key, moe=True)
    found = costs(LATENT, moe=True, ep=4)
    choice = TensorChoice(Tensor.NORM_OUTPUT | Tensor.ROUTER, Tensor.EXPERT_INPUT)
    kept, priced = chosen_activations(whole, found, choice), chosen_costs(whole_costs, found, choice)
    gone = found.bytes_of(choice.recompute | choice.swap)
    assert float(kept.saved_bytes[0]) == pytest.approx(float(whole.saved_bytes[0] - gone[0]))
    assert sum(float(each[0]) for each in kept.saved.values()) == pytest.approx(float(kept.saved_bytes[0]))
    working = found.bytes_of(choice.recompute) + 2.0 * found.bytes_of(choice.swap)
    assert float(kept.transient_bytes[0] - whole.transient_bytes[0]) == pytest.approx(float(working[0]))
    copies = found.copies(found.bytes_of(choice.swap))
    forward, backward = copies.forward_s, copies.backward_s
    again = found.recomputed_s(choice.recompute)
    assert float(priced.forward_s[0] - whole_costs.forward_s[0]) == pytest.approx(float(forward[0]))
    assert float(priced.backward_s[0] - whole_costs.backward_s[0]) == pytest.approx(float((backward + again)[0]))
    for name, table in (("forward_s", priced.forward), ("backward_s", priced.backward)):
        assert sum(float(part[0]) for part in table.values()) == pytest.approx(float(getattr(priced, name)[0]))


@pytest.mark.parametrize("host_kernel_s", [1e-9, 20e-6, 2e-3])
@pytest.mark.parametrize(
    ("module", "tensors"),
    [
        (RecomputeModule.LAYERNORM, Tensor.NORM_OUTPUT),
        (RecomputeModule.MLP_ACT, Tensor.EXPERT_ACTIVATION | Tensor.SHARED_ACTIVATION),
    ],
)
def test_the_host_dispatches_the_tensors_of_a_module_as_the_module(
    module: RecomputeModule, tensors: Tensor, host_kernel_s: float
) -> None:
    job = workload(LATENT, stack="mindspeed-llm")
    on = device(job, host_kernel_s=host_kernel_s)
    plain, by_module = (keys(ep=4, **more) for more in ({}, {"recompute": 1, "recompute_modules": int(module)}))
    whole, repeated = (layer_costs(job, key, on, network(job), moe=True) for key in (plain, by_module))
    found = chosen_costs(whole, tensor_costs(job, plain, on, network(job), moe=True), TensorChoice(tensors))
    assert float(found.backward_s[0]) == pytest.approx(float(repeated.backward_s[0]), rel=1e-9)
    assert float(found.backward["host"][0]) == pytest.approx(float(repeated.backward["host"][0]), rel=1e-9)
    assert float(found.host["backward"][0]) == pytest.approx(float(repeated.host["backward"][0]), rel=1e-9)


def test_modules_that_cover_a_plan() -> None:
    first, second = TensorChoice(Tensor.NORM_OUTPUT, Tensor.KEYS_VALUES), TensorChoice(Tensor(0), Tensor.EXPERT_INPUT)
    plan = ((((TensorShare(first),),), ((TensorShare(TensorChoice(), 2), TensorShare(second)),)),)
    assert covering_modules(plan) == RecomputeModule.LAYERNORM | RecomputeModule.MLA_UP_PROJ | RecomputeModule.MOE


def test_every_tensor_has_a_class_that_layers_keep_and_nothing_else_is_recomputable() -> None:
    classes = set(layer_activations(workload(LATENT), keys(), moe=True).saved)
    assert {entry.saved_as for entry in TENSORS.values()} <= classes
    assert set(tensor_names(RECOMPUTABLE)) == {str(t.name).lower() for t, entry in TENSORS.items() if entry.again}


@pytest.mark.parametrize(("model", "moe"), [(DENSE, False), (LATENT, True), (SPARSE, True)])
@pytest.mark.parametrize("columns", [{"tp": 1}, {"tp": 8, "micro_batch_size": 2}, {"tp": 2, "cp": 2}])
def test_swapping_attention_costs_less_than_copies_of_all_its_tensors(
    model: ModelShape, moe: bool, columns: dict[str, object]
) -> None:
    job = workload(model)
    at, net = device(job), network(job)
    plain = layer_costs(job, keys(**columns), at, net, moe=moe)
    swapped = layer_costs(job, keys(features=DEFAULT_FEATURES | Feature.SWAP_ATTENTION, **columns), at, net, moe=moe)
    tensors = tensor_costs(job, keys(**columns), at, net, moe=moe)
    attention = [tensor for tensor, each in TENSORS.items() if each.saved_as == "attention" and tensor in tensors.bytes]
    choice = TensorChoice(swap=reduce(or_, attention) | Tensor.NORM_OUTPUT)
    copied = chosen_costs(plain, tensors, choice)
    assert float(tensors.bytes_of(choice.swap)[0]) > 0.0
    for name in ("forward_s", "backward_s"):
        assert float(getattr(plain, name)[0]) < float(getattr(swapped, name)[0]) < float(getattr(copied, name)[0])
