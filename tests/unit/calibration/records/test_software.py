from collections.abc import Callable
from typing import Any

import pytest

from calibration.records.software import release_year
from calibration.records.training import RunRecord
from cost_models.shapes.switches import Feature

Read = Callable[..., RunRecord]
GPU: dict[str, Any] = {"cluster.hardware": "h100-sxm-80gb", "software.version": None, "software.backend": "PyTorch/CUDA"}
OF_2025 = {"software.version": "2025-06"}


@pytest.mark.parametrize(
    ("stack", "framework", "version", "backend", "year"),
    [
        ("mindspeed-llm", "MindSpeed-LLM CI", "git 6c32be1f6d (2026-06-18)", "", 2026.42),
        ("mindspeed-llm", "MindSpeed-LLM (then named ModelLink)", "git 46bc1b9dba", "", 2024),
        ("mindspeed-llm", "MindSpeed-LLM (then named AscendSpeed)", "git 0fcfa822ed", "", 2023),
        ("mindspeed-llm", "MindSpeed-LLM", "git 506c93e963", "", 2025),
        ("mindformers", "MindFormers (MindSpore Transformers)", "branch r0.8", "MindSpore graph mode", 2023.8),
        ("mindformers", "MindFormers (MindSpore Transformers)", "branch r1.5.0", "MindSpore graph mode", 2025.3),
        ("mindformers", "MindSpore Transformers", "", "MindSpore graph mode", None),
        ("megatron-lm", "NeMo / Megatron-Core", "NeMo 24.12", "PyTorch/CUDA", 2024.92),
        ("megatron-lm", "NeMo / Megatron-Core", "24.07 container", "", 2024.5),
        ("megatron-lm", "NeMo Megatron", "23.x", "", 2023),
        ("nemo", "Megatron-Bridge", "nemo:26.06 era, July 2026", "", 2026.42),  # the container's month, not the bare year
        ("megatron-lm", "NeMo / Megatron-Core", "NeMo 2.1.0, Megatron-LM, PyTorch NVIDIA Release 25.09", "", 2025.67),
        ("megatron-lm", "NeMo / Megatron-Core", "PyTorch 2.8.0.dev20251001+rocm7.0.0.git64359f59, ROCm 7.0.0", "", 2025.75),
        ("megatron-lm", "Megatron-LM", "git 23e00ed096", "torch 2.10.0a0+nv26.01, TransformerEngine 2.11.0", 2026.0),
        ("megatron-lm", "Megatron-Core", "0.9-0.10", "PyTorch 2.5, CUDA 12.6", 2024),
        ("megatron-lm", "Megatron-LM", "2021-04", "", 2021.25),
        ("megatron-lm", "Megatron-LM", "2020", "", 2020),
        ("megatron-lm", "NeMo / Megatron-Core", "PyTorch", "PyTorch + Transformer Engine", None),
        ("fsdp", "torchtitan", "2024-12", "PyTorch FSDP2/DTensor", 2024.92),
        ("fsdp", "llm-foundry / Composer", "", "PyTorch 2.5, CUDA 12.6", 2023),
    ],
)
def test_years_come_from_versions_and_names(stack: str, framework: str, version: str, backend: str, year: float | None) -> None:
    assert release_year(stack, framework, version, backend) == year


@pytest.mark.parametrize(
    ("framework", "stack"),
    [
        ("MindSpeed-LLM (then named ModelLink)", "mindspeed-llm"),
        ("MindSpore Transformers", "mindformers"),
        ("Megatron-DeepSpeed", "megatron-deepspeed"),
        ("NeMo 2.0 / Megatron-Core", "nemo"),
        ("Megatron-Bridge / Megatron-Core", "nemo"),
        ("Megatron-LM (zero-bubble fork)", "megatron-lm"),
        ("llm-foundry / Composer", "fsdp"),
        ("torchtitan", "fsdp"),
        ("MaxText", "maxtext"),
    ],
)
def test_frameworks_map_to_stacks(read: Read, framework: str, stack: str) -> None:
    record = read({"software.framework": framework})
    assert record.workload.software.stack == stack
    assert record.warnings == ()


