"""Steps of decode and passes of prefill, against arithmetic on paper."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.serving.engine import SERVING_CONSTANTS, Engine, Overlap, ServingLayout
from cost_models.serving.steps import decode_step, decode_step_s, prefill, prefill_s
from cost_models.shapes.workload import LocalAttention, WorkloadError
from tests.networks import gpu
from tests.serving import served
from tests.workloads import DENSE, GROUPED, LATENT, SPARSE

READ = 0.84 * 1.6e12  # bytes a second
ONE = ServingLayout()


def part(step, name: str) -> float:  # type: ignore[no-untyped-def]
    return float(step.parts_s[name])


def test_a_step_of_one_request_reads_every_weight_and_its_cache_once() -> None:
    step = decode_step(served(), ONE, 1, 1000)
    elementwise = 2 * (10 * 1024 + 2 * 32 * 128 + 1.5 * 3 * 4096)
    assert part(step, "projections") == pytest.approx(8 * (4 * 1024**2 * 2 + elementwise) / READ)
    assert part(step, "attention") == pytest.approx(8 * 1000 * 2 * 1024 * 2 / READ)
    assert part(step, "mlp") == pytest.approx(8 * 3 * 1024 * 4096 * 2 / READ)
    assert part(step, "head") == pytest.approx(32_000 * 1024 * 2 / READ)
    assert float(step.total_s) == pytest.approx(sum(float(value) for value in step.parts_s.values()))


def test_many_requests_are_bound_by_arithmetic() -> None:
    step = decode_step(served(), ONE, 4096, 1)
    assert part(step, "mlp") == pytest.approx(8 * 2 * 4096 * 3 * 1024 * 4096 / 2.5e14)


def test_grouped_queries_share_the_keys_that_are_read() -> None:
    whole, grouped = (part(decode_step(served(model), ONE, 64, 4096), "attention") for model in (DENSE, GROUPED))
    assert whole == pytest.approx(4 * grouped)


def test_keys_are_copied_where_tp_exceeds_their_heads() -> None:
    two, four = (part(decode_step(served(GROUPED), ServingLayout(tp=tp), 64, 4096), "attention") for tp in (2, 4))
    assert two == pytest.approx(four)


def test_latent_attention_reads_one_latent_for_all_heads_until_arithmetic_bounds_it() -> None:
    one = part(decode_step(served(LATENT), ONE, 64, 4096), "attention")
    read_s = 64 * 4096 * (128 + 32) * 2 / READ
    # Eight heads fill half of the sixteen rows of a matrix instruction.
    flops_s = 64 * 8 * 4096 * 2 * (2 * 128 + 32) / (0.65 * 3e14 * 0.5)
    assert one == pytest.approx(8 * max(read_s, flops_s))
    drafted = part(decode_step(served(LATENT, draft_tokens=3), ONE, 64, 4096), "attention")
    assert drafted == pytest.approx(8 * max(read_s, 4 * flops_s / 2))


def test_only_experts_that_some_token_chose_are_read() -> None:
    alone, full = (part(decode_step(served(SPARSE, balanced=True), ServingLayout(ep=1), rows, 1), "experts") for rows in (1, 1e4))
    each = 3 * 1024 * 512
    assert alone == pytest.approx(6 * max(2 * each * 2 / READ, 2 * (2 + 64 * 2) * each / 2.5e14))
    assert full == pytest.approx(6 * 2 * (2e4 + 64 * 16) * each / 2.5e14)


def test_spread_experts_exchange_tokens_and_sliced_ones_sum() -> None:
    spread = decode_step(served(SPARSE), ServingLayout(dp=8, ep=8), 256, 100)
    sliced = decode_step(served(SPARSE), ServingLayout(tp=8), 256, 100)
    assert part(spread, "exchange") > 0.0 == part(spread, "tensor_parallel")
    assert part(sliced, "tensor_parallel") > 0.0 == part(sliced, "exchange")
    # 32 tokens of a device to two experts each, seven of eight elsewhere, there and back over seven links of 18.3 GB/s.
    balanced = decode_step(served(SPARSE, balanced=True), ServingLayout(dp=8, ep=8), 256, 100)
    assert part(balanced, "exchange") == pytest.approx(6 * 2 * 32 * 2 * 1024 * 2 * 7 / 8 / (7 * 18.3e9))


def test_eight_bits_halve_what_weights_take() -> None:
    cluster = gpu()
    profile = replace(cluster.profile, matmul_flops_per_s={"bf16": 3e14, "fp8": 6e14})
    eight = decode_step(served(cluster=replace(cluster, profile=profile), precision="fp8"), ONE, 1, 1)
    sixteen = decode_step(served(cluster=replace(cluster, profile=profile)), ONE, 1, 1)
    cast = 8 * 2 * 1024 * 6.0 / (0.9 * 1.6e12)
    assert part(eight, "mlp") == pytest.approx(part(sixteen, "mlp") / 2 + cast)


def test_a_precision_that_the_device_lacks_is_never_made_up() -> None:
    with pytest.raises(ValueError, match="no int8 matmul peak"):
        decode_step(served(precision="int8"), ONE, 1, 1)


def test_drafts_gain_tokens_and_cost_a_layer_and_a_head_each() -> None:
    assert Engine(draft_tokens=2, acceptance=0.5).tokens_per_step == 1.75
    looked_up = decode_step(served(draft_tokens=1, draft_layers=0), ONE, 1, 1)
    predicted = decode_step(served(draft_tokens=1), ONE, 1, 1)
    plain = decode_step(served(), ONE, 1, 1)
    layer = (float(plain.total_s) - part(plain, "head")) / 8
    assert part(looked_up, "draft") == 0.0
    assert part(predicted, "draft") == pytest.approx(layer + part(plain, "head") + 2 * 1024**2 * 2 / READ)


def test_overlap_hides_the_shorter_side() -> None:
    layout, engine = ServingLayout(dp=8, ep=8), {"balanced": True}
    plain = decode_step(served(SPARSE, **engine), layout, 2048, 8192)
    hidden = decode_step(served(SPARSE, overlap=Overlap.EXCHANGE, **engine), layout, 2048, 8192)
    assert part(hidden, "exchange") == 0.0
    assert part(hidden, "attention") == pytest.approx(part(plain, "attention"))
    times = [decode_step_s(served(SPARSE, overlap=overlap), layout, [2, 2048], 8192) for overlap in Overlap]
    assert (times[-1] == np.min(times[:-1], axis=0)).all()


def test_streams_show_the_longer_one() -> None:
    step = decode_step(served(SPARSE, overlap=Overlap.STREAMS), ServingLayout(dp=8, ep=8), 2048, 65_536)
    # Of the six MoE layers the experts hide behind attention; two layers are dense.
    assert part(step, "experts") == part(step, "exchange") == 0.0
    assert part(step, "attention") > 0.0


def test_an_eager_host_bounds_a_small_batch() -> None:
    workload = served(graph=False)
    slow = replace(workload, constants=workload.constants.with_values({"host_kernel_s": 1e-4, "host_micro_batch_s": 1e-3}))
    assert float(decode_step_s(slow, ONE, 1, 1)) == pytest.approx(8 * 30 * 1e-4 + 1e-3)
    beside = replace(slow, engine=Engine(graph=False, asynchronous=True))
    assert float(decode_step_s(beside, ONE, 1, 1)) == pytest.approx(8 * 30 * 1e-4)


def test_prefill_multiplies_every_token_and_only_the_last_by_the_head() -> None:
    found = prefill(served(), ONE, 4, 2048)
    assert part(found, "mlp") == pytest.approx(8 * 2 * 4 * 2048 * 3 * 1024 * 4096 / 2.5e14)
    assert part(found, "head") == pytest.approx(32_000 * 1024 * 2 / READ)
    # 2 s H d FLOPs a token at half of 300 TFLOPS.
    assert part(found, "attention") == pytest.approx(8 * 4 * 2048 * 2 * 2048 * 1024 / 1.5e14)


def test_prefill_sorts_copies_by_expert_and_back() -> None:
    found = part(prefill(served(SPARSE, balanced=True), ONE, 1, 4096), "experts")
    each, copies = 3 * 1024 * 512, 2 * 4096
    assert found == pytest.approx(6 * (2 * (copies + 64 * 16) * each / 2.5e14 + copies * 2 * (2 + 2) * 1024 / READ))


def test_stages_take_turns_on_parts_of_the_batch() -> None:
    one, two = (decode_step(served(), ServingLayout(pp=pp), 64 * pp, 100) for pp in (1, 2))
    assert part(two, "mlp") == part(one, "mlp")
    assert part(two, "pipeline") == pytest.approx(64 * 1024 * 2 / 18.3e9)


def test_a_window_bounds_what_is_read() -> None:
    local = replace(DENSE, local_attention=LocalAttention("window", full_attention_every=2, window=100))
    found = part(decode_step(served(local), ONE, 1, 1000), "attention")
    assert found == pytest.approx(4 * (1000 + 100) * 2 * 1024 * 2 / READ)


def test_longer_contexts_and_fuller_batches_are_never_faster() -> None:
    for model, layout in ((DENSE, ServingLayout(tp=2)), (LATENT, ServingLayout(tp=2, dp=4, ep=8))):
        times = decode_step_s(served(model), layout, np.arange(1, 300)[:, None], np.array([1, 100, 10_000]))
        assert (np.diff(times, axis=0) >= -1e-15).all()
        assert (np.diff(times, axis=1) >= 0.0).all()
        passes = prefill_s(served(model), layout, np.arange(1, 50), 512)
        assert (np.diff(passes) >= -1e-15).all()


def test_experts_are_sliced_or_spread_over_all_devices() -> None:
    with pytest.raises(WorkloadError, match="ep is 4, must be 1 or tp x dp = 2 x 4 = 8"):
        ServingLayout(tp=2, dp=4, ep=4)


def test_every_constant_of_serving_says_where_it_comes_from() -> None:
    assert len(SERVING_CONSTANTS) == 2
    for constant in SERVING_CONSTANTS:
        assert constant.low < constant.ascend < constant.high
        assert constant.low < constant.gpu < constant.high
        assert constant.basis == "measured"
        assert constant.source.startswith("[")
