"""Aims of step times by kind, what is reached with publications left out, and what remains by which cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scripts.accuracy.figures import Errors


class Aim(NamedTuple):
    """Median and mean error [%] of one kind of run, and the causes of what remains; names and causes in English and Chinese."""

    kind: tuple[str, str]
    median: float
    mean: float
    remains: tuple[str, str]


AIMS = {
    "ascend: dense single": Aim(
        ("Ascend, dense, one node", "昇腾，稠密，单机"), 3.5, 6,
        ("MindSpore releases before mid-2024 (20 to 40 % too fast); those of 2025 where none of that stack is taught (up to "
         "24 % too slow); `jit_level` O1 (15 % too slow)",
         "2024 年年中之前的 MindSpore 版本（偏快 20% 至 40%）；2025 年的版本，若该框架均不参与拟合（最多偏慢 24%）；"
         "`jit_level` O1（偏慢 15%）"),
    ),
    "ascend: dense multi": Aim(
        ("Ascend, dense, several nodes", "昇腾，稠密，多机"), 5, 7,
        ("BLOOM 176B of 2023 at micro batch 2, slower than at 1", "2023 年的 BLOOM 176B：微批次大小为 2 时反而慢于 1"),
    ),
    "ascend: long": Aim(
        ("Ascend, long context", "昇腾，长序列"), 5, 8,
        ("Qwen2.5: the README says MC2 is on, the scripts leave it off", "Qwen2.5：README 称已开启 MC2，脚本却未开启"),
    ),
    "ascend: moe": Aim(
        ("Ascend, MoE", "昇腾，MoE"), 9, 12,
        ("one row each: all-gather over two nodes, a loop of experts under full recompute, a post-training update",
         "各一条：跨两机的 all-gather、全重计算下逐专家循环、一次后训练更新"),
    ),
    "ascend: slice": Aim(
        ("Ascend, slices", "昇腾，截取少数层的模型"), 9, 11,
        ("one CI whose NPUs are not named; its TP2 pipelines", "某一 CI，未说明 NPU 型号；其 TP2 流水线"),
    ),
    "gpu: Ampere dense": Aim(
        ("A100, dense", "A100，稠密"), 4.5, 6,
        ("BigScience (one in six): blocked launches and heads of 108 and 150; host jitter of vTrain's small models at TP8",
         "BigScience（占六分之一）：阻塞式下发与 108、150 维的注意力头；vTrain 的小模型在 TP8 下的主机抖动"),
    ),
    "gpu: Hopper dense": Aim(
        ("H100, H200 and H800, dense", "H100、H200 与 H800，稠密"), 3, 4,
        ("llm-foundry (two in five): few others ran FlashAttention-2 on H100; asynchronous TP of PyTorch",
         "llm-foundry（占五分之二）：在 H100 上使用 FlashAttention-2 的其他文献很少；PyTorch 的异步 TP"),
    ),
    "gpu: Blackwell dense": Aim(
        ("Blackwell, dense", "Blackwell，稠密"), 2.5, 4,
        ("one machine (SimuMax), whose matmuls are a third slower than those of all others",
         "一台机器（SimuMax），其矩阵乘比其他机器慢三分之一"),
    ),
    "gpu: Hopper MoE": Aim(
        ("H100 and H800, MoE", "H100 与 H800，MoE"), 9, 11,
        ("MoE Parallel Folding (seven in ten): virtual stages and dropped tokens are not stated",
         "MoE Parallel Folding（占七成）：未说明虚拟流水线级数与丢弃的 token"),
    ),
    "gpu: Blackwell MoE": Aim(
        ("Blackwell, MoE", "Blackwell，MoE"), 8, 11,
        ("SimuMax's machine as above (six of eleven); GPT-OSS on B200 (three)",
         "同上的 SimuMax 机器（十一条中的六条）；B200 上的 GPT-OSS（三条）"),
    ),
    "gpu: AMD MoE": Aim(
        ("MI355X, MoE", "MI355X，MoE"), 15, 20,
        ("one document; its baseline at micro batches of 4 to 12", "仅一份文献；其基线在微批次大小 4 至 12 时的误差"),
    ),
    "gpu: FP8 dense": Aim(
        ("FP8, dense (teaches nothing)", "FP8，稠密（不参与拟合）"), 6, 8,
        ("row-wise scaling under TP8 (20 to 36 % too fast); GB300 (bias +8 %)",
         "TP8 下的逐行缩放（偏快 20% 至 36%）；GB300（偏差 +8%）"),
    ),
}  # fmt: skip
_HEADERS = (
    ("step time", "runs", "aim", "publication left out", "rolling origin (runs)", "met", "what remains, by cause"),
    ("单步时间", "条数", "目标", "留出一份文献", "按时间滚动（条数）", "达到", "余下误差的原因"),
)
_MET = (("yes", "no"), ("是", "否"))
ENGLISH, CHINESE = 0, 1

CHINESE_PAGE = """# 精度

<!-- 由 scripts/accuracy/write_accuracy.py 生成（`make docs`），请修改 scripts/accuracy/aims.py，不要直接修改本页 -->

[English](../accuracy.md)

本页给出各类运行的目标、达到的误差，以及余下误差的原因；全部表格见[英文页](../accuracy.md)。
误差为 |预测 / 实测 - 1| 的中位数 / 平均值（%）。
“留出一份文献”：该文献的全部运行既不参与拟合，也不参与任何调参，所有数值由其余文献重新得出。
“按时间滚动”：只用更早半年期发表的文献拟合，再评判后来的文献。

## 目标

{aims}
每行条数见第二列；条数少的类别只反映一两份文献。
"""


@dataclass(frozen=True)
class Reached:
    """Nested errors of the groups that have an aim: with publications left out, and under a rolling origin."""

    publication: Mapping[str, Errors | None]
    rolling: Mapping[str, Errors | None]


def cell(errors: Errors | None) -> str:
    """Median and mean in per cent."""
    return "" if errors is None else f"{100 * errors.median:.1f} / {100 * errors.mean:.1f}"


def aims_rows(reached: Reached, language: int = ENGLISH) -> tuple[tuple[str, ...], list[list[str]]]:
    """Header and rows of the table of aims, ``ENGLISH`` or ``CHINESE``."""
    rows = []
    for name, aim in AIMS.items():
        errors, rolling = reached.publication[name], reached.rolling[name]
        if errors is None:
            continue
        met = 100 * errors.median <= aim.median + 0.05 and 100 * errors.mean <= aim.mean + 0.05
        origin = f"{cell(rolling)} ({rolling.count})" if rolling else "-"
        counted = [aim.kind[language], str(errors.count), f"{aim.median:g} / {aim.mean:g}", cell(errors), origin]
        rows.append([*counted, _MET[language][0 if met else 1], aim.remains[language]])
    return _HEADERS[language], rows
