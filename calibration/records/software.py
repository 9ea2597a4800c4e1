"""The framework of a run record: its stack, its age and its kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from calibration.records.known_flags import OFF, Flag
from calibration.records.sections import Notes, SoftwareSection
from cost_models.layer.compute import FLASH_ATTENTION_2_YEAR
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.switches import FUSED_KERNELS, Feature
from cost_models.shapes.traits import STACKS, default_stack
from cost_models.shapes.workload import Cluster, ModelShape, Software
from documents.late_methods import dataclass
from documents.sentences import Sentence
from hardware_profiles.schema import HardwareProfile

# First match wins: a backend before its framework, Megatron-DeepSpeed before Megatron, MindSpore's own names before those that
# contain "Mind".
_STACKS = (
    ("mindspeed-llm-fsdp2", ("mindspeed-llm-fsdp2",)),
    ("mindspeed-llm", ("mindspeed", "modellink", "ascendspeed")),
    ("mindformers", ("mindformers", "mindspore")),
    ("megatron-deepspeed", ("megatron-deepspeed", "bigscience")),
    ("fsdp", ("llm-foundry", "composer", "torchtitan", "fsdp")),
    ("maxtext", ("maxtext",)),
    ("nemo", ("nemo", "megatron-bridge")),
    ("megatron-lm", ("megatron",)),
)
_DATE = re.compile(r"(?<!\d)(20[12]\d)(?:-([01]\d)|([01]\d)[0-3]\d|(?!\d))")  # 2024-12, 20251001, 2021
_RELEASE = re.compile(r"(?<![\d.])(2\d)\.(?:(0[1-9]|1[0-2])|x)(?!\d)")  # NVIDIA containers are named by year and month
_BRANCH = re.compile(r"\br?(\d+\.\d+)")
_LENGTH = re.compile(r"[1-9]\d{0,3}")
_CORE = re.compile(r"(?<![\d.])0\.(\d+)")
_CORE_YEARS: dict[int, float] = {
    **dict.fromkeys((2, 3), 2023),
    4: 2023.92,
    **dict.fromkeys(range(5, 11), 2024),
    **dict.fromkeys(range(11, 16), 2025),
}
_FORMER_NAMES = (("ascendspeed", 2023), ("modellink", 2024), ("mindspeed-llm", 2025))  # earlier names of the project
_COMMIT_YEARS = (("285068c8", 2023),)  # commits of Megatron-LM that stand for a version
_LLM_FOUNDRY_YEAR = 2023  # release of its published tables, with Triton's attention
# Fully sharded frameworks with kernels of their own; others, and anybody's own code, run PyTorch's kernels.
_FUSING = ("llm-foundry", "composer", "automodel", Sentence("transformer engine"))

_FUSED_LOSSES = ("llm-foundry", "composer")  # loss_fn: fused_crossentropy by default [llm-foundry]
_COMPILED_LOSS_YEAR = 2025.0  # of torchtitan

_REDUCES_IN_BF16 = "fms-fsdp"  # its policy of mixed precision by default [fms-fsdp, policies/mixed_precision.py]

_MOMENT_DTYPES = ("exp-avg-dtype", "exp-avg-sq-dtype")
_WEIGHT_PREFETCH = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER
_FLASH_ATTENTION_RELEASE = 2023  # Megatron-LM's --use-flash-attn; before it scores are materialised
# NeMo's use_flash_attention is off by default before; its FP8 recipes take Transformer Engine's attention, which is fused.
_NEMO_FLASH_RELEASE = 2024
# Megatron-LM's own layers, its default until then, call the flash-attn package [megatron-main, commit e7b74a4b7e]. Transformer
# Engine's take cuDNN's kernels on Hopper, but that package before this release [transformer-engine, commit 32db39288].
_OWN_LAYERS_UNTIL, _CUDNN_ATTENTION = 2024.25, (1, 2)
_TRANSFORMER_ENGINE = re.compile(r"transformer engine (\d+)\.(\d+)")
_BNSD_YEAR = 2025  # scripts of MindSpeed-LLM set this layout of attention from its first releases under that name
_PADDED_BASE_LENGTH = 128  # default of MindSpeed-LLM [mindspeed-llm, mla_feature.py]
_HANGING_PARAMETERS, _HANGING_NODES = 1e11, 20  # above which Megatron-DeepSpeed hung unless launches blocked [bigscience]
# Interleaved schedules of Megatron overlap sends with other chunks since mid-2023: if switched on, as in recipes, and by default
# from core 0.4 on [megatron-main, commits f9283c5a8a and 4eeff55d1f]. The zero-bubble fork's scripts never do [zero-bubble-code].
_OVERLAPPED_SENDS, _RECIPE_OVERLAPPED_SENDS = 2023.9, 2023.4
_SENDS_IN_TURN = "zero-bubble"
_STEP_GRAPH_RELEASE = 2026.4  # Megatron-Bridge 26.06: full-iteration graphs for MoE models in 8 bits on Blackwell


@dataclass(frozen=True)
class RecordSoftware:
    """``software`` of a workload, the flags of the source, and features that follow from the framework or from a flag.

    ``features_off`` are the features that a flag turns off.
    """

    software: Software
    flags: tuple[Flag, ...]
    features: Feature
    features_off: Feature
    cuda_graph: bool | None  # None: not stated
    is_bridge: bool  # Megatron-Bridge: recipes on top of Megatron-Core
    balances_by_force: bool  # benchmarks of this software give every expert the mean, unless a record says how tokens are routed
    captures_steps: bool  # recipes for MoE models run the step as one CUDA graph, if a record lists no switch
    overlaps_sends: bool  # sends overlap as in Megatron's interleaved schedules, unless a record says otherwise

    def flag_value(self, *names: str) -> str | None:
        """Value of a flag with one of these names; "" for a bare flag, ``None`` without it."""
        return flag_value(self.flags, *names)

    @property
    def lists_switches(self) -> bool:
        """Whether any flag turns a switch on or off, so that the switches of the script are known."""
        return any(flag.on | flag.off for flag in self.flags)

    def has(self, name: str) -> bool:
        """Whether a flag of that name is present and not off."""
        value = self.flag_value(name)
        return value is not None and value.lower() not in OFF


def with_launches(software: Software, flags: tuple[Flag, ...], model: ModelShape, cluster: Cluster, notes: Notes) -> Software:
    """The software with blocking launches: if a flag says so, or if none does and the training would have hung."""
    stated = flag_value(flags, "cuda-launch-blocking")
    if stated is not None:
        return replace(software, blocking_launches=stated.lower() not in OFF)
    nodes = cluster.num_devices / cluster.profile.devices_per_node
    if software.stack != "megatron-deepspeed" or nodes < _HANGING_NODES or num_parameters(model).total < _HANGING_PARAMETERS:
        return software
    notes.add("CUDA_LAUNCH_BLOCKING", None, Sentence("is not stated, read as 1: such trainings hung without"))
    return replace(software, blocking_launches=True)


def flag_value(flags: Sequence[Flag], *names: str) -> str | None:
    """Value of a flag with one of these names; "" for a bare flag, ``None`` without it."""
    return next((flag.value or "" for flag in flags if flag.name in names), None)


def release_year(stack: str, framework: str, version: str, backend: str) -> float | None:
    """Release date of the software from its version or name (2024.5: July 2024); never the date of the run's publication."""
    for text in (version, backend):
        date, container = _DATE.search(text), _RELEASE.search(text)
        month = date and (date[2] or date[3])
        if date and (month or not container):
            return _in_years(int(date[1]), month)
        if container:
            return _in_years(2000 + int(container[1]), container[2])
    ladder = STACKS[stack].traits.releases if stack in STACKS else None
    if ladder is not None and (found := _BRANCH.search(version)):
        return ladder.year_of(found[1])
    if stack == "megatron-lm" and (found := _CORE.search(version)):
        return _CORE_YEARS.get(int(found[1]))
    if stack == "megatron-lm" and (commit := next((year for name, year in _COMMIT_YEARS if name in version), None)):
        return commit
    name = framework.lower()
    if "llm-foundry" in name:
        return _LLM_FOUNDRY_YEAR
    return next((year for former, year in _FORMER_NAMES if former in name), None)


