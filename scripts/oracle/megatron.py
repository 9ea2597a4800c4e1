"""Runs one step of each case on Megatron-Core, rank by rank, in the interpreter that has PyTorch.

usage: PYTHON -m scripts.oracle.megatron MEGATRON CASES OUT

Each pipeline rank is a process of its own. Collectives are noted, not made: the other ranks are taken to hold the same.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from scripts.oracle import processor
from scripts.oracle.kernels import Attention, Balanced, FusedAttention, FusedNorm, RepeatedLinear, Softmax, rotary
from scripts.oracle.meters import Collectives, Storages
from scripts.oracle.ranks import run_each

processor.install()
METER = Storages()
SENT = Collectives(lambda: METER.phase)
SENT.install()
Attention.meter = METER
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])

from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.fusions.fused_softmax import FusedScaleMaskSoftmax
from megatron.core.models.common.embeddings import rope_utils
from megatron.core.models.gpt import gpt_layer_specs as specs
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, distrib_optimizer, get_megatron_optimizer
from megatron.core.pipeline_parallel import schedules
from megatron.core.tensor_parallel.layers import ColumnParallelLinear
from megatron.core.transformer import multi_latent_attention, torch_norm
from megatron.core.transformer.identity_op import IdentityOp
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.moe import router, token_dispatcher

from scripts.oracle.megatron_config import Case, config_of, takes


class NormedLinear(ColumnParallelLinear):
    """A norm and a linear layer in one module, as Transformer Engine's layers have them."""

    def __init__(self, input_size: int, output_size: int, *, config: Any, **others: Any) -> None:
        super().__init__(input_size, output_size, config=config, **others)
        self.norm = FusedNorm(config, input_size, config.layernorm_epsilon)

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return super().forward(self.norm(x), *args, **kwargs)


GROUPS = {  # variables of parallel_state, and our names of their groups
    "_TENSOR_MODEL_PARALLEL_GROUP": "tp",
    "_CONTEXT_PARALLEL_GROUP": "cp",
    "_EXPERT_MODEL_PARALLEL_GROUP": "ep",
    "_EXPERT_TENSOR_PARALLEL_GROUP": "etp",
    "_EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP": "etp_ep",
    "_DATA_PARALLEL_GROUP": "dp",
    "_DATA_PARALLEL_GROUP_WITH_CP": "dp",
    "_EXPERT_DATA_PARALLEL_GROUP": "expert_dp",
    "_INTRA_PARTIAL_EXPERT_DATA_PARALLEL_GROUP": "expert_dp",
    "_PIPELINE_MODEL_PARALLEL_GROUP": "pp",
    "_EMBEDDING_GROUP": "ends",
    "_MODEL_PARALLEL_GROUP": "model",
}


def model_chunks(case: Case, config: Any) -> list[Any]:
    model, vpp = case["model"], case["strategy"].get("vpp", 1)
    switches, mla = case["strategy"].get("switches", {}), "mla" in model
    flash, fused_norms = (switches.get(name, True) for name in ("flash_attention", "fused_norm"))
    chunks = []
    for stage in range(vpp):
        at = takes(GPTModel.__init__, vp_stage=stage) if vpp > 1 else {}
        if vpp > 1 and not at:  # core 0.12 asks the state
            parallel_state.set_virtual_pipeline_model_parallel_rank(stage)
        of_stage = {"ignore_virtual": False, **at} if at else {}
        if config.num_moe_experts:
            spec = specs.get_gpt_decoder_block_spec(
                config,
                use_transformer_engine=False,
                **takes(specs.get_gpt_decoder_block_spec, normalization=config.normalization, **at),
            )
            each = list(spec.layer_specs)
            local = each[-1] if each else None
        else:
            spec = local = specs.get_gpt_layer_local_spec(
                multi_latent_attention=mla,
                **takes(
                    specs.get_gpt_layer_local_submodules
                    if hasattr(specs, "get_gpt_layer_local_submodules")
                    else specs.get_gpt_layer_local_spec,
                    qk_layernorm=config.qk_layernorm,
                    normalization=config.normalization,
                ),
            )
            each = [spec]
        for layer in each:
            parts = layer.submodules.self_attention.submodules
            if fused_norms:
                _contain_norms(layer, mla)
            if flash:
                parts.core_attention = FusedAttention
            if mla:
                multi_latent_attention.TELinear = RepeatedLinear
                parts.linear_q_down_proj = parts.linear_kv_down_proj = RepeatedLinear
                parts.q_layernorm = parts.kv_layernorm = IdentityOp
                parts.linear_q_up_proj = parts.linear_kv_up_proj = NormedLinear
        mtp = None
        if config.mtp_num_layers:
            source = spec if config.num_moe_experts and each else local
            mtp = specs.get_gpt_mtp_block_spec(config, source, use_transformer_engine=False, **at)
        chunks.append(
            GPTModel(
                config=config,
                transformer_layer_spec=spec,
                vocab_size=model["vocab_size"],
                max_sequence_length=case["seq_length"],
                pre_process=parallel_state.is_pipeline_first_stage(**of_stage),
                post_process=parallel_state.is_pipeline_last_stage(**of_stage),
                fp16_lm_cross_entropy=False,
                parallel_output=True,
                share_embeddings_and_output_weights=model.get("tied_embeddings", False),
                position_embedding_type="none" if mla else "learned_absolute" if model.get("learned_positions") else "rope",
                **at,
                **({"mtp_block_spec": mtp} if mtp else {}),
            )
        )
    return chunks


