"""Published models with few layers, whose launch files run with stand-ins for Transformer Engine and DeepEP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.catalogue.models.presets import model_preset
from app.catalogue.models.shape import model_to_mapping

Case = dict[str, Any]
RELEASES = NEWEST = ("0.19",)
LAYERS = {"llama-3.1-8b": 4, "qwen3-30b-a3b": 4, "glm-4.5": 6, "deepseek-v3": 6}
LLAMA, QWEN, GLM, DEEPSEEK = LAYERS


def case(
    name: str,
    model: str,
    *modules: str,
    releases: tuple[str, ...] = RELEASES,
    devices: int = 8,
    switches: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    training: dict[str, Any] | None = None,
    **plan: Any,
) -> Case:
    """A plan of 4,096 tokens a micro batch; ``modules`` are recomputed, ``switches`` on and ``without`` off."""
    recompute = {"recompute": {"granularity": "selective", "modules": list(modules)}} if modules else {}
    features = dict.fromkeys(switches, True) | dict.fromkeys(without, False)
    strategy = {"tp": 1, "pp": 1, "micro_batch_size": 1, "switches": features} | plan | recompute
    made: Case = {"name": f"{name}: {model}", "model": model, "devices": devices, "strategy": strategy, "releases": releases}
    return made | {"training": training or {}}


def job_of(case: Case, release: str) -> dict[str, Any]:
    """The case as a job file."""
    model = model_preset(case["model"]).model
    return {
        "model": model_to_mapping(replace(model, num_layers=LAYERS[case["model"]])),
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": case["devices"]},
        "training": {"seq_length": 4096, "global_batch_size": 64 * case["devices"]} | case["training"],
        "software": {"stack": "megatron-lm", "target": f"megatron-lm@{release}"},
        "strategy": case["strategy"],
    }


MUON = {"optimizer": "muon"}
FLEX, PLAIN = ({"moe_dispatcher": name} for name in ("two_level", "alltoall"))
BESIDE = ("moe_shared_expert_overlap",)
NORMS, ACT = "layernorm", "mlp_act"
SECTIONS = {
    "Context parallelism": [
        case("cp 2", LLAMA, cp=2),
        case("cp 2 tp 2", LLAMA, cp=2, tp=2),
        case("cp 4, Ulysses", LLAMA, cp=4, cp_algo="ulysses"),
        case("cp 4, gathered keys", LLAMA, cp=4, cp_algo="kv_allgather"),
        case("cp 2 ep 4", QWEN, cp=2, ep=4, releases=NEWEST, **PLAIN),
    ],
    "Recompute by module": [
        *(case(f"norms, tp {tp}", LLAMA, NORMS, tp=tp) for tp in (1, 2, 4)),
        *(case(f"norms, tp {tp}", GLM, NORMS, tp=tp, ep=4, releases=NEWEST, **PLAIN) for tp in (1, 2, 4)),
        *(case(f"activations, tp {tp}", GLM, ACT, tp=tp, ep=4, releases=NEWEST, **PLAIN) for tp in (1, 2, 4)),
        case("norms and activations, tp 2", DEEPSEEK, NORMS, ACT, tp=2, ep=8, releases=NEWEST, **PLAIN),
        case(
            "norms, activations, up-projections, tp 2", DEEPSEEK, NORMS, ACT, "mla_up_proj", tp=2, ep=8, releases=NEWEST, **FLEX
        ),
        case("mixture, tp 2", GLM, "moe", tp=2, ep=4, releases=NEWEST, **PLAIN),
    ],
    "Dispatchers and grouped experts": [
        case("all-to-all, ep 8", QWEN, ep=8, **PLAIN),
        case("all-to-all, permutation not fused", QWEN, ep=8, without=("moe_permute_fusion",), **PLAIN),
        case("all-to-all, tp 2 ep 4", QWEN, tp=2, ep=4, **PLAIN),
        case("all-to-all, tp 4 ep 8", QWEN, tp=4, ep=8, **PLAIN),
        case("DeepEP, ep 8", QWEN, ep=8, **FLEX),
        case("DeepEP, tp 2 ep 4", QWEN, tp=2, ep=4, **FLEX),
        case("DeepEP, ep 16", DEEPSEEK, devices=16, ep=16, releases=NEWEST, **FLEX),
    ],
    "Overlapped shared experts": [
        *(case(f"all-to-all, tp {tp}", GLM, tp=tp, ep=4, switches=BESIDE, releases=NEWEST, **PLAIN) for tp in (1, 2, 4)),
        case("DeepEP, tp 2", GLM, tp=2, ep=4, switches=BESIDE, releases=NEWEST, **FLEX),
        case("DeepEP, norms, tp 4", DEEPSEEK, NORMS, tp=4, ep=8, switches=BESIDE, releases=NEWEST, **FLEX),
    ],
    "Muon": [
        *(
            case(f"{mode}, tp 2", LLAMA, tp=2, training={**MUON, "muon_tp_mode": mode}, releases=NEWEST)
            for mode in ("blockwise", "duplicated", "distributed")
        ),
        case("no sharding", LLAMA, tp=2, zero_stage=0, training=MUON, releases=NEWEST),
        case("pp 2", LLAMA, tp=2, pp=2, training={**MUON, "muon_num_ns_steps": 3}, releases=NEWEST),
        case("experts, tp 2 ep 4", QWEN, tp=2, ep=4, training=MUON, releases=NEWEST, **PLAIN),
        case("latent attention, tp 2", DEEPSEEK, tp=2, ep=8, training=MUON, releases=NEWEST, **PLAIN),
    ],
}
CASES = [each for section in SECTIONS.values() for each in section]
