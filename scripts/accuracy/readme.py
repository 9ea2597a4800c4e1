"""The lines of both READMEs about accuracy: blind first predictions, and nested errors on Ascend."""

from __future__ import annotations

import re
import textwrap

from scripts.accuracy.blind import ALL, BlindRuns
from scripts.accuracy.figures import Errors
from scripts.accuracy.text import EVERY_RUN, README, README_END, README_START, README_ZH

LINE = 110
CHINESE_COUNT = re.compile(r" % \((\d+) runs\)")


def readme_figures(nested: dict[str, Errors | None]) -> dict[str, str]:
    """The figures of both READMEs: blind first predictions, then nested errors on Ascend, where hardly a run is blind."""
    blind = BlindRuns()
    kinds = blind.kinds()
    count, inside = kinds[ALL]["first"].count, kinds[ALL]["first"].inside

    def of_kind(name: str) -> str:
        errors = kinds[name]["first"]
        return f"{100 * errors.median:.1f} % ({errors.count} runs)"

    def left_out(name: str) -> str:
        errors = nested[f"ascend: {name}"]
        assert errors is not None
        return f"{100 * errors.median:.1f} % ({errors.count} runs)"

    named = ("Ampere dense", "Hopper dense", "Hopper MoE", "Blackwell dense")
    return {
        "runs": str(count),
        "rest": str(count - sum(kinds[name]["first"].count for name in named)),
        "publications": str(len({record.origin.publication for record in blind.records})),
        "median": f"{100 * kinds[ALL]['first'].median:.1f}",
        "inside": f"{100 * inside:.0f}",
        "ampere": of_kind("Ampere dense"),
        "hopper": of_kind("Hopper dense"),
        "hopper_moe": of_kind("Hopper MoE"),
        "blackwell": of_kind("Blackwell dense"),
        "unclear": left_out(EVERY_RUN),
        "single": left_out("dense single"),
        "multi": left_out("dense multi"),
        "long": left_out("long"),
        "moe": left_out("moe"),
    }


def readme_line(nested: dict[str, Errors | None]) -> str:
    text = README.format(**readme_figures(nested))
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False) + "\n"


def chinese_line(nested: dict[str, Errors | None]) -> str:
    figures = {name: CHINESE_COUNT.sub("%（\\1 条）", text) for name, text in readme_figures(nested).items()}
    return README_ZH.format(**figures)


def with_line(readme: str, line: str) -> str:
    before, rest = readme.split(README_START)
    return before + README_START + line + README_END + rest.split(README_END)[1]
