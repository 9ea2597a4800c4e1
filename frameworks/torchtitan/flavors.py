"""Models of torchtitan by name and flavor, from the arguments that its registry states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape, Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.model_facts import flattened
from frameworks.release import Release
from frameworks.rule import all_of
from frameworks.torchtitan.table import RELEASE
from frameworks.torchtitan.table_main import RELEASE_MAIN

CAUSAL, FLEX = "sdpa", "flex"  # attention of whole sequences; others stay within documents, one by a kernel of its own
SHOWN = 4  # fields that a sentence names
_FREE = ("name", "constants")  # fields of a model that leave its layers as they are
_CONSTANTS = {
    "constants.norm_epsilon": Sentence("the norms' epsilon"),
    "constants.rotary_base": Sentence("the rotary base"),
    "constants.rope_scaling.kind": Sentence("the scaling of rotary positions"),
    "constants.rope_scaling.factor": Sentence("the factor of rotary positions"),
    "constants.router.score_function": Sentence("the router's scores"),
    "constants.router.normalize_topk": Sentence("the normalisation of the router's weights"),
    "constants.router.topk_scale": Sentence("the scale of the router's weights"),
    "constants.activation": Sentence("the activation"),
    "constants.normalization": Sentence("the norm"),
}
_BUILDS = ("constants.activation", "constants.normalization")  # constants that make another model
# Families of torchtitan that are not read, and why.
UNREAD_FAMILIES: Mapping[str, str] = {
    "gpt_oss": Sentence("its attention has windows, documents and sinks in one kernel, which is not priced"),
    "llama3_ft": Sentence("its replicas are started by torchft"),
    "flux": Sentence("it makes pictures"),
}


@dataclass(frozen=True)
class Flavor:
    """A model that torchtitan can be told by its family's name and a flavor, and its attention.

    ``takes_cp``: context parallelism starts. ``keeps_exchange``: checkpoints by operator keep what experts exchanged, and the
    price repeats it. ``has_pipelines``: the release cuts it into stages. ``has_chunks``: some layers attend within chunks of
    a sequence, which has no price. ``max_seq_length``: tokens of the longest sample, ``None`` without a bound.
    """

    name: str
    flavor: str
    model: ModelShape
    attention: str
    takes_cp: bool
    keeps_exchange: bool
    has_pipelines: bool
    has_chunks: bool = False
    max_seq_length: int | None = None

    @property
    def within_documents(self) -> bool:
        """Whether attention stays within documents."""
        return self.attention != CAUSAL

    def too_long(self, seq_length: int) -> Sentence | None:
        """A sentence on samples of so many tokens; ``None`` where the release takes them."""
        if self.max_seq_length is None or seq_length <= self.max_seq_length:
            return None
        return Sentence(
            "samples of {} tokens are longer than the {} rotary positions of {} {}",
            seq_length,
            self.max_seq_length,
            self.name,
            self.flavor,
        )


def _gate_width(stated: Mapping[str, Any]) -> int:
    """Channels of a gated MLP before they are rounded up [torchtitan-0.2, models/llama3/model/model.py]."""
    return int(stated.get("ffn_dim_multiplier", 1) * int(2 * 4 * stated["dim"] / 3))


def _up_to(multiple: int, width: int) -> int:
    return multiple * -(-width // multiple)


def _llama3(stated: Mapping[str, Any]) -> ModelShape:
    scaling = stated.get("rope_scaling_args")
    return ModelShape(
        name="",
        num_layers=stated["n_layers"],
        hidden_size=stated["dim"],
        num_attention_heads=stated["n_heads"],
        num_query_groups=stated.get("n_kv_heads", stated["n_heads"]),
        kv_channels=stated["dim"] // stated["n_heads"],
        ffn_hidden_size=_up_to(stated["multiple_of"], _gate_width(stated)),
        vocab_size=stated["vocab_size"],
        tied_embeddings=stated.get("enable_weight_tying", False),
        constants=ModelConstants(
            model_type="llama",
            activation="silu",
            normalization="rmsnorm",
            norm_epsilon=stated["norm_eps"],
            rotary_base=float(stated["rope_theta"]),
            rope_scaling=scaling
            and RopeScaling(
                "llama3",
                scaling["scaling_factor"],
                scaling["original_max_position_embeddings"],
                low_freq_factor=scaling["low_freq_factor"],
                high_freq_factor=scaling["high_freq_factor"],
            ),
        ),
    )


def _experts(stated: Mapping[str, Any], width: int) -> MoeShape:
    """Experts of ``width`` channels each [torchtitan-0.2, models/moe/moe.py]."""
    experts = stated["moe_args"]
    shared = experts["num_shared_experts"]
    return MoeShape(
        num_experts=experts["num_experts"],
        top_k=experts["top_k"],
        expert_ffn_hidden_size=width,
        num_shared_experts=shared,
        shared_expert_ffn_hidden_size=shared * width,
        num_groups=experts.get("num_expert_groups", 1),
        group_topk=experts.get("num_limited_groups", 1),
    )


def _router(stated: Mapping[str, Any]) -> RouterConstants:
    experts = stated["moe_args"]
    return RouterConstants(experts["score_func"], experts["route_norm"], experts["route_scale"])


def _llama4(stated: Mapping[str, Any]) -> ModelShape:
    """Experts share the channels of a dense MLP [torchtitan-0.2, models/llama4/model/model.py]."""
    dense, experts = _llama3(stated), stated["moe_args"]
    width = _up_to(stated["multiple_of"], _gate_width(stated) // (experts["top_k"] + experts["num_shared_experts"]))
    return replace(
        dense,
        moe=replace(_experts(stated, width), moe_layer_freq=stated["interleave_moe_layer_step"]),
        constants=replace(dense.constants, model_type="", router=_router(stated)),
    )


def _deepseek_v3(stated: Mapping[str, Any]) -> ModelShape:
    mla = MlaShape(**{name: stated[name] for name in _LATENT})
    return ModelShape(
        name="",
        num_layers=stated["n_layers"],
        hidden_size=stated["dim"],
        num_attention_heads=stated["n_heads"],
        num_query_groups=stated["n_heads"],
        kv_channels=mla.qk_head_dim,
        ffn_hidden_size=stated["inter_dim"],
        vocab_size=stated["vocab_size"],
        mla=mla,
        moe=replace(_experts(stated, stated["moe_inter_dim"]), num_leading_dense_layers=stated["n_dense_layers"]),
        constants=ModelConstants(
            model_type="deepseek_v3",
            activation="silu",
            normalization="rmsnorm",
            norm_epsilon=stated["norm_eps"],
            rotary_base=float(stated["rope_theta"]),
            rope_scaling=RopeScaling(
                "yarn",
                stated["rope_factor"],
                stated["original_seq_len"],
                beta_fast=stated["beta_fast"],
                beta_slow=stated["beta_slow"],
                mscale=stated["mscale"],
                mscale_all_dim=stated["mscale"],
            ),
            router=_router(stated),
        ),
    )


def _qwen3(stated: Mapping[str, Any]) -> ModelShape:
    moe, router = None, RouterConstants()
    if stated["moe_enabled"]:
        moe, router = _experts(stated, stated["moe_inter_dim"]), _router(stated)
    return ModelShape(
        name="",
        num_layers=stated["n_layers"],
        hidden_size=stated["dim"],
        num_attention_heads=stated["n_heads"],
        num_query_groups=stated["n_kv_heads"],
        kv_channels=stated["head_dim"],
        ffn_hidden_size=stated["hidden_dim"],
        vocab_size=stated["vocab_size"],
        qk_layernorm=stated["qk_norm"],
        tied_embeddings=stated["enable_weight_tying"],
        moe=moe,
        constants=ModelConstants(
            model_type="qwen3_moe" if moe else "qwen3",
            activation="silu",
            normalization="rmsnorm",
            norm_epsilon=stated["norm_eps"],
            rotary_base=float(stated["rope_theta"]),
            router=router,
        ),
    )


_LATENT = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_FAMILIES = {"llama3": _llama3, "llama4": _llama4, "deepseek_v3": _deepseek_v3, "qwen3": _qwen3}


class Flavors(Mapping[tuple[str, str], Flavor]):
    """The flavors of a release, by family and flavor.

    ``described``: the flavor of a family's name, its flavor, its model and the arguments that the registry states.
    """

    def __init__(self, release: Release, described: Callable[[str, str, ModelShape, Mapping[str, Any]], Flavor]) -> None:
        self._release = release
        self._found: dict[tuple[str, str], Flavor] = {}
        for label, own in release.models.items():
            name, _, flavor = label.partition("/")
            if flavor:
                stated = {**release.models[name], **own}
                model = replace(_FAMILIES[name](stated), name=f"{name}-{flavor}".lower())
                self._found[name, flavor] = described(name, flavor, model, stated)
        self._priced = tuple(each for each in self.values() if not each.has_chunks)
        self.of = lru_cache(maxsize=64)(self._of)
        self.none_for = lru_cache(maxsize=64)(self._none_for)

    def __getitem__(self, key: tuple[str, str]) -> Flavor:
        return self._found[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _of(self, model: ModelShape, *, packed: bool = False) -> Flavor | None:
        """The flavor with the model's layers; ``None`` without one.

        A model with the name of one is that one. Else one whose attention is that of whole sequences comes first. Of ``packed``
        samples, attention has to stay within documents.
        """
        same = [each for each in self._priced if not _different(each.model, model)]
        named = [each for each in same if each.model.name == model.name]
        able = [each for each in named or same if each.within_documents or not packed]
        return min(able, key=lambda each: each.within_documents, default=None)

    def of_job(self, workload: Workload) -> Flavor | None:
        """The flavor that trains the job's model on its samples; ``None`` without one."""
        return self.of(workload.model, packed=workload.training.mean_squared_length_fraction < 1.0)

    def _none_for(self, model: ModelShape) -> str:
        """A sentence on a model that is no flavor: what the nearest one has otherwise. Of a flavor, on packed samples."""
        nearest = min(
            self._priced, key=lambda each: (len(_different(each.model, model)), abs(each.model.num_layers - model.num_layers))
        )
        different = _different(nearest.model, model)
        if not different:
            return Sentence(
                "torchtitan's {} {} attends to whole sequences, also over packed samples", nearest.name, nearest.flavor
            )
        more = [Sentence("{} more fields", len(different) - SHOWN)] if len(different) > SHOWN else []
        return Sentence(
            "torchtitan {} trains flavors of its own, and {} is none of them; the nearest, {} {}, has another {}",
            self._release.version,
            model.name,
            nearest.name,
            nearest.flavor,
            all_of([*different[:SHOWN], *more]),
        )

    def misstated(self, model: ModelShape) -> tuple[str, ...]:
        """A sentence on the constants that the model states and its flavor has otherwise; layers and cost are the same."""
        flavor = self.of(model)
        if flavor is None:
            return ()
        ours, theirs = flattened(model), flattened(flavor.model)
        said = [
            Sentence("{} ({} for {})", words, theirs.get(path), ours[path])
            for path, words in _CONSTANTS.items()
            if ours.get(path) is not None and ours[path] != theirs.get(path)
        ]
        if not said:
            return ()
        return (Sentence("torchtitan's flavor {} has other constants: {}.", flavor.flavor, all_of(said)),)