def _in_years(year: int, month: str | None) -> float:
    return round(year + (max(int(month), 1) - 1) / 12, 2) if month else year


def software_stack(framework: str, family: str, notes: Notes) -> str:
    """The stack whose constants apply, by the framework's name; otherwise the hardware's usual one."""
    known = _known_stack(framework)
    if known is not None:
        return known
    usual = default_stack(family)
    notes.add("framework", framework, Sentence("is not a known framework, priced as {}", usual))
    return usual


def _known_stack(framework: str) -> str | None:
    name = framework.lower()
    return next((stack for stack, words in _STACKS if any(word in name for word in words)), None)


def record_software(
    section: SoftwareSection, flags: tuple[Flag, ...], stack: str, *, profile: HardwareProfile, precision: str
) -> RecordSoftware:
    """Software and features of a record's ``software`` section, of the flags that its stack knows, on hardware of ``profile``."""
    family = profile.family
    framework, backend = section.framework, section.backend
    texts = section.raw_flags
    year = release_year(stack, framework, section.version, backend)
    compiled = "graph mode" in backend.lower() or "xla" in backend.lower()
    compiles_layers = "torch.compile" in texts and _is_plain_pytorch(stack)
    compiles_loss = compiles_layers and _compiles_loss(year)
    software = Software(
        stack=stack,
        execution="graph" if compiled else "eager",
        year=year,
        fp32_parameters=stack == "mindformers" and precision == "fp16" and "optimizer=FP32StateAdamWeightDecay" not in texts,
        portable_attention=_has_portable_attention(stack, year, flags, backend),
        plain_cross_entropy=_has_plain_cross_entropy(stack, framework) and not compiles_loss,
        compiled_loss=compiles_loss,
        torch_compile=compiles_layers,
        stock_matmuls=stack == "megatron-lm" and "nvfp4" in profile.matmul_flops_per_s,
        legacy_layers=stack == "mindspeed-llm" and _has_legacy_layers(texts, backend),
        unknown_release=year is None,
        other_framework=_known_stack(framework) is None,
        compressed_mask=(flag_value(flags, "use-attn-mask-compression") or "false").lower() not in OFF,
        latent_padding=_latent_padding(flags, year) if stack == "mindspeed-llm" else 0,
    )
    features = Feature(0)
    if family != "ascend":  # records of other hardware do not list fused kernels
        features |= Feature.MOE_GROUPED_GEMM
        if "torch.compile" in texts or _fuses_kernels(framework, backend):
            features |= FUSED_KERNELS
        if (stack == "nemo" and (year is None or year >= 2025)) or "automodel" in framework.lower():
            features |= Feature.MOE_PERMUTE_FUSION  # NeMo's recipes set it; Megatron's default is off [megatron-0.12]
        if _has_flash_attention(stack, year, flags, precision):
            features |= Feature.FLASH_ATTENTION
    reduced_in_fp32 = flag_value(flags, "grad-reduce-in-fp32")
    usual = stack == "nemo" or _REDUCES_IN_BF16 in framework.lower()
    if usual if reduced_in_fp32 is None else reduced_in_fp32.lower() in OFF:
        features |= Feature.GRAD_REDUCE_IN_BF16  # grad_sync_dtype of NeMo's optimizer, grad_reduce_in_fp32=False of its recipes
    if flag_value(flags, "use-precision-aware-optimizer") is not None and all(
        flag_value(flags, name) == "bf16" for name in _MOMENT_DTYPES
    ):
        features |= Feature.BF16_MOMENTS
    if flag_value(flags, "sync-free moe") is not None:
        features |= Feature.MOE_PERMUTE_FUSION
    if stack in ("fsdp", "mindformers"):
        features |= _WEIGHT_PREFETCH  # PyTorch FSDP and MindSpore's graphs prefetch and reduce on streams of their own
    off = Feature(0)
    for flag in flags:
        features, off = (features | flag.on) & ~flag.off, off | flag.off
    is_bridge = "megatron-bridge" in framework.lower()
    recent = year is not None and year >= _STEP_GRAPH_RELEASE and "nvfp4" in profile.matmul_flops_per_s
    return RecordSoftware(
        software,
        flags,
        features,
        off,
        _cuda_graph(section.cuda_graph),
        is_bridge,
        balances_by_force=is_bridge or "nemo" in framework.lower(),
        captures_steps=is_bridge and recent,
        overlaps_sends=_overlaps_sends(stack, framework, year, flags),
    )


