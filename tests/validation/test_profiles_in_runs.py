"""Whether a hardware profile is validated follows from the published runs: one that is not suspect, on exactly that product."""

import json
from pathlib import Path

from hardware_profiles import catalogue
from hardware_profiles.schema import Status

RUNS = Path(__file__).parents[2] / "calibration" / "runs"


def test_a_profile_is_validated_where_published_runs_are_of_it() -> None:
    rows = [json.loads(line) for file in ("ascend.jsonl", "gpu.jsonl") for line in (RUNS / file).read_text("utf-8").splitlines()]
    backed = {row["cluster"]["hardware"] for row in rows if not row.get("suspect")}
    validated = {name for name in catalogue.names() if catalogue.named(name).status is Status.VALIDATED}
    assert validated == backed