def _different(flavor: ModelShape, model: ModelShape) -> list[str]:
    """Fields in which layers differ."""
    ours, theirs = flattened(_comparable(model)), flattened(_comparable(flavor))
    shape = [path for path in {**theirs, **ours} if path.split(".")[0] not in _FREE and ours.get(path) != theirs.get(path)]
    return shape + [path for path in _BUILDS if ours.get(path) not in (None, theirs.get(path))] + _not_built(model)


def _comparable(model: ModelShape) -> ModelShape:
    """The model without numbers of layers that it does not have: a width of dense layers where all layers have experts."""
    return replace(model, ffn_hidden_size=0) if model.moe is not None and all(model.moe_layers()) else model


_PLAIN = ModelConstants()
_NOT_BUILT = (
    *("norm_zero_centered", "rotary_fraction", "local_rotary_base", "attention_output_bias", "attention_scale"),
    *("attention_softcap", "logit_softcap", "embedding_scale", "attention_sinks", "activation_clamp", "glu_linear_offset"),
    *("qk_norm_over_heads", "post_norm_residual"),
)


def _not_built(model: ModelShape) -> list[str]:
    """Constants that no flavor has, and that make another model."""
    constants = model.constants
    found = [name for name in _NOT_BUILT if getattr(constants, name) != getattr(_PLAIN, name)]
    return found + (["shared_expert_gate"] if constants.router.shared_expert_gate else [])


