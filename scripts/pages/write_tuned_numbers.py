"""Writes the list of tuned numbers in docs/calibration.md from calibration/fitting/tuned_numbers.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from calibration.fitting.tuned_numbers import FORM, TUNED
from cost_models.constants import prior_constants

PAGE = ROOT / "docs/calibration.md"
START, END = "<!-- tuned: written by scripts/pages/write_tuned_numbers.py (`make docs`) -->\n", "<!-- /tuned -->"
FAMILIES = ("ascend", "gpu")


def table() -> str:
    priors = [prior_constants(family) for family in FAMILIES]
    inside = sum(number.module is None for number in TUNED)
    lines = [
        f"{len(TUNED)} numbers: {inside} priors of constants and {len(TUNED) - inside} numbers of modules.",
        "Spreads are one standard deviation of the logarithm; units are those of the number.",
        "",
        "| number | where | Ascend, GPU today | without runs | spread | from |",
        "|---|---|---|---|---|---|",
    ]
    for number in TUNED:
        today = ", ".join(f"{number.value(constants):g}" for constants in priors)
        alone = ", ".join(f"{number.neutral(family):g}" for family in FAMILIES)
        where = f"`{number.module}`" if number.module else "constants"
        lines.append(f"| `{number.name}` | {where} | {today} | {alone} | {number.log_spread:g} | {number.why} |")
    lines += ["", f"{len(FORM)} more cite runs and are no number that a fit could move:", ""]
    lines += [f"- `{name.partition(' of ')[0]}`{''.join(name.partition(' of ')[1:])}: {why}" for name, why in FORM.items()]
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    before, rest = page.split(START)
    return before + START + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
