"""docs/hardware.md against the code: it lists what is shipped, every unit and every key."""

import re
from pathlib import Path

import pytest

from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile_text
from hardware_profiles.schema import HardwareProfile, NetworkTier
from hardware_profiles.units import UNITS

TEXT = (Path(__file__).resolve().parents[3] / "docs/hardware.md").read_text(encoding="utf-8")


def test_every_profile_is_listed_with_its_status() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \| [^|]+ \| (\w+) \|$", TEXT, flags=re.MULTILINE)
    listed = {name: status for names, status in rows for name in re.findall(r"`([^`]+)`", names)}
    assert listed == {name: str(catalogue.profile(name).status) for name in catalogue.names()}


def test_every_unit_and_every_field_is_explained() -> None:
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    spelt = {word.strip('"') for word in re.findall(r"`([^`]+)`", prose)}
    assert set(UNITS) <= spelt
    fields = {*HardwareProfile.__dataclass_fields__, *NetworkTier.__dataclass_fields__} - {"provenance"}
    assert fields <= spelt


def test_every_source_of_a_profile_is_listed() -> None:
    listed = set(re.findall(r"`([^`]+)`", TEXT.partition("## Sources")[2]))
    stated = {q.source for name in catalogue.names() for q in catalogue.profile(name).provenance.values()}
    keys = {item.partition(",")[0].strip() for source in stated for item in source.split(";")}
    cited = {key for name in catalogue.names() for q in catalogue.profile(name).provenance.values() for key in _brackets(q.note)}
    assert (keys | cited) - listed == set()


def _brackets(note: str) -> list[str]:
    return re.findall(r"\[([^\],]+)", note)


def test_the_curve_of_the_page_loads_in_a_copy_of_a_profile() -> None:
    shipped = Path(catalogue.__file__).parent / "ascend" / "atlas-800t-a2.yaml"
    curve = re.search(r"```yaml\n(curves:\n.*?)```", TEXT, flags=re.DOTALL)
    assert curve is not None
    text = shipped.read_text(encoding="utf-8")
    block = "".join(f"    {line}\n" for line in curve[1].replace("value: 16", "value: 8").splitlines())
    mine = re.sub(r"    curves:\n(?:      .*\n)+", block, text)
    assert mine != text
    gather = parse_profile_text(mine, "mine.yaml").tiers[0].curves[0]
    assert (gather.op, gather.group_size, gather.source) == ("all_gather", 8, "our-cluster")
    assert gather.time_s[-1] == pytest.approx(3080e-6)