@pytest.mark.parametrize(("hardware", "stack"), [("atlas-800t-a2", "mindspeed-llm"), ("h100-sxm-80gb", "megatron-lm")])
def test_an_unknown_framework_is_priced_as_the_usual_one(read: Read, hardware: str, stack: str) -> None:
    record = read({"software.framework": "HomeGrown", "cluster.hardware": hardware})
    assert record.workload.software.stack == stack
    assert record.warnings[0] == f"software.framework: 'HomeGrown' is not a known framework, priced as {stack}."


def test_only_graph_mode_is_compiled(read: Read) -> None:
    assert read().workload.software.execution == "eager"
    assert read({"software.backend": "MindSpore graph mode"}).workload.software.execution == "graph"


@pytest.mark.parametrize(
    ("framework", "precision", "flags", "fp32"),
    [
        ("MindFormers", "fp16", ["optimizer=AdamWeightDecayX"], True),
        ("MindFormers", "fp16", ["optimizer=FP32StateAdamWeightDecay"], False),  # made for 16-bit parameters
        ("MindFormers", "bf16", ["optimizer=AdamW"], False),
        ("MindSpeed-LLM", "fp16", [], False),
    ],
)
def test_parameters_kept_in_fp32(read: Read, framework: str, precision: str, flags: list[str], fp32: bool) -> None:
    record = read({"software.framework": framework, "training.precision": precision, "software.raw_flags": flags})
    assert record.workload.software.fp32_parameters is fp32


@pytest.mark.parametrize(
    ("changes", "flash"),
    [
        ({"software.framework": "NeMo / Megatron-Core"}, True),
        ({"software.framework": "NeMo Megatron", "software.version": "23.x"}, False),
        ({"software.framework": "NeMo Megatron", "software.version": "23.x", "training.precision": "fp8"}, True),
        ({"software.framework": "NeMo 2.0 / Megatron-Core", "software.version": "NeMo 24.12"}, True),
        ({"software.framework": "Megatron-DeepSpeed"}, False),
        ({"software.framework": "Megatron-DeepSpeed", "software.raw_flags": ["use-flash-attn"]}, True),
        ({"software.framework": "Megatron-LM", "software.version": "2021-04"}, False),
        ({"software.framework": "Megatron-LM", "software.version": "2024-04"}, True),
        ({"software.framework": "Megatron-LM", "software.raw_flags": ["fused softmax, no flash attention"]}, False),
    ],
)
def test_flash_attention_on_gpus_follows_from_framework_and_flags(read: Read, changes: dict[str, Any], flash: bool) -> None:
    record = read({**GPU, "software.raw_flags": [], "strategy.features": [], **changes})
    assert (Feature.FLASH_ATTENTION in record.strategy.features) is flash


def test_on_ascend_features_count_as_listed(read: Read) -> None:
    listed = read({"strategy.features": [], "software.raw_flags": ["use-mcore-models"]})
    assert listed.strategy.features == Feature(0)
    assert read({"strategy.features": []}).strategy.features == Feature.FLASH_ATTENTION  # its script says use-flash-attn


def test_fsdp_prefetches(read: Read) -> None:
    features = read({**GPU, "software.framework": "torchtitan"}).strategy.features
    assert Feature.OVERLAP_PARAM_GATHER | Feature.OVERLAP_GRAD_REDUCE in features


@pytest.mark.parametrize(
    ("value", "listed", "uses"),
    [
        ("full_iteration/[]", True, True),
        ("none/full_iteration", True, False),
        ("transformer_engine/['attn', 'moe_router']", True, False),  # the experts between them are dispatched
        (None, True, True),
        (None, False, False),
        (True, False, True),
        (False, True, False),
    ],
)
def test_cuda_graphs(read: Read, value: object, listed: bool, uses: bool) -> None:
    changes = {**GPU, "software.cuda_graph": value, "strategy.features": ["cuda_graph"] if listed else []}
    assert (Feature.CUDA_GRAPH in read(changes).strategy.features) is uses