def _of_0_2(name: str, flavor: str, model: ModelShape, stated: Mapping[str, Any]) -> Flavor:
    attention = stated["attn_type"]
    return Flavor(
        name,
        flavor,
        model,
        attention,
        # [torchtitan-0.2, llama3/model/args.py:55; deepseek_v3/model/args.py:101]
        takes_cp=attention == CAUSAL or (name == "llama3" and attention == FLEX),
        keeps_exchange=name == "llama4",  # [torchtitan-0.2, models/llama4/infra/parallelize.py:49]
        has_pipelines=name != "qwen3",  # [torchtitan-0.2, models/qwen3/__init__.py:199]
        has_chunks="every_n_layers_nope" in stated,
    )


def _of_main(name: str, flavor: str, model: ModelShape, stated: Mapping[str, Any]) -> Flavor:
    """Every family attends within documents [torchtitan-2026.08, models/common/config_utils.py:83]."""
    return Flavor(
        name,
        flavor,
        model,
        FLEX,
        takes_cp=True,
        keeps_exchange=model.mla is None,
        has_pipelines=not model.tied_embeddings,  # [torchtitan-2026.08, models/common/decoder.py:168]
        max_seq_length=stated["max_context_length"],
    )


FLAVORS = Flavors(RELEASE, _of_0_2)
FLAVORS_MAIN = Flavors(RELEASE_MAIN, _of_main)
