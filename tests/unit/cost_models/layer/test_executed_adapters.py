"""Counts of one layer with adapters, against counts that PEFT executed.

What ran: peft 0.21.2 and PyTorch 2.9.1 on CPU, in 16 bits, ``get_peft_model`` with ``LoraConfig(lora_dropout=0.0)`` and
``autocast_adapter_dtype=False``. A layer has hidden size 512, 8 heads and 2 groups of 64 channels, and a gated MLP of 1,536. Its
norms, its rotary positions and its gated activation are autograd functions that keep what fused kernels keep: the input, nothing
and the input. Attention is ``scaled_dot_product_attention``. Two sequences of 256 tokens. A layer is half of the difference
between a model of four and one of two.

Counted: elements of parameters that require a gradient; bytes of distinct storages that autograd packs, without parameters; FLOPs
of ``aten.mm``; bytes of the moments after a step of AdamW in 16 bits. ``linear_*`` are joined layers, ``*_proj`` those of Hugging
Face.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.shapes.adapters import trained_rank_parameters
from cost_models.shapes.flops import model_flops_per_step
from cost_models.shapes.parameters import layer_rank_parameters
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, Task, TrainingTask
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.step.priced_groups import priced_groups
from tests.networks import gpu
from tests.workloads import batch, constants, keys, workload

MODEL = ModelShape("executed", 4, 512, 8, 2, 64, 1536, 512)
JOINED = tuple(MEGATRON_MODULES)
SEPARATE = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
# rank, modules, trained parameters, bytes kept, matmul FLOPs of a forward and of a backward
EXECUTED = [
    (0, (), 3_015_680, 8_142_848, 3_087_007_744, 6_174_015_488),
    (8, JOINED, 63_488, 8_175_616, 3_152_019_456, 3_217_031_168),
    (64, JOINED, 507_904, 8_404_992, 3_607_101_440, 4_127_195_136),
    (16, ("linear_qkv",), 20_480, 6_062_080, 3_107_979_264, 3_128_950_784),
    (16, ("linear_qkv", "linear_proj"), 36_864, 6_078_464, 3_124_756_480, 3_162_505_216),
    (16, ("linear_fc1", "linear_fc2"), 90_112, 7_651_328, 3_179_282_432, 3_271_557_120),
    (16, ("linear_fc2",), 32_768, 7_110_656, 3_120_562_176, 3_154_116_608),
    (16, SEPARATE, 151_552, 8_257_536, 3_242_196_992, 3_397_386_240),
    (8, ("q_proj", "v_proj"), 13_312, 6_062_080, 3_100_639_232, 3_114_270_720),
]


def _job(rank: int, modules: tuple[str, ...]) -> Workload:
    task = TrainingTask(Task.LORA, Adapters(rank, float(rank), modules)) if rank else TrainingTask(Task.SFT)
    return workload(MODEL, seq_length=256, global_batch_size=2, cluster=gpu(), task=task)


@pytest.mark.parametrize(("rank", "modules", "trained", "kept", "forward", "backward"), EXECUTED)
def test_a_layer_trains_and_keeps_what_peft_executed(
    rank: int, modules: tuple[str, ...], trained: int, kept: int, forward: int, backward: int
) -> None:
    job, key = _job(rank, modules), keys(micro_batch_size=2)
    whole = layer_rank_parameters(MODEL, key, moe=False)
    assert trained_rank_parameters(job, key, whole, moe=False)[0][0] == trained
    ours = layer_activations(job, key, moe=False)
    assert float(ours.saved_bytes[0]) == pytest.approx(kept, rel=0.01)

    def matmul_flops(layers: int) -> float:
        model = replace(MODEL, num_layers=layers)
        scores = layers * 3 * 512 * 2 * 256 * 8 * 64  # 2 s H d a token, in a forward and twice in a backward
        return model_flops_per_step(replace(job, model=model)) - scores

    assert (matmul_flops(4) - matmul_flops(2)) / 2 == forward + backward


@pytest.mark.parametrize(("rank", "modules", "trained"), [row[:3] for row in EXECUTED[1:]])
def test_optimizer_states_are_those_of_adapters(rank: int, modules: tuple[str, ...], trained: int) -> None:
    # PEFT's moments took 4 bytes a trained parameter in 16 bits, which is 8 here, and its gradients 2, which is 4.
    job = _job(rank, modules)
    ((_, group),) = priced_groups(job, batch(zero_stage=0), constants(), merge=False, tables=True)
    states = group.sharded.states
    assert float(states.moments[0, 0]) == 8 * 4 * trained
    assert float(states.master[0, 0]) == 4 * 4 * trained
    assert float(states.gradients[0, 0]) == 4 * 4 * trained
    assert float(states.weights[0, 0]) == 2 * (4 * 3_015_680 + 2 * 512 * 512 + 512 + 4 * trained)
