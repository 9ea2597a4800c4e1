"""Writes the tables of docs/layout-switching.md and of its Chinese page: published figures of layout changes beside ours.

Nothing is fitted here. Rates of engines rest on some of the rows; these are predicted with the mean rate of the other rows too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.language.choice import Language, said, speak
from app.rl.job import parse_rl_job
from app.rl.models import model_of
from app.rl.schemas import RlDocument, RlSwitch, RlSwitchSeconds
from app.rl.service import rl_document
from cost_models.post_training.constants import SLOW_HOST_COPY_BYTES_PER_S
from cost_models.post_training.resharding import engine_s, model_bytes
from cost_models.post_training.shards import RankOrder
from cost_models.post_training.switching import GroupKind, training_groups
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Cluster, Software, TrainingJob, Workload
from documents.errors import InfeasibleError
from documents.quantities import gibibytes, seconds, span
from documents.sentences import word
from hardware_profiles.catalogue import named
from scripts.pages.text import table

PAGES: dict[Language, Path] = {"en": ROOT / "docs/layout-switching.md", "zh": ROOT / "docs/zh/layout-switching.md"}


@dataclass(frozen=True)
class Published:
    """Seconds of one exchange of weights: the model, its bytes a weight, hardware, and the engine that its source describes."""

    title: str
    model: str
    width: float
    hardware: str
    devices_of_instance: int
    engine: str
    seconds: float
    source: str
    is_calibrated: bool = True
    links_s: float | None = None  # of the source, where its network is not the profile's


EXCHANGES = (
    Published("Qwen3-30B-A3B, 30 x 910C, HCCL", "qwen3-30b-a3b", 2, "atlas-900-a3-superpod", 1, "bucketed", 11.0, "verl-docs"),
    Published("Qwen3-30B-A3B, 30 x 910C, kimi", "qwen3-30b-a3b", 2, "atlas-900-a3-superpod", 1, "pipelined", 3.5, "verl-docs"),
    Published("Qwen3-30B-A3B, 30 x H100, NCCL", "qwen3-30b-a3b", 2, "h100-sxm-80gb", 1, "bucketed", 7.0, "verl-docs"),
    Published("Qwen3-30B-A3B, 16 + 16 x H20", "qwen3-30b-a3b", 2, "h20-sxm-96gb", 1, "per-tensor", 15.76, "verl-docs"),
    Published("Qwen3-30B-A3B, 16 + 16 x H20", "qwen3-30b-a3b", 2, "h20-sxm-96gb", 1, "pipelined", 4.38, "verl-docs"),
    Published("GLM-4.5-Air, 8 x H800", "glm-4.5-air", 2, "h800-sxm-80gb", 8, "sharded", 3.47, "checkpoint-engine"),
    Published("DeepSeek-V3.1 FP8, 16 x H20", "deepseek-v3.1", 1, "h20-sxm-96gb", 16, "sharded", 10.19, "checkpoint-engine"),
    Published("Kimi-K2 FP8, 16 x H20", "kimi-k2", 1, "h20-sxm-96gb", 16, "sharded", 14.36, "checkpoint-engine"),
    Published("DeepSeek-V3.1 FP8, 256 x H20", "deepseek-v3.1", 1, "h20-sxm-96gb", 16, "sharded", 11.33, "checkpoint-engine"),
    Published("Qwen3-235B FP16, UCX", "qwen3-235b-a22b", 2, "h100-sxm-80gb", 8, "sharded", 6.0, "robustrl", False, 4.7),
    Published("72B, relays, 1,024 GPUs", "qwen2.5-72b", 2, "h800-sxm-80gb", 8, "sharded", 1.6, "laminar", False),
    Published("GLM-4.5, bf16", "glm-4.5", 2, "h100-sxm-80gb", 8, "bucketed", 48.0, "slime", False),
)
RL_FUSION: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": 512},
    "strategy": {"tp": 8, "pp": 16, "ep": 32, "vpp": 2, "recompute": True},
    "rollout": {"tp": 1, "ep": 64, "precision": "int8", "max_requests": 256, "memory_fraction": 0.9, "execution": "graph"},
}
SECTION: dict[str, Any] = {
    "prompts": 256,
    "samples": 16,
    "prompt_tokens": 512,
    "lengths": {"mean": 2048, "cap": 4096, "sigma": 0.7},
    "placement": "fully-colocated",
}
HEADS: Mapping[Language, Mapping[str, list[str]]] = {
    "en": {
        "exchanges": ["published", "engine", "seconds", "predicted", "error", "links alone", "from other rows", "source"],
        "parts": ["part", "each change", "the first", "range", "bytes of a device", "count"],
        "memory": ["figure", "published", "predicted", "source"],
        "orders": ["order of ranks, training", "moves of a shard", "engine", "links alone"],
    },
    "zh": {
        "exchanges": ["公开数据", "引擎", "秒数", "预测", "误差", "仅链路", "由其他行预测", "来源"],
        "parts": ["部分", "每次切换", "首次", "范围", "每设备字节", "数量"],
        "memory": ["数据", "公开数据", "预测", "来源"],
        "orders": ["rank 次序与训练布局", "分片中需移动的部分", "引擎", "仅链路"],
    },
}


def tables(language: Language) -> dict[str, str]:
    """The text of each table by its name."""
    speak(language)
    try:
        heads = HEADS[language]
        found = {
            "exchanges": table(heads["exchanges"], map(_exchange, EXCHANGES)),
            "parts": table(heads["parts"], _parts(_priced())),
            "orders": table(heads["orders"], _orders("，" if language == "zh" else ", ")),
            "memory": table(heads["memory"], _memory(language)),
        }
        return {name: said(text) for name, text in found.items()}
    finally:
        speak("en")


def _exchange(row: Published) -> list[str]:
    profile = named(row.hardware)
    whole = model_bytes(model_of(row.model), row.width)
    wire_s = row.links_s or whole / row.devices_of_instance / profile.tiers[-1].bandwidth_bytes_per_s
    predicted_s = max(engine_s(whole, 1.0, row.engine, profile), wire_s)
    return [
        row.title,
        f"`{row.engine}`",
        f"{row.seconds:.1f}",
        f"{predicted_s:.1f}",
        f"{predicted_s / row.seconds - 1.0:+.0%}",
        f"{wire_s:.1f}",
        _left_out(row, whole),
        f"[{row.source}]",
    ]


def _left_out(row: Published, whole: float) -> str:
    """Error of a row that its engine's rate rests on, with the geometric mean of the other rows' rates."""
    if not row.is_calibrated:
        return "-"
    family = named(row.hardware).family
    others = [
        math.log(model_bytes(model_of(one.model), one.width) / one.seconds)
        for one in EXCHANGES
        if one is not row and one.is_calibrated and one.engine == row.engine and named(one.hardware).family == family
    ]
    if not others:
        return "-"
    return f"{whole / math.exp(sum(others) / len(others)) / row.seconds - 1.0:+.0%}"


def _priced(order: RankOrder = RankOrder.CONSECUTIVE, **strategy: int) -> RlDocument:
    job = {**RL_FUSION, "strategy": {**RL_FUSION["strategy"], **strategy}}
    return rl_document(parse_rl_job({**job, "post_training": {**SECTION, "switch": {"rank_order": order.value}}}))


def _parts(found: RlDocument) -> list[list[str]]:
    assert found.switches is not None
    rows = []
    for name, change in (("to_rollout", found.switches.to_rollout), ("to_train", found.switches.to_train)):
        rows.append([f"**{said(word(name))}**", *_seconds(change), "", ""])
        rows += [
            [
                said(word(part.part)),
                *_seconds(part),
                gibibytes(part.device_bytes) if part.device_bytes else "",
                f"{part.count:,}" if part.count else "",
            ]
            for part in change.parts
        ]
    return rows


def _seconds(of: RlSwitchSeconds | RlSwitch) -> list[str]:
    wide = "" if of.first_low_s == of.first_high_s else said(span(of.first_low_s, of.first_high_s))
    return [said(seconds(of.seconds)), said(seconds(of.first_s)), wide]


def _orders(comma: str) -> list[list[str]]:
    """Two trainings on the 512 dies under both orders of ranks."""
    rows = []
    for degrees in ({"pp": 16, "ep": 32}, {"pp": 4, "ep": 64, "vpp": 1}):
        for order in RankOrder:
            text = said(word(order.value)) + comma + " ".join(f"{name}{value}" for name, value in {"tp": 8, **degrees}.items())
            try:
                found = _priced(order, **degrees).switches
            except InfeasibleError as error:
                rows.append([text, said(str(error)), "-", "-"])
                continue
            assert found is not None
            moved = sum(link.device_bytes for link in found.links)
            weights = found.to_rollout.parts[0]
            rows.append(
                [
                    text,
                    f"{gibibytes(moved)} / {gibibytes(found.shard_bytes)}",
                    f"{weights.low_s:.1f} - {weights.high_s:.1f} s",
                    said(seconds(found.links_s)),
                ]
            )
    return rows


# What is compared, in each language: process groups of a side, what its communicators hold, seconds of a copy to the host.
FIGURES: Mapping[Language, tuple[str, ...]] = {
    "en": (
        "process groups, Qwen3-30B-A3B on 16 GPUs (tp4 ep8 assumed)",
        "communicators of training, GLM-4.5 on 64 H100 (tp8 pp4 ep16 assumed)",
        "communicators of a rank, Qwen3-30B-A3B on 8 H100 (tp2 pp2 ep4 assumed)",
        "offload of Qwen3-30B-A3B by 4 dies of 910C",
    ),
    "zh": (
        "进程组数，16 卡上的 Qwen3-30B-A3B（假定 tp4 ep8）",
        "训练侧通信域，64 卡 H100 上的 GLM-4.5（假定 tp8 pp4 ep16）",
        "单个 rank 的通信域，8 卡 H100 上的 Qwen3-30B-A3B（假定 tp2 pp2 ep4）",
        "4 个 910C die 换出 Qwen3-30B-A3B",
    ),
}


def _memory(language: Language) -> list[list[str]]:
    small = _groups("qwen3-30b-a3b", ParallelStrategy(tp=4, dp=4, ep=8))
    large = _groups("glm-4.5", ParallelStrategy(tp=8, pp=4, dp=2, ep=16))
    single = _groups("qwen3-30b-a3b", ParallelStrategy(tp=2, pp=2, dp=2, ep=4))
    each = named("h100-sxm-80gb").communicator_bytes
    shard, die = model_bytes(model_of("qwen3-30b-a3b"), 2) / 4, named("atlas-900-a3-superpod")
    offload = f"{shard / die.host_link_bytes_per_s:.1f} - {shard / SLOW_HOST_COPY_BYTES_PER_S:.1f} s"
    made = (
        _made_by_megatron(tp=4, pp=1, dp=4, ep=8),
        _made_by_megatron(tp=8, pp=4, dp=2, ep=16),
        _made_by_megatron(tp=2, pp=2, dp=2, ep=4),
    )
    all_made = f"{sum(group.number for group in small)} - {sum(made[0].values())}"
    values = (
        ("45", all_made, "miles-384"),
        ("> 10 GB", f"{len(large) * each / 1e9:.1f} - {len(made[1]) * each / 1e9:.1f} GB", "slime"),
        ("7 - 10 GB", f"{len(single) * each / 1e9:.1f} - {len(made[2]) * each / 1e9:.1f} GB", "verl-6266"),
        ("7 s", offload, "verl-docs"),
    )
    return [[figure, *row[:2], f"[{row[2]}]"] for figure, row in zip(FIGURES[language], values, strict=True)]


def _made_by_megatron(*, tp: int, pp: int, dp: int, ep: int) -> dict[str, int]:
    """Process groups of more than one rank by kind, with their number, as Megatron makes them without context parallelism.

    It makes groups of the same ranks once for each purpose; those of Gloo are left out [megatron-0.12, parallel_state.py].
    """
    devices = tp * pp * dp
    sizes = {
        "world": devices,
        "data and context": dp,
        "data": dp,
        "tensor": tp,
        "pipeline": pp,
        "model": tp * pp,
        "embedding": min(pp, 2),
        "tensor, data and context": tp * dp,
        "tensor and data": tp * dp,
        "tensor and context": tp,
        "expert": ep,
        "expert tensor and expert": ep,
        "expert tensor, expert and pipeline": ep * pp,
        "expert data": devices // (ep * pp),
    }
    return {kind: devices // (pp if kind == "embedding" else size) for kind, size in sizes.items() if size > 1}


def _groups(model: str, strategy: ParallelStrategy) -> list[GroupKind]:
    devices = strategy.tp * strategy.pp * strategy.dp
    cluster = Cluster(named("h100-sxm-80gb"), devices)
    return training_groups(Workload(model_of(model), TrainingJob(4096, 1), cluster, Software("megatron-lm")), strategy)


def with_tables(page: str, written: Mapping[str, str]) -> str:
    """The page with each table between its marks."""
    for name, text in written.items():
        before, rest = page.split(f"<!-- {name}:begin -->\n")
        page = before + f"<!-- {name}:begin -->\n" + text + f"<!-- {name}:end -->" + rest.split(f"<!-- {name}:end -->")[1]
    return page


if __name__ == "__main__":
    for language, path in PAGES.items():
        path.write_text(with_tables(path.read_text(encoding="utf-8"), tables(language)), encoding="utf-8")