def _contain_norms(layer: Any, mla: bool) -> None:
    """Puts norms into the linear layers that follow them, as Transformer Engine's specification of a layer does."""
    if not mla:
        layer.submodules.input_layernorm = IdentityOp
        layer.submodules.self_attention.submodules.linear_qkv = NormedLinear
    mlp = layer.submodules.mlp
    parts = mlp.keywords["submodules"] if hasattr(mlp, "keywords") else mlp.submodules
    if hasattr(parts, "linear_fc1"):  # no mixture
        layer.submodules.pre_mlp_layernorm = IdentityOp
        parts.linear_fc1 = NormedLinear


def stand_in(case: Case) -> None:
    """Replaces kernels, transfers to the host and the choices of the router."""
    switches = case["strategy"].get("switches", {})
    if switches.get("fused_norm", True):
        torch_norm.WrappedTorchNorm.__new__ = lambda cls, config, hidden_size, eps=1e-5, **others: FusedNorm(
            config, hidden_size, eps
        )
    FusedScaleMaskSoftmax.forward_torch_softmax = lambda self, scores, mask, *others: Softmax.apply(scores, mask, self.scale)
    if switches.get("fused_rope", True):
        rope_utils._apply_rotary_pos_emb_bshd = rotary(rope_utils._apply_rotary_pos_emb_bshd)

    def to_host(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
        return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor

    token_dispatcher.maybe_move_tensor_to_cpu = to_host
    if hasattr(distrib_optimizer, "quantize_param_shard"):  # core 0.12 wants Transformer Engine for it even without FP8
        distrib_optimizer.quantize_param_shard = lambda *args, **kwargs: None
    latent = multi_latent_attention.MLASelfAttention
    if hasattr(latent, "_resolve_qk_norm_config"):  # which asks Transformer Engine for its layers

        def as_given(self: Any, parts: Any) -> dict[str, Any]:
            names = ("linear_q_proj", "linear_q_up_proj", "linear_kv_up_proj", "q_layernorm", "kv_layernorm")
            return {name: getattr(parts, name) for name in names}

        latent._resolve_qk_norm_config = as_given
    random = tensor_parallel.random
    random._set_cuda_rng_state = lambda *args, **kwargs: None
    random._get_cuda_rng_state = lambda *args, **kwargs: torch.zeros(1, dtype=torch.uint8)

    class NoFp8:
        is_fp8_enabled = get_fp8_recipe = staticmethod(lambda: None)

    random.FP8GlobalStateManager = NoFp8
    random.activation_recompute_forward = random.fp8_autocast = lambda *args, **kwargs: contextlib.nullcontext()
    gating = router.TopKRouter.gating
    top_k = case["model"].get("moe", {}).get("top_k", 1)
    router.TopKRouter.gating = lambda self, tokens: Balanced.apply(gating(self, tokens), top_k)


def run(case: Case, pipeline_rank: int) -> dict[str, Any]:
    """What one rank of the case held, sent and multiplied in a step."""
    plan, world = case["strategy"], case["num_devices"]
    pp, vpp = plan.get("pp", 1), plan.get("vpp", 1)
    rank = pipeline_rank * (world // pp)
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    parallel_state.initialize_model_parallel(
        plan.get("tp", 1),
        pp,
        vpp if vpp > 1 else None,
        expert_model_parallel_size=plan.get("ep", 1),
        expert_tensor_parallel_size=plan.get("etp", 1),
        create_gloo_process_groups=False,
    )
    for variable, name in GROUPS.items():
        group = getattr(parallel_state, variable, None)
        if group is not None and hasattr(group, "group_name"):
            SENT.names[group.group_name] = name
    stand_in(case)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    torch.manual_seed(1)
    config = config_of(case)
    chunks = model_chunks(case, config)
    marks = _mark_layers(chunks)
    order, held = _follow_passes()
    wrapped, optimizer = _with_optimizer(case, config, chunks)
    seq, micro_batch = case["seq_length"], plan["micro_batch_size"]
    flash = plan.get("switches", {}).get("flash_attention", True)

    def forward_step(batches: Iterator[Any], model: Any, *unused: Any) -> Any:
        tokens, labels = next(batches)
        positions = torch.arange(seq).unsqueeze(0).expand(micro_batch, seq).contiguous()
        mask = None if flash else torch.ones(1, 1, seq, seq, dtype=torch.bool).triu(1)
        weights = {"loss_mask": torch.ones(micro_batch, seq)} if config.mtp_num_layers else {}
        output = model(tokens, positions, mask, labels=labels, **weights)

        def loss(each: Any) -> Any:
            value = each.float().mean()
            return value * seq * micro_batch, torch.tensor(seq * micro_batch), {"loss": value.detach()}

        return output, loss

    SENT.calls.clear()
    METER.phase = "between"
    METER.peak_bytes = 0 if case.get("peak") else None
    with METER:
        schedules.get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=[_batches(case) for _ in chunks] if vpp > 1 else _batches(case),
            model=wrapped if vpp > 1 else wrapped[0],
            num_microbatches=case["num_micro_batches"],
            seq_length=seq,
            micro_batch_size=micro_batch,
            decoder_seq_length=seq,
            forward_only=False,
        )
    METER.phase = "optimizer"
    optimizer.step()
    found = {
        "parameters": {
            kind: sum(p.numel() for c in chunks for p in c.parameters() if getattr(p, "allreduce", True) is (kind == "dense"))
            for kind in ("dense", "experts")
        },
        "states": _states(wrapped, optimizer),
        "layers": _layer_bytes(marks),
        "flops": dict(METER.flops),
        "collectives": dict(sorted(SENT.calls.items())),
        "order": " ".join(order),
        "held": max(held),
    }
    if METER.peak_bytes is not None:
        found["peak"] = METER.peak_bytes
    if case.get("tensors"):
        found["tensors"] = marks["tensors"]
    return found


def _batches(case: Case) -> Iterator[Any]:
    shape, words = (case["strategy"]["micro_batch_size"], case["seq_length"]), case["model"]["vocab_size"]
    while True:
        yield torch.randint(0, words, shape), torch.randint(0, words, shape)


def _mark_layers(chunks: list[Any]) -> dict[str, Any]:
    """Live bytes at the entry of each layer of the first forward, in order; the tensors that the second last layer kept."""
    marks: dict[str, Any] = {"entries": [], "tensors": []}

    def entering(module: Any, args: Any, kind: str) -> None:
        if METER.phase == "forward" and not marks.get("over"):
            marks["entries"].append((kind, METER.live_bytes()))
            marks["tensors"] = [list(each) for each in METER.listing(marks.get("number", 0))]
            marks["number"] = METER.number

    def over(*unused: Any) -> None:
        marks["entries"].append(("end", METER.live_bytes()))
        marks["over"] = True

    for chunk in chunks:
        for name, module in chunk.named_modules():
            kind = type(module).__name__
            if kind == "TransformerLayer":
                sparse = type(module.mlp).__name__ == "MoELayer"
                module.register_forward_pre_hook(lambda m, a, s=sparse: entering(m, a, "moe" if s else "dense"))
            if kind == "TransformerBlock":
                module.register_forward_hook(over)
            if name:
                last = name.rsplit(".", 1)[-1]
                module.register_forward_pre_hook(lambda m, a, n=last: METER.path.append(n))
                module.register_forward_hook(lambda m, a, o: METER.path.pop() and None, always_call=True)
    return marks


def _layer_bytes(marks: dict[str, Any]) -> dict[str, int]:
    """Bytes that a layer kept, by its kind: between its entry and the next one. The first also makes buffers of the process."""
    found: dict[str, int] = {}
    for (kind, before), (following, after) in itertools.pairwise(marks["entries"][1:]):
        if following != "end":
            found[kind] = after - before
    return found


def _follow_passes() -> tuple[list[str], list[int]]:
    """Order of the passes, F with its chunk and B, and the bytes that are live behind each; filled while the step runs."""
    order: list[str] = []
    held: list[int] = [0]
    forward, backward = schedules.forward_step, schedules.backward_step

    def in_phase(phase: str, function: Any) -> Any:
        def passed(*args: Any, **kwargs: Any) -> Any:
            METER.phase = phase
            chunk = kwargs.get("vp_stage")
            if chunk is None:
                chunk = parallel_state.get_virtual_pipeline_model_parallel_rank() or 0
            order.append(f"F{chunk}" if phase == "forward" else "B")
            try:
                return function(*args, **kwargs)
            finally:
                held.append(METER.live_bytes())
                METER.phase = "between"

        return passed

    schedules.forward_step, schedules.backward_step = in_phase("forward", forward), in_phase("backward", backward)
    return order, held


def _with_optimizer(case: Case, config: Any, chunks: list[Any]) -> tuple[list[Any], Any]:
    plan = case["strategy"]
    switches, sharded = plan.get("switches", {}), plan.get("zero_stage", 1) > 0
    settings = DistributedDataParallelConfig(
        use_distributed_optimizer=sharded,
        grad_reduce_in_fp32=not switches.get("grad_reduce_in_bf16", False),
        overlap_grad_reduce=switches["overlap_grad_reduce"],
        overlap_param_gather=switches["overlap_param_gather"],
    )
    if config.bf16:
        chunks = [Float16Module(config, chunk) for chunk in chunks]
    wrapped = [
        DistributedDataParallel(config=config, ddp_config=settings, module=chunk, disable_bucketing=i > 0)
        for i, chunk in enumerate(chunks)
    ]
    config.finalize_model_grads_func = finalize_model_grads
    if settings.overlap_grad_reduce:
        config.no_sync_func = [each.no_sync for each in wrapped] if len(wrapped) > 1 else wrapped[0].no_sync
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam",
            lr=1e-4,
            bf16=config.bf16,
            params_dtype=config.params_dtype,
            use_distributed_optimizer=sharded,
            clip_grad=1.0,
            **takes(OptimizerConfig, overlap_param_gather=settings.overlap_param_gather),
        ),
        wrapped,
        use_gloo_process_groups=False,
    )
    config.grad_scale_func = optimizer.scale_loss
    for each in wrapped:
        for tensor in (*each.parameters(), *each.module.buffers()):
            METER.leave_out(tensor)
        for buffer in _buffers(each):
            for tensor in (buffer.grad_data, buffer.param_data):
                if tensor is not None:
                    METER.leave_out(tensor)
    return wrapped, optimizer


def _buffers(wrapped: Any) -> list[Any]:
    return [*wrapped.buffers, *wrapped.expert_parallel_buffers]


def _states(wrapped: list[Any], optimizer: Any) -> dict[str, int]:
    """Bytes of gradients, FP32 copies of weights and moments of a rank."""
    gradients = sum(b.grad_data.numel() * b.grad_data.element_size() for each in wrapped for b in _buffers(each))
    inner = [getattr(each, "optimizer", each) for each in getattr(optimizer, "chained_optimizers", [optimizer])]
    own = {p.untyped_storage()._cdata for each in wrapped for p in each.parameters()}
    optimized = [p for each in inner for group in each.param_groups for p in group["params"]]
    weights = sum(p.numel() * p.element_size() for p in optimized if p.untyped_storage()._cdata not in own)
    moments = [
        t
        for each in inner
        for state in each.state.values()
        for t in state.values()
        if isinstance(t, torch.Tensor) and t.numel() > 1
    ]
    return {"gradients": gradients, "master": weights, "moments": sum(t.numel() * t.element_size() for t in moments)}


if __name__ == "__main__":
    sys.exit(run_each(run, json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])))
