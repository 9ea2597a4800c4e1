"""Writes the tables of docs/verification.md and docs/zh/verification.md from the recorded counts."""

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts.oracle import launched, launched_cases
from scripts.oracle.cases import SECTIONS
from scripts.oracle.comparison import Row, rows
from scripts.oracle.records import RECORDS, recorded

PAGE, CHINESE = ROOT / "docs/verification.md", ROOT / "docs/zh/verification.md"
START, END = "<!-- ratios: written by scripts/oracle/write_verification.py (`make docs`) -->\n", "<!-- /ratios -->"
COLUMNS = {  # header: English, Chinese; and the counts that it shows, by their first words
    ("states", "模型状态"): ("parameters", "gradients", "master", "moments"),
    ("layer", "单层激活"): ("dense layer", "moe layer"),
    ("FLOPs", "FLOPs"): ("linear FLOPs", "attention FLOPs"),
    ("TP", "TP"): ("tp bytes",),
    ("EP", "EP"): ("ep bytes",),
    ("DP", "DP"): ("dp bytes", "expert_dp bytes"),
    ("PP", "PP"): ("pp bytes",),
    ("order", "执行顺序"): ("order",),
}
LAUNCHED_COLUMNS = {
    ("states", "模型状态"): ("parameters", "weights", "gradients", "master", "moments"),
    ("layer", "单层激活"): ("dense layer", "moe layer"),
    ("held", "各遍之间"): ("held",),
    ("FLOPs", "FLOPs"): ("forward FLOPs", "optimizer FLOPs"),
    **{(name.upper(), name.upper()): (f"{name} bytes",) for name in ("tp", "cp", "ep")},
    ("DP", "DP"): ("dp bytes", "expert_dp bytes"),
    ("PP", "PP"): ("pp bytes",),
}
SECTION_NAMES = {
    "Dense layers": "稠密层",
    "Without fused kernels": "不使用融合算子",
    "Latent attention": "多头潜在注意力（MLA）",
    "Recompute": "重计算",
    "Mixtures": "混合专家",
    "Pipelines": "流水线并行",
    "Data parallelism": "数据并行",
    "transformers under FSDP2": "FSDP2 下的 transformers",
    "Context parallelism": "上下文并行",
    "Recompute by module": "按模块重计算",
    "Dispatchers and grouped experts": "分发器与分组专家",
    "Overlapped shared experts": "重叠的共享专家",
    "Muon": "Muon",
}


def all_rows() -> dict[str, dict[str, list[Row]]]:
    """Counts of each case by release."""
    found: dict[str, dict[str, list[Row]]] = {}
    for release in RECORDS:
        ran = recorded(release)
        for case in (each for section in SECTIONS.values() for each in section):
            if case["name"] in ran:
                found.setdefault(case["name"], {})[release] = list(rows(case, ran[case["name"]], release))
    return found


def cell(of_releases: dict[str, list[Row]], counts: tuple[str, ...]) -> str:
    """The ratio that is furthest from 1; one for each release where they differ."""
    found = {}
    for release, each in of_releases.items():
        ratios = [row.ratio for row in each if row.count.startswith(counts)]
        if ratios:
            found[release] = f"{max(ratios, key=lambda ratio: abs(ratio - 1.0)):.3f}"
    if len(set(found.values())) < 2:
        return next(iter(found.values()), "")
    return ", ".join(f"{ratio} ({release})" for release, ratio in found.items())


def launched_rows() -> dict[str, dict[str, list[Row]]]:
    """Counts of each launch file by release."""
    found: dict[str, dict[str, list[Row]]] = {}
    for release in launched_cases.RELEASES[::-1]:
        ran = launched.recorded(release)
        for case in launched_cases.CASES:
            if release in case["releases"] and case["name"] in ran:
                found.setdefault(case["name"], {})[release] = list(launched.rows(case, release, ran[case["name"]]))
    return found


def tables(language: int) -> Iterator[str]:
    parts = (all_rows(), SECTIONS, COLUMNS), (launched_rows(), launched_cases.SECTIONS, LAUNCHED_COLUMNS)
    for counted, sections, columns in parts:
        for section, cases in sections.items():
            yield f"### {(section, SECTION_NAMES[section])[language]}\n"
            yield "| " + " | ".join([("case", "用例")[language], *(header[language] for header in columns)]) + " |"
            yield "|---" * (len(columns) + 1) + "|"
            for case in cases:
                cells = [cell(counted[case["name"]], counts) for counts in columns.values()]
                yield "| " + " | ".join([case["name"], *cells]) + " |"
            yield ""


def with_tables(page: str, language: int) -> str:
    before, rest = page.split(START)
    return before + START + "\n".join(tables(language)) + END + rest.split(END)[1]


if __name__ == "__main__":
    for language, page in enumerate((PAGE, CHINESE)):
        if page.exists():
            page.write_text(with_tables(page.read_text(encoding="utf-8"), language), encoding="utf-8")
