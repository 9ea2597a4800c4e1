"""Runs launch files of Megatron-LM as `meshplan verify` does, and records what their ranks held, sent and multiplied.

usage: python -m scripts.oracle.launched MEGATRON --python PYTHON [--only TEXT] [--release RELEASE]

The arguments are those of scripts.oracle; a case takes some seconds. Records are in scripts/oracle/executed/launched-*.json.
Exit status: 0 all cases ran, 1 some did not.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.catalogue.models.presets import model_preset
from app.jobs.job import parse_job
from app.verification.process import counts_of, read_counts
from app.verification.schemas import CountsDocument, VerificationDocument
from app.verification.service import verification_document
from documents.errors import InputError
from scripts.conformance.checkouts import Checkouts
from scripts.oracle.arguments import parsed
from scripts.oracle.comparison import Row
from scripts.oracle.launched_cases import CASES, RELEASES, Case, job_of
from scripts.oracle.records import FOLDER, MEGATRON, SOURCES

UNUSED = {"tensors", "at_most", "kernels", "assumed", "cpu_seconds", "failed"}  # of a rank's counts


def path_of(release: str) -> Path:
    return FOLDER / f"launched-{release}.json"


def recorded(release: str) -> dict[str, dict[str, Any]]:
    """Counts of each case, as the framework's process wrote them."""
    path = path_of(release)
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def verified(case: Case, release: str, counts: dict[str, Any]) -> VerificationDocument:
    """The recorded counts of a case beside its price."""
    found = read_counts(json.dumps(counts), case["name"])
    return verification_document(parse_job(job_of(case, release)), lambda _question: found, None, [])


NAMES = {
    **{name: name for name in ("weights", "gradients", "master", "moments")},
    **{name: f"{name} FLOPs" for name in ("forward", "optimizer")},
}


def rows(case: Case, release: str, counts: dict[str, Any]) -> Iterator[Row]:
    """All counts of a case but its peaks.

    A layer is what its first micro batch adds. Later ones add less where the dispatcher still has what the last one decided.
    """
    document = verified(case, release, counts)
    for rank, executed in zip(document.ranks, counts["ranks"], strict=True):
        for row in rank.rows:
            if row.quantity == "kept by a layer":
                kept = float(max(map(int, executed["layers"][row.detail])))
                yield Row(case["name"], f"{row.detail} layer", row.predicted, kept, left_out_bytes(case, row.detail))
            elif row.quantity == "held between passes":
                yield Row(case["name"], "held", row.predicted, row.counted)
            elif row.quantity == "sent":
                yield Row(case["name"], f"{row.detail} bytes", row.predicted, row.counted)
            elif row.quantity != "peak":
                yield Row(case["name"], NAMES.get(row.quantity, "parameters"), row.predicted, row.counted)


def left_out_bytes(case: Case, kind: str) -> float:
    """What the dispatcher of a recomputed mixture still holds of the last micro batch: probabilities, map, its order, rows."""
    if kind != "moe" or "moe" not in case["strategy"].get("recompute", {}).get("modules", ()):
        return 0.0
    moe = model_preset(case["model"]).model.moe
    assert moe is not None
    return (13.0 * moe.num_experts + 8.0 * moe.top_k) * 4096 / case["strategy"]["tp"]


def run(case: Case, release: str, python: str, tree: Path) -> dict[str, Any]:
    """Counts of a run. Raises ``InputError`` if there are none."""
    kept: list[CountsDocument] = []

    def executed(question: dict[str, object]) -> CountsDocument:
        kept.append(counts_of(question, python, lambda _line: None))
        return kept[0]

    verification_document(parse_job(job_of(case, release)), executed, None, [str(tree)])
    found: dict[str, Any] = kept[0].model_dump(mode="json", exclude={"ranks": {"__all__": UNUSED}})
    return found


def main() -> int:
    options = parsed("scripts.oracle.launched", __doc__, RELEASES)
    status = 0
    for release in options.release:
        with tempfile.TemporaryDirectory() as scratch:
            tree = Checkouts({MEGATRON: options.megatron}, Path(scratch)).tree(MEGATRON, SOURCES[release])
            for case in CASES:
                if release not in case["releases"] or options.only not in case["name"]:
                    continue
                try:
                    found = run(case, release, options.python, tree.path)
                except InputError as error:
                    print(f"{release}: {case['name']}: {error}", file=sys.stderr)
                    status = 1
                    continue
                lines = (
                    f"{json.dumps(name)}: {json.dumps(each)}"
                    for name, each in sorted({**recorded(release), case["name"]: found}.items())
                )
                path_of(release).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
                print(f"{release}: {case['name']}")
    return status


if __name__ == "__main__":
    sys.exit(main())