@pytest.mark.parametrize(
    ("version", "hardware", "graph"),
    [
        ("NeMo container 26.08", "gb300-nvl72", True),
        ("NeMo container 25.11", "gb300-nvl72", False),
        ("NeMo container 26.08", "h100-sxm-80gb", False),
    ],
)
def test_recent_recipes_run_a_step_of_experts_as_one_graph(read: Read, version: str, hardware: str, graph: bool) -> None:
    bridge = {"software.framework": "Megatron-Bridge", "software.version": version, "software.backend": ""}
    silent = {"strategy.features": [], "software.cuda_graph": None, "cluster.hardware": hardware}
    experts = {"model.moe": {"num_experts": 8, "top_k": 2, "expert_ffn_hidden_size": 1024}}
    both = Feature.CUDA_GRAPH | Feature.MOE_COMM_OVERLAP
    assert (both in read({**GPU, **bridge, **silent, **experts}).strategy.features) is graph
    assert both not in read({**GPU, **bridge, **silent, **experts, "software.cuda_graph": "none"}).strategy.features
    assert both not in read({**GPU, **bridge, **silent}).strategy.features


FUSED = Feature.FUSED_NORM | Feature.FUSED_ROPE | Feature.FUSED_SWIGLU


@pytest.mark.parametrize("framework", ["torchtitan", "fms-fsdp", "DeepSpeed (Hugging Face layers)", "a loop of our own", ""])
def test_pytorchs_own_layers_are_fused_where_they_are_compiled(read: Read, framework: str) -> None:
    plain = {**GPU, "software.framework": framework, "strategy.features": [], "software.raw_flags": []}
    assert not read(plain).strategy.features & FUSED
    assert read({**plain, "software.raw_flags": ["torch.compile"]}).strategy.features & FUSED == FUSED
    assert read({**plain, "strategy.features": ["fused_rope"]}).strategy.features & FUSED == Feature.FUSED_ROPE


@pytest.mark.parametrize(
    ("framework", "backend"),
    [("Megatron-LM", ""), ("NeMo", ""), ("Megatron-DeepSpeed", ""), ("llm-foundry / Composer", "PyTorch FSDP"),
     ("NeMo AutoModel (FSDP2, PyTorch)", ""), ("our own FSDP loop", "PyTorch/CUDA + Transformer Engine")],
)  # fmt: skip
def test_frameworks_with_kernels_of_their_own_fuse(read: Read, framework: str, backend: str) -> None:
    fuses = read({**GPU, "software.framework": framework, "software.backend": backend, "strategy.features": []})
    assert fuses.strategy.features & FUSED == FUSED


@pytest.mark.parametrize(
    ("changes", "legacy"),
    [
        ({}, False),  # no flags recorded
        ({"software.raw_flags": ["use-flash-attn"], "software.backend": "torch_npu + Megatron legacy"}, True),
        ({"software.raw_flags": ["use-flash-attn"]}, False),  # verl's back end has no others than Megatron-Core's
        ({"software.raw_flags": ["use-flash-attn", "use-mcore-models"]}, False),
        ({"software.raw_flags": ["use-flash-attn"], "software.framework": "Megatron-LM"}, False),
    ],
)
def test_mindspeed_without_core_models_has_older_layers(read: Read, changes: dict[str, Any], legacy: bool) -> None:
    record = read({"software.framework": "MindSpeed-LLM", "software.raw_flags": [], **changes})
    assert record.workload.software.legacy_layers is legacy


@pytest.mark.parametrize(
    ("version", "flags", "padding"),
    [
        ("git 0 (2026-06-18)", [], 0),  # of no script
        ("git 0 (2026-06-18)", ["use-mcore-models"], 1),  # values to the width of queries
        ("git 0 (2024-09-09)", ["use-mcore-models"], 128),  # the default layout of its time pads all three
        ("git 0 (2024-10-22)", ["shape-order=BNSD"], 1),
        ("git 0 (2026-06-18)", ["shape-order=SBH"], 128),
        ("git 0 (2026-06-18)", ["shape-order=SBH", "padded-base-length=64"], 64),
        ("git 0 (2026-06-18)", ["shape-order=SBH", "padded-base-length=-1"], 128),
        ("git 0 (2024-09-09)", ["mla-fa-without-pad"], 0),
    ],
)
def test_mindspeed_pads_latent_heads_as_layout_and_release_say(read: Read, version: str, flags: list[str], padding: int) -> None:
    record = read({"software.framework": "MindSpeed-LLM", "software.version": version, "software.raw_flags": flags})
    assert record.workload.software.latent_padding == padding


