"""Writes the tables of docs/verification.md and docs/zh/verification.md from the recorded counts."""

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

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
# Case and count beyond the tolerance: why.
KNOWN = {
    ("Llama, 4 replicas, 2 micro batches", "dp bytes"): "FSDP2 gathers and scatters the tables of both ends in each micro batch",
}
SECTION_NAMES = {
    "Dense layers": "稠密层",
    "Without fused kernels": "不使用融合算子",
    "Latent attention": "潜在注意力（MLA）",
    "Recompute": "重计算",
    "Mixtures": "混合专家",
    "Pipelines": "流水线并行",
    "Data parallelism": "数据并行",
    "transformers under FSDP2": "FSDP2 下的 transformers",
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


def tables(language: int) -> Iterator[str]:
    counted = all_rows()
    first = ("case", "用例")[language]
    for section, cases in SECTIONS.items():
        yield f"### {(section, SECTION_NAMES[section])[language]}\n"
        yield "| " + " | ".join([first, *(header[language] for header in COLUMNS)]) + " |"
        yield "|---" * (len(COLUMNS) + 1) + "|"
        for case in cases:
            cells = [cell(counted[case["name"]], counts) for counts in COLUMNS.values()]
            yield "| " + " | ".join([case["name"], *cells]) + " |"
        yield ""


def with_tables(page: str, language: int) -> str:
    before, rest = page.split(START)
    return before + START + "\n".join(tables(language)) + END + rest.split(END)[1]


if __name__ == "__main__":
    for language, page in enumerate((PAGE, CHINESE)):
        if page.exists():
            page.write_text(with_tables(page.read_text(encoding="utf-8"), language), encoding="utf-8")