def _fuses_kernels(framework: str, backend: str) -> bool:
    """Whether norms, gated activations and rotary positions are fused kernels, if a record does not say so."""
    stack = _known_stack(framework)
    return (stack or "fsdp") != "fsdp" or any(name in f"{framework} {backend}".lower() for name in _FUSING)


def _overlaps_sends(stack: str, framework: str, year: float | None, flags: tuple[Flag, ...]) -> bool:
    if flag_value(flags, "no-overlap-p2p-communication") is not None or _SENDS_IN_TURN in framework.lower():
        return False
    return year is None or year >= (_RECIPE_OVERLAPPED_SENDS if stack == "nemo" else _OVERLAPPED_SENDS)


def _has_flash_attention(stack: str, year: float | None, flags: tuple[Flag, ...], precision: str) -> bool:
    if any("no flash" in flag.text.lower() for flag in flags):
        return False
    backend = flag_value(flags, "attention-backend")
    if backend is not None and backend != "auto":
        return backend in ("flash", "fused")
    if flag_value(flags, "use-flash-attn") is not None:
        return True
    if stack == "nemo" and precision != "fp8":
        return year is None or year >= _NEMO_FLASH_RELEASE
    old = year is not None and year < _FLASH_ATTENTION_RELEASE
    return stack != "megatron-deepspeed" and not old  # Megatron-DeepSpeed leaves it off by default