@pytest.mark.parametrize(
    ("changes", "portable"),
    [
        ({"software.framework": "Megatron-LM", "software.version": "2024-01"}, True),  # layers of its own call the package
        ({"software.framework": "Megatron-LM", "software.version": "2024-06"}, False),  # Transformer Engine is the default
        ({"software.framework": "Megatron-LM", "software.version": None}, False),
        ({"software.framework": "Megatron-LM", "software.version": "2024-01", "software.raw_flags": []}, False),
        ({"software.framework": "Megatron-DeepSpeed", "software.version": "2024-01"}, False),
        ({"software.framework": "torchtitan", "software.version": "2024-12"}, True),
        ({"software.framework": "NeMo AutoModel (FSDP2)", "software.backend": "PyTorch/CUDA + Transformer Engine"}, False),
    ],
)
def test_attention_kernels_follow_from_framework_release_and_flags(read: Read, changes: dict[str, Any], portable: bool) -> None:
    record = read({**GPU, "software.raw_flags": ["use-flash-attn"], **changes})
    assert record.workload.software.portable_attention is portable


@pytest.mark.parametrize(
    ("engine", "portable"),
    [("Transformer Engine 1.1", True), ("Transformer Engine 1.2", False), ("Transformer Engine 2.0", False), ("PyTorch", False)],
)
@pytest.mark.parametrize("core", ["use-mcore-models", "transformer-impl=transformer_engine"])
def test_transformer_engine_ran_the_package_before_it_preferred_cudnn(read: Read, core: str, engine: str, portable: bool) -> None:
    software = {"software.framework": "Megatron-LM", "software.version": "2024-01", "software.backend": engine}
    record = read({**GPU, **software, "software.raw_flags": ["use-flash-attn", core]})
    assert record.workload.software.portable_attention is portable


def test_no_other_stack_pads_latent_heads(read: Read) -> None:
    assert read({**GPU, "software.framework": "Megatron-LM"}).workload.software.latent_padding == 0


@pytest.mark.parametrize(
    ("changes", "plain", "compiled"),
    [
        ({"software.framework": "Megatron-LM"}, False, False),
        ({"software.framework": "Megatron-LM", "software.raw_flags": ["torch.compile"], **OF_2025}, False, False),
        ({"software.framework": "Megatron-DeepSpeed"}, True, False),
        ({"software.framework": "llm-foundry / Composer"}, False, False),
        ({"software.framework": "KempnerForge (FSDP2)", **OF_2025}, True, False),
        ({"software.framework": "NeMo AutoModel (FSDP2)", **OF_2025}, True, False),
        (
            {"software.framework": "torchtitan", "software.version": "2024-12", "software.raw_flags": ["torch.compile"]},
            True,
            False,
        ),
        ({"software.framework": "torchtitan", "software.raw_flags": ["torch.compile"], "software.version": "0.2"}, True, False),
        ({"software.framework": "torchtitan", "software.raw_flags": [], **OF_2025}, True, False),
        ({"software.framework": "torchtitan", "software.raw_flags": ["torch.compile"], **OF_2025}, False, True),
    ],
)
def test_losses_are_plain_fused_or_compiled(read: Read, changes: dict[str, Any], plain: bool, compiled: bool) -> None:
    """A loss is compiled where a release is known to compile it with the layers; a fused one is neither plain nor compiled."""
    software = read({**GPU, **changes}).workload.software
    assert (software.plain_cross_entropy, software.compiled_loss) == (plain, compiled)


