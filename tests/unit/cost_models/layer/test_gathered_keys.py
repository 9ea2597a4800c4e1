"""Context parallelism that gathers keys and values, against PyTorch's and MindSpeed's own functions, run without devices.

Numbers of PyTorch: ``python -m scripts.oracle.gathered_keys`` with 2.13; bytes of one layer and rank in BF16, heads of 128.
Numbers of MindSpeed: ``AttnFuncWithCPAndKVAllGatherForSBHD`` with kernels that only allocate [mindspeed,
kvallgather_context_parallel.py], the same on all ranks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.communication import context_parallel_comm
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.gathered_keys import gathered_keys_bytes
from cost_models.shapes.layer_keys import LayerKeys, layer_keys
from cost_models.shapes.strategy import CpAlgo
from cost_models.shapes.workload import Software, Workload
from tests.worked_examples import worked
from tests.workloads import DENSE, GROUPED, LATENT, batch, device, network, workload

LINK = 18.3e9

# cp, tokens of a rank, heads, groups; then gathered bytes, bytes of a gradient send, most bytes held in a backward
PYTORCH = [
    (2, 512, 8, 8, 4194304, 4194304, 27262976),
    (4, 256, 8, 2, 1048576, 524288, 5509120),
    (8, 256, 8, 1, 1048576, 262144, 4460544),
]
MINDSPEED = [(2, 512, 8, 8, 4194304, 17825808), (4, 256, 8, 2, 1048576, 4849696), (8, 256, 8, 1, 1048576, 4784192)]


def case(stack: str, cp: int, tokens: int, heads: int, groups: int) -> tuple[Workload, LayerKeys]:
    model = replace(DENSE, num_attention_heads=heads, num_query_groups=groups, kv_channels=128, hidden_size=heads * 128)
    job = replace(workload(model, seq_length=cp * tokens), software=Software(stack))
    return job, layer_keys(job, batch(cp=cp, cp_algo=CpAlgo.KV_ALLGATHER))[0]


def layer_costs_of(job: Workload, key: LayerKeys) -> LayerCosts:
    return layer_costs(job, key, device(job), network(job), moe=False)


def gradients(tokens: int, heads: int, groups: int) -> tuple[int, int]:
    """Bytes of the gradients of a rank's queries, and of its keys and values."""
    return 2 * tokens * heads * 128, 2 * tokens * 2 * groups * 128


@pytest.mark.parametrize(("cp", "tokens", "heads", "groups", "gathered", "sent", "held"), PYTORCH)
def test_pytorch_gathers_once_a_pass_and_passes_gradients_on(
    cp: int, tokens: int, heads: int, groups: int, gathered: int, sent: int, held: int
) -> None:
    job, key = case("fsdp", cp, tokens, heads, groups)
    comm = context_parallel_comm(job, key, network(job))
    assert float(comm.gathered.gather_s[0]) == pytest.approx(gathered / cp / LINK)  # a mesh has a link to each other rank
    assert float(comm.gathered.gradient_hop_s[0]) == pytest.approx(sent / LINK)
    assert (float(comm.num_gradient_hops[0]), float(comm.num_hops[0]), float(comm.gathered.scatter_s[0])) == (cp, 0, 0)
    queries, keys_values = gradients(tokens, heads, groups)
    assert float(gathered_keys_bytes(job, key)[0]) + queries + keys_values == pytest.approx(held, rel=0.01)


@pytest.mark.parametrize(("cp", "tokens", "heads", "groups", "gathered", "held"), MINDSPEED)
@pytest.mark.parametrize("stack", ["mindspeed-llm", "megatron-lm"])
def test_others_gather_and_scatter_keys_and_values(
    stack: str, cp: int, tokens: int, heads: int, groups: int, gathered: int, held: int
) -> None:
    job, key = case(stack, cp, tokens, heads, groups)
    comm = context_parallel_comm(job, key, network(job))
    assert float(comm.gathered.gather_s[0]) == pytest.approx(gathered / cp / LINK)
    assert float(comm.gathered.scatter_s[0]) == pytest.approx(gathered / cp / LINK)
    assert (float(comm.gathered.gradient_hop_s[0]), float(comm.num_gradient_hops[0] * comm.gathered.gradient_hop_s[0])) == (0, 0)
    queries, _ = gradients(tokens, heads, groups)
    assert float(gathered_keys_bytes(job, key)[0]) + queries == pytest.approx(held, rel=0.01)


