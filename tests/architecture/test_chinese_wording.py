"""Chinese is written one way everywhere: in the server's sentences, on the dashboard, in reports and documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.zh.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "zh").glob("*.md")))
# What is written otherwise, by what it is not called: docs/zh/glossary.md.
WORDS = {
    "研究": "搜索任务",
    "校准": "标定",
    "你": "您",
    "显存峰值": "峰值显存",
    "批大小": "批次大小",
    "批量 {": "批次 {",
    "空操作层位 ": "空操作层 ",
    "容器组": "Pod",
    "零冗余显存": "moe-zero-memory",
    "细化": "精化",
    "设备日": "卡天",
    "设备天": "卡天",
    "吞吐量": "吞吐",
    "定价": "估算",
    "计价": "估算",
    "通信组": "通信域",
    "token/s": "tokens/s",
    "Token/s": "tokens/s",
    "no-op 层": "空操作层",
    "输出头": "输出层",
    "分层分发": "分级分发",
    "内存不足": "显存不足",
    # The names of MindSpeed's and CANN's documents.
    "暴露": "未掩盖",
    "完全重计算": "全重计算",
    "虚拟阶段": "虚拟流水线阶段",
    "空层": "空操作层",
    "优化器切分": "分布式优化器",
    "热点专家": "热专家",
    "潜在注意力": "多头潜在注意力",
    "权重聚合": "参数 all-gather",
    "前向与反向合并": "跨 micro batch 前反向通信掩盖",
    # A plan fits: its memory suffices.
    "可容纳": "显存足够",
    "能容纳": "显存足够",
    "放得下": "显存足够",
    "把握": "概率",
    "初始方案": "基线",
    "对照方案": "基线",
    "新建任务": "新建搜索任务",
    "执行进程": "工作进程",
    "站点": "集群环境",
    "备机": "备用节点",
    "与步时": "与单步时间",
    "按步时": "按单步时间",
    "实际交付": "有效吞吐",
    "超过最大的数目": "在所列规模内未出现拐点",
    "不常用的开关": "不常用开关",
    "流水线传输": "流水线点对点通信",
    "Pareto": "帕累托",
    "tokenizer": "分词器",
    "非常用开关": "不常用开关",
    "个 micro batch": "个微批次",
}
HAN = "[\u4e00-\u9fff]"
BREAKS = {
    "a half-width mark beside Chinese": re.compile(rf"{HAN} ?[,;:?!()](?![\w/])|(?<![\w/])[,;:?()] ?{HAN}|{HAN}[()]|[()]{HAN}"),
    "no blank between Chinese and letters or digits": re.compile(rf"{HAN}[A-Za-z0-9`]|[A-Za-z0-9%`]{HAN}"),
    "a blank before the per cent sign": re.compile(r"[\d}] %"),
    "a blank inside Chinese": re.compile(rf"{HAN} {HAN}"),
    "a blank beside a full-width mark": re.compile(r" [，。；：、（）？！]|[，。；：、（）？！] "),
}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


def _texts() -> Iterator[tuple[str, str]]:
    for folder in ("app/language/zh", "dashboard/src/locales/zh"):
        for path in sorted((ROOT / folder).glob("*.json")):
            for text in _strings(json.loads(path.read_text(encoding="utf-8"))):
                yield path.stem, text
    for room in yaml.safe_load((ROOT / "app/reports/words.yaml").read_text(encoding="utf-8")).values():
        for each in room.values():
            yield "words.yaml", each["zh"]
    for name in PAGES:
        prose = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        prose = re.sub(r"`[^`\n]*`", "`code`", prose)
        prose = re.sub(r"\]\([^)]*\)|!?\[|\]|\*", "", prose)
        for line in prose.splitlines():
            yield from ((name, cell.strip()) for cell in re.sub(r"^[-#>]+ ", "", line).split("|"))


TEXTS = [*_texts()]


def test_texts_are_found_in_every_place() -> None:
    assert {"help", "plan", "words.yaml", *PAGES} <= {place for place, _ in TEXTS}


@pytest.mark.parametrize(("other", "word"), WORDS.items())
def test_one_thing_has_one_name(other: str, word: str) -> None:
    assert [(place, text) for place, text in TEXTS if other in text.replace(word, "")] == []


@pytest.mark.parametrize("rule", BREAKS)
def test_chinese_is_set_by_one_rule(rule: str) -> None:
    assert [(place, text) for place, text in TEXTS if BREAKS[rule].search(text)] == []