@pytest.mark.parametrize(
    ("framework", "flags", "compiled"),
    [("torchtitan", ["torch.compile"], True), ("torchtitan", [], False), ("Megatron-LM", ["torch.compile"], False)],
)
def test_layers_of_plain_pytorch_are_compiled_where_a_flag_says_so(
    read: Read, framework: str, flags: list[str], compiled: bool
) -> None:
    software = read({**GPU, "software.framework": framework, "software.raw_flags": flags}).workload.software
    assert software.torch_compile is compiled


def test_a_position_bias_is_read_from_the_flags(read: Read) -> None:
    assert read({"software.raw_flags": ["square-alibi-mask"]}).workload.model.alibi
    assert not read({"software.raw_flags": ["use-flash-attn"]}).workload.model.alibi


@pytest.mark.parametrize(
    ("changes", "fused"),
    [
        ({"software.framework": "Megatron-Bridge / Megatron-Core", "software.version": "NeMo container 25.11"}, True),
        ({"software.framework": "NeMo 2.0 / Megatron-Core", "software.version": "NeMo 24.12"}, False),
        ({"software.framework": "NeMo AutoModel (FSDP2, PyTorch)"}, True),
        ({"software.framework": "Megatron-LM", "software.version": "0.12"}, False),
    ],
)
def test_fused_permutation_on_gpus_is_what_recipes_set(read: Read, changes: dict[str, Any], fused: bool) -> None:
    record = read({**GPU, "software.raw_flags": [], "strategy.features": [], **changes})
    assert (Feature.MOE_PERMUTE_FUSION in record.strategy.features) is fused


@pytest.mark.parametrize(
    ("framework", "hardware", "stock"),
    [
        ("Megatron-LM", "b200-sxm-180gb", True),
        ("Megatron-LM", "h100-sxm-80gb", False),
        ("Megatron-Bridge / Megatron-Core", "b200-sxm-180gb", False),
    ],
)
def test_published_runs_of_plain_megatron_on_blackwell_are_of_a_slow_machine(
    read: Read, framework: str, hardware: str, stock: bool
) -> None:
    record = read({**GPU, "software.framework": framework, "cluster.hardware": hardware, "software.raw_flags": []})
    assert record.workload.software.stock_matmuls is stock


@pytest.mark.parametrize(
    ("flags", "compressed"),
    [(["use_attn_mask_compression=True"], True), (["use_attn_mask_compression=False"], False), ([], False)],
)
def test_mindformers_reads_no_mask_that_is_compressed(read: Read, flags: list[str], compressed: bool) -> None:
    record = read({"software.framework": "MindFormers", "software.raw_flags": flags})
    assert record.workload.software.compressed_mask is compressed
    assert record.workload.reads_whole_mask is not compressed


@pytest.mark.parametrize(
    ("layers", "devices", "flags", "blocks"),
    [
        (100, 256, [], True),  # 202 B parameters on 32 nodes hung
        (100, 128, [], False),
        (40, 256, [], False),  # 81 B
        (100, 256, ["CUDA_LAUNCH_BLOCKING=0"], False),
        (40, 256, ["CUDA_LAUNCH_BLOCKING=1"], True),
    ],
)
def test_launches_block_where_trainings_hung_without(
    read: Read, layers: int, devices: int, flags: list[str], blocks: bool
) -> None:
    changes = {
        "model.num_layers": layers,
        "model.hidden_size": 12288,
        "model.num_attention_heads": 96,
        "model.ffn_hidden_size": 32768,
    }
    site = {"cluster.hardware": "a100-sxm-80gb", "cluster.num_devices": devices, "strategy.dp": devices // 8}
    record = read({**changes, **site, "software.framework": "Megatron-DeepSpeed", "software.raw_flags": flags})
    assert record.workload.software.blocking_launches == blocks
    assert any("CUDA_LAUNCH_BLOCKING" in warning for warning in record.warnings) == (blocks and not flags)
    elsewhere = read({**changes, **site, "software.framework": "Megatron-LM", "model.num_layers": 100})
    assert not elsewhere.workload.software.blocking_launches