def test_gradients_travel_in_fp32() -> None:
    job = replace(workload(GROUPED), software=Software("fsdp"))
    key = layer_keys(job, batch(cp=4, cp_algo=CpAlgo.KV_ALLGATHER))[0]
    hop = context_parallel_comm(job, key, network(job)).gathered.gradient_hop_s
    assert float(hop[0]) == worked("gradient-hop")


def test_a_ring_gathers_nothing() -> None:
    job, _ = case("megatron-lm", 4, 256, 8, 2)
    ring = layer_keys(job, batch(cp=4, cp_algo=CpAlgo.RING))[0]
    comm = context_parallel_comm(job, ring, network(job))
    assert float(comm.gathered.gather_s[0] + comm.gathered.scatter_s[0] + comm.num_gradient_hops[0]) == 0
    assert float(gathered_keys_bytes(job, ring)[0]) == 0


def test_latent_attention_gathers_expanded_heads() -> None:
    job = workload(LATENT)
    key = layer_keys(job, batch(cp=4, cp_algo=CpAlgo.KV_ALLGATHER))[0]
    found = context_parallel_comm(job, key, network(job)).gathered.gather_s
    assert float(found[0]) == pytest.approx(2 * 512 * 8 * (96 + 64) / LINK)


def test_only_attention_by_blocks_hides_the_exchange() -> None:
    """Of PyTorch's, the first of cp blocks hides the gather, and each later block the gradients of the one before."""
    for stack, by_blocks in (("fsdp", True), ("megatron-lm", False)):
        job, key = case(stack, 4, 32768, 8, 8)  # attention far longer than any message
        comm, costs = context_parallel_comm(job, key, network(job)), layer_costs_of(job, key)
        exposed = float(costs.forward["cp_comm"][0]), float(costs.backward["cp_comm"][0])
        gathered = comm.gathered
        if by_blocks:
            assert exposed == (0.0, pytest.approx(float(gathered.gradient_hop_s[0])))
        else:
            assert exposed == (
                pytest.approx(float(gathered.gather_s[0])),
                pytest.approx(float(gathered.gather_s[0] + gathered.scatter_s[0])),
            )
        assert sum(exposed) + float(costs.masked["cp_comm"][0]) == pytest.approx(float((comm.forward_s + comm.backward_s)[0]))


def test_a_short_block_hides_no_more_than_itself() -> None:
    job, key = case("fsdp", 4, 16, 8, 8)
    comm, costs = context_parallel_comm(job, key, network(job)), layer_costs_of(job, key)
    forward, backward = (float(one["attention"][0]) / 4 for one in (costs.forward, costs.backward))
    gather, hop = float(comm.gathered.gather_s[0]), float(comm.gathered.gradient_hop_s[0])
    assert gather > max(forward, backward)
    assert hop > backward
    assert float(costs.forward["cp_comm"][0]) == pytest.approx(gather - forward)
    assert float(costs.backward["cp_comm"][0]) == pytest.approx(gather - backward + 4 * hop - 3 * backward)


def test_attention_of_gathered_keys_sees_the_whole_sequence() -> None:
    """Its kernel goes through 8 x 256 keys, that of PyTorch through a block of 256, as a ring's."""
    lengths = dict.fromkeys(("attention_half_length", "portable_attention_half_length"), 256.0)
    for stack, algo, seen in (
        ("megatron-lm", CpAlgo.RING, 256),
        ("megatron-lm", CpAlgo.KV_ALLGATHER, 2048),
        ("fsdp", CpAlgo.KV_ALLGATHER, 256),
    ):
        job, _ = case(stack, 8, 256, 8, 8)
        key = layer_keys(job, batch(cp=8, cp_algo=algo))[0]
        short, endless = (
            float(layer_costs(job, key, of, network(job), moe=False).forward["attention"][0])
            for of in (device(job, **lengths), device(job))
        )
        assert short / endless == pytest.approx((seen + 256) / seen)


def test_buffers_count_where_a_layer_runs() -> None:
    job, key = case("megatron-lm", 4, 8192, 8, 8)
    ring = layer_keys(job, batch(cp=4, cp_algo=CpAlgo.RING))[0]
    whole, other = (layer_activations(job, each, moe=False) for each in (key, ring))
    output = 2 * 8192 * 8 * 128  # kept in two pieces, and joined; nothing gathered is kept
    np.testing.assert_allclose(whole.saved_bytes, other.saved_bytes + output)
    assert float((whole.transient_bytes - other.transient_bytes)[0]) > 2 * float(2 * 4 * 8192 * 2 * 8 * 128)
