"""A profile of a user that is a shipped one but for some numbers."""

from pathlib import Path

import pytest

from hardware_profiles import catalogue
from hardware_profiles.likeness import first_draft
from hardware_profiles.schema import HardwareProfile, ProfileError, Status


def profile_of(folder: Path, text: str) -> HardwareProfile:
    path = folder / "ours.yaml"
    path.write_text(text, encoding="utf-8")
    return catalogue.profile(path)


@pytest.mark.parametrize("name", catalogue.names())
def test_a_first_draft_is_the_profile_under_another_name(name: str, tmp_path: Path) -> None:
    base = catalogue.named(name)
    text = first_draft("ours", base)
    found = profile_of(tmp_path, text)
    assert (found.name, found.status, found.device) == ("ours", Status.UNVALIDATED, base.device)
    assert (found.tiers, found.matmul_flops_per_s, found.usable_hbm_bytes) == (
        base.tiers,
        base.matmul_flops_per_s,
        base.usable_hbm_bytes,
    )
    # with its comments taken away it states the same numbers, to the digits that it prints, and no curves
    stated = profile_of(tmp_path, text.replace("# usable", "usable").replace("# tiers:", "tiers:").replace("\n#   ", "\n  "))
    assert stated.usable_hbm_bytes == pytest.approx(base.usable_hbm_bytes, rel=1e-4)
    assert [tier.bandwidth_bytes_per_s for tier in stated.tiers] == pytest.approx([t.bandwidth_bytes_per_s for t in base.tiers])
    assert all(tier.curves == () for tier in stated.tiers)


def test_ten_lines_describe_a_server(tmp_path: Path) -> None:
    found = profile_of(
        tmp_path,
        """\
like: a100-pcie-80gb
name: ours
title: Our hosts
power_w: {value: 250, unit: W, source: rack meter, basis: measured}
achievable_matmul_flops_per_s:
  bf16: {value: 240, unit: TFLOPS, source: gemm test, basis: measured}
tiers:
  sockets:
    bandwidth_bytes_per_s: {value: 4, unit: GB/s, source: nccl-tests, basis: measured}
""",
    )
    base = catalogue.named("a100-pcie-80gb")
    assert (found.title, found.power_w) == ("Our hosts", 250.0)
    assert found.achievable_matmul_flops_per_s == {"bf16": 240e12}
    assert [tier.bandwidth_bytes_per_s for tier in found.tiers] == [31.5e9, 4e9, 25e9]
    assert found.tiers[1].domain_devices == base.tiers[1].domain_devices
    assert found.provenance["tiers.1.bandwidth_bytes_per_s"].source == "nccl-tests"


def test_null_removes_what_is_optional_and_a_list_replaces_all_tiers(tmp_path: Path) -> None:
    found = profile_of(
        tmp_path,
        """\
like: h100-sxm-80gb
name: ours
price_usd: null
achievable_matmul_flops_per_s: {fp8: null}
tiers:
  - name: bus
    wiring: switch
    bandwidth_bytes_per_s: {value: 100, unit: GB/s, source: here, basis: measured}
    latency_s: {value: 5, unit: us, source: here, basis: measured}
""",
    )
    assert found.price_usd is None
    assert set(found.achievable_matmul_flops_per_s) == {"bf16"}
    assert [tier.name for tier in found.tiers] == ["bus"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("like: h100\nname: ours\n", r"hardware 'h100' is unknown \(did you mean"),
        ("like: h100-sxm-80gb\n", "name: missing; give the profile a name of its own"),
        ("like: [h100-sxm-80gb]\nname: ours\n", "like: .* is not allowed; give the name of a profile"),
        (
            "like: h100-sxm-80gb\nname: ours\ntiers: {nvlnk: {}}\n",
            r"no tier 'nvlnk' \(did you mean|no tier 'nvlnk'; did you mean",
        ),
        ("like: h100-sxm-80gb\nname: ours\ntiers: {nvlink: 3}\n", "tiers.nvlink: 3 is not allowed; give a mapping"),
        ("like: h100-sxm-80gb\nname: ours\nhbm: 3\n", "hbm: unknown key"),
        ("like: h100-sxm-80gb\nname: ours\nhbm_bytes: null\n", "hbm_bytes: missing"),
        ("like: ../secret.yaml\nname: ours\n", "is unknown"),
    ],
)
def test_a_wrong_file_is_one_sentence_that_names_it(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=sentence) as raised:
        profile_of(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "ours.yaml"))


def test_a_shipped_profile_is_like_no_other() -> None:
    for path in Path(catalogue.__file__).parent.glob("*/*.yaml"):
        assert "\nlike:" not in path.read_text(encoding="utf-8")