def _has_portable_attention(stack: str, year: float | None, flags: tuple[Flag, ...], backend: str) -> bool:
    """Whether attention is PyTorch's or the flash-attn package's, whose kernels do not use newer matmul instructions."""
    if stack == "fsdp":
        return "transformer engine" not in backend.lower()
    if stack != "megatron-lm" or flag_value(flags, "use-flash-attn") is None or year is None or year < FLASH_ATTENTION_2_YEAR:
        return False
    has_core = flag_value(flags, "use-mcore-models") is not None or flag_value(flags, "transformer-impl") == "transformer_engine"
    engine = _TRANSFORMER_ENGINE.search(backend.lower())
    if has_core or year >= _OWN_LAYERS_UNTIL:
        return engine is not None and (int(engine[1]), int(engine[2])) < _CUDNN_ATTENTION
    return True


def _is_plain_pytorch(stack: str) -> bool:
    return stack in STACKS and not STACKS[stack].traits.own_kernels


def _has_plain_cross_entropy(stack: str, framework: str) -> bool:
    """PyTorch's own, but where a framework brings a fused one; Megatron's of 2021, which Megatron-DeepSpeed forked, is as it."""
    fused = any(name in framework.lower() for name in _FUSED_LOSSES)
    return stack == "megatron-deepspeed" or (_is_plain_pytorch(stack) and not fused)


def _compiles_loss(year: float | None) -> bool:
    """Whether ``torch.compile`` is of the loss too: in torchtitan since 2025; of an unknown release it is not taken to be."""
    return year is not None and year >= _COMPILED_LOSS_YEAR


def _has_legacy_layers(flags: tuple[str, ...], backend: str) -> bool:
    """Whether layers are older than Megatron-Core's: flags are listed, none chooses Core, and the back end has other layers."""
    return bool(flags) and "use-mcore-models" not in flags and "megatron core" not in backend.lower()


def _latent_padding(flags: tuple[Flag, ...], year: float | None) -> int:
    """Padding of latent attention's heads in MindSpeed: none, values to queries, or all to a multiple of its base length.

    The layout decides. If it is not stated: scripts of 2024 left the default, and later ones set BNSD
    [mindspeed-llm, multi_latent_attention.py]. A record without any flag comes from no script and is priced like a job.
    """
    if not flags or flag_value(flags, "mla-fa-without-pad") is not None:
        return 0
    order = flag_value(flags, "shape-order")
    is_wide = order.upper() != "BNSD" if order else year is not None and year < _BNSD_YEAR
    length = flag_value(flags, "padded-base-length") or ""
    return (int(length) if _LENGTH.fullmatch(length) else _PADDED_BASE_LENGTH) if is_wide else 1


def _cuda_graph(value: object) -> bool | None:
    """A flag, or text as ``implementation/scope``; the implementation ``none`` means off."""
    if isinstance(value, str):
        parts = value.partition("[")[2].strip(" ]")
        return not parts and value.partition("/")[0].strip().lower() not in ("", "none", "null", "false")
    return value if isinstance(value, bool) else None
