"""What a profile may not be: one sentence an error, naming file, key, value and what is allowed."""

import copy
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.loader import LIMITS, load_profile, parse_profile, parse_profile_text
from hardware_profiles.schema import ProfileError


def number(value: float, unit: str) -> dict[str, Any]:
    return {"value": value, "unit": unit, "source": "own", "basis": "measured"}


def minimal() -> dict[str, Any]:
    return {
        "name": "ours",
        "title": "Our cluster",
        "family": "ascend",
        "status": "unvalidated",
        "device": "910B3",
        "matmul_flops_per_s": {"bf16": number(294.9, "TFLOPS")},
        "vector_flops_per_s": number(9.2, "TFLOPS"),
        "num_matmul_cores": number(20, "1"),
        "hbm_bytes": number(64, "GiB"),
        "usable_hbm_bytes": number(60, "GiB"),
        "hbm_bytes_per_s": number(1.6, "TB/s"),
        "host_link_bytes_per_s": number(25, "GB/s"),
        "context_bytes": number(0, "B"),
        "communicator_bytes": number(400, "MiB"),
        "devices_per_node": number(8, "1"),
        "sequential_tiers": True,
        "tiers": [
            {
                "name": "hccs",
                "wiring": "mesh",
                "domain_devices": number(8, "1"),
                "bandwidth_bytes_per_s": number(128.1, "GB/s"),
                "link_bytes_per_s": number(18.3, "GB/s"),
                "latency_s": number(2, "us"),
                "curves": [
                    {
                        "op": "all_reduce",
                        "group_size": number(8, "1"),
                        "message_bytes": {**number(0, "MiB"), "value": [1, 8, 64]},
                        "time_s": {**number(0, "us"), "value": [40.9, 170.2, 931]},
                    }
                ],
            },
            {
                "name": "roce",
                "wiring": "fabric",
                "bandwidth_bytes_per_s": number(160, "Gbit/s"),
                "latency_s": number(8, "us"),
                "oversubscription": number(2, "1"),
            },
        ],
    }


def set_at(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *parents, last = path.split(".")
    here: Any = document
    for part in parents:
        here = here[int(part)] if isinstance(here, list) else here[part]
    here[int(last) if isinstance(here, list) else last] = value
    return document


DELETE = object()


def test_a_minimal_profile_in_si_units() -> None:
    profile = parse_profile(minimal(), "ours.yaml")
    assert profile.matmul_flops_per_s == {"bf16": 294.9e12}
    assert profile.achievable_matmul_flops_per_s == {}
    assert profile.hbm_bytes == 64 * 2**30
    assert (profile.clock_hz, profile.power_w, profile.price_usd) == (None, None, None)
    inside, outside = profile.tiers
    assert (inside.domain_devices, outside.domain_devices) == (8, None)
    assert outside.bandwidth_bytes_per_s == 20e9
    assert (inside.oversubscription, outside.oversubscription) == (1.0, 2.0)
    assert inside.curves[0].message_bytes == (2**20, 8 * 2**20, 64 * 2**20)
    assert inside.curves[0].time_s == pytest.approx((40.9e-6, 170.2e-6, 931e-6))
    assert profile.provenance["hbm_bytes"].value == 64
    assert profile.provenance["tiers.0.curves.0.time_s.2"].value == 931


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("hbm_bytes", 64, "hbm_bytes: 64 is not allowed; give a mapping with value, unit, source, basis, note."),
        ("hbm_bytes", [64], "hbm_bytes: [64] is not allowed; give a mapping"),
        ("hbm_bytes", None, "hbm_bytes: missing; give a mapping with value, unit"),
        ("hbm_bytes.unit", DELETE, "hbm_bytes.unit: missing; give text."),
        ("hbm_bytes.source", DELETE, "hbm_bytes.source: missing; give text of at most 1,000 characters."),
        ("hbm_bytes.basis", DELETE, "hbm_bytes.basis: missing; give one of vendor, measured, inferred, assumed."),
        (
            "hbm_bytes.unit",
            "gib",
            "hbm_bytes: unit 'gib' is not allowed (did you mean 'GiB'?); give one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB.",
        ),
        ("hbm_bytes.unit", "GB/s", "hbm_bytes: unit 'GB/s' is not allowed (did you mean 'GB'?); give one of B"),
        ("num_matmul_cores.unit", 1, "num_matmul_cores.unit: 1 is not allowed; give text."),
        ("hbm_bytes.basis", "guess", "hbm_bytes.basis: 'guess' is not allowed; give one of vendor, measured, inferred, assumed."),
        ("hbm_bytes.source", "", "hbm_bytes.source: '' is not allowed; give 1 to 1000 printable characters."),
        ("title", "\x1b[2J", "title: '\\x1b[2J' is not allowed; give 1 to 1000 printable characters."),
        ("title", "\ud800", "title: '\\ud800' is not allowed; give"),
        ("hbm_bytes.sources", "x", "hbm_bytes.sources: unknown key; did you mean 'source'? Allowed: value"),
        ("hbm_size", 1, "hbm_size: unknown key; did you mean 'hbm_bytes'? Allowed: name"),
        ("hbm_bytes.value", float("nan"), "hbm_bytes.value: nan is not allowed; give a number."),
        ("hbm_bytes.value", float("inf"), "hbm_bytes.value: inf is not allowed; give a number."),
        ("hbm_bytes.value", -64, "hbm_bytes: -64 GiB is not allowed; give 1e+09 to 1e+14 B."),
        ("hbm_bytes.value", 10**400, "hbm_bytes.value: an integer of more than 60 digits is not allowed; give a number."),
        ("hbm_bytes.value", True, "hbm_bytes.value: true is not allowed; give a number."),
        ("hbm_bytes.value", "64", "hbm_bytes.value: '64' is not allowed; give a number."),
        ("hbm_bytes.value", [64], "hbm_bytes.value: [64] is not allowed; give a number."),
        ("num_matmul_cores.value", 20.5, "num_matmul_cores: 20.5 is not allowed; give a whole number."),
        ("num_matmul_cores.value", 10**9, "num_matmul_cores: 1e+09 is not allowed; give 1 to 65536."),
        ("devices_per_node.value", 0, "devices_per_node: 0 is not allowed; give 1 to 4096."),
        ("matmul_flops_per_s", {}, "matmul_flops_per_s: it is empty; give one of bf16, fp16, fp8"),
        ("matmul_flops_per_s.bf61", 1, "matmul_flops_per_s.bf61: unknown key; did you mean"),
        (
            "achievable_matmul_flops_per_s",
            {"fp8": number(1, "TFLOPS")},
            "achievable_matmul_flops_per_s.fp8: given without a peak",
        ),
        ("achievable_matmul_flops_per_s", {"bf16": number(295, "TFLOPS")}, "2.95e+14 FLOPS is above the peak of 2.949e+14"),
        ("usable_hbm_bytes.value", 65, "usable_hbm_bytes: 69793218560 B is above hbm_bytes of 68719476736"),
        ("context_bytes", number(60, "GiB"), "context_bytes: it leaves, with communicator_bytes, nothing of usable_hbm_bytes"),
        ("name", "Our Cluster", "name: 'Our Cluster' is not allowed; give lower-case letters, digits, dots and dashes"),
        ("family", "Ascend", "family: 'Ascend' is not allowed (did you mean 'ascend'?); give one of ascend, nvidia, amd."),
        ("status", "valid", "status: 'valid' is not allowed (did you mean 'validated'?); give one of validated, unvalidated,"),
        ("sequential_tiers", "yes", "sequential_tiers: 'yes' is not allowed; give true or false."),
        ("tiers", {}, "tiers: {} is not allowed; give a list of 1 to 6"),
        ("tiers", [], "tiers: [] is not allowed; give a list of 1 to 6"),
        ("tiers.0.wiring", "ring", "tiers[0].wiring: 'ring' is not allowed; give one of mesh, switch, fabric."),
        ("tiers.0.link_bytes_per_s", DELETE, "tiers[0].link_bytes_per_s: give it for wiring 'mesh'"),
        ("tiers.1.link_bytes_per_s", number(1, "GB/s"), "tiers[1].link_bytes_per_s: give it for wiring 'mesh'"),
        (
            "tiers.0.bandwidth_bytes_per_s.value",
            129,
            "tiers[0].bandwidth_bytes_per_s: it is more than 7 links of link_bytes_per_s carry",
        ),
        (
            "tiers.0.domain_devices",
            DELETE,
            "tiers[0].domain_devices: leave it out on the last tier, which joins all devices, and only",
        ),
        ("tiers.1.domain_devices", number(64, "1"), "tiers[1].domain_devices: leave it out on the last tier"),
        ("tiers.0.latency_s.value", 2e6, "tiers[0].latency_s: 2e+06 us is not allowed; give 0 to 1 s."),
        ("tiers.1.oversubscription.value", 0, "tiers[1].oversubscription: 0 is not allowed; give 1 to 1000."),
        ("tiers.1.name", "hccs", "tiers[1].name: another tier is 'hccs' too"),
        (
            "tiers.0.curves.0.op",
            "allreduce",
            "tiers[0].curves[0].op: 'allreduce' is not allowed (did you mean 'all_reduce'?); give one of all_gather",
        ),
        ("tiers.0.curves.0.group_size.value", 16, "tiers[0].curves[0].group_size: 16 is not allowed; the tier joins 8 devices"),
        ("tiers.0.curves.0.time_s.value", [1, 2], "tiers[0].curves[0]: time_s has 2 points, message_bytes has 3"),
        ("tiers.0.curves.0.time_s.value", [1], "tiers[0].curves[0].time_s.value: [1] is not allowed; give a list of 2 to 256"),
        ("tiers.0.curves.0.time_s.value", [1, -2, 3], "tiers[0].curves[0].time_s: -2 us is not allowed"),
        ("tiers.0.curves.0.message_bytes.value", [1, 1, 2], "tiers[0].curves[0]: message_bytes does not increase from point to"),
        ("tiers.0.curves.0.message_bytes.value", [1] * 300, "is not allowed; give a list of 2 to 256"),
        ("notes", "text", "notes: 'text' is not allowed; give a list of at most 32"),
    ],
)
def test_a_bad_profile_is_refused_in_one_sentence(path: str, value: Any, message: str) -> None:
    document = minimal()
    if value is DELETE:
        *parents, last = path.split(".")
        here: Any = document
        for part in parents:
            here = here[int(part)] if isinstance(here, list) else here[part]
        del here[last]
    else:
        set_at(document, path, value)
    with pytest.raises(ProfileError) as caught:
        parse_profile(document, "ours.yaml")
    text = str(caught.value)
    assert text.startswith("ours.yaml: ")
    assert message in text
    assert text.endswith(".")
    assert "\n" not in text


def test_domains_nest() -> None:
    document = minimal()
    outer = {**copy.deepcopy(document["tiers"][1]), "name": "rack", "wiring": "switch", "domain_devices": number(12, "1")}
    document["tiers"].insert(1, outer)
    with pytest.raises(
        ProfileError, match=re.escape("tiers[1].domain_devices: 12 is not allowed; give a multiple of the inner tier's 8.")
    ):
        parse_profile(document, "ours.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml: holds nothing where a mapping"),
        ("# nothing\n", "x.yaml: holds nothing where a mapping"),
        ("just text", "x.yaml: holds text where a mapping"),
        ("- 1\n- 2\n", "x.yaml: holds a list where a mapping"),
        ("name: [unclosed", "x.yaml: line 2: "),
        ("name: a\nname: b\n", "x.yaml: line 2: the key 'name' occurs twice"),
        ("a: &x [1]\nb: *x\n", "x.yaml: line 1: anchors and aliases (*name) are not allowed"),
        ("? [a, b]\n: 1\n", "x.yaml: line 1: a key must be plain text"),
        (
            "a: !!python/object:os.system {}\n",
            "x.yaml: line 1: the tag 'tag:yaml.org,2002:python/object:os.system' is not allowed",
        ),
        ("a: !!binary aGk=\n", "x.yaml: line 1: the tag"),
        ("a: !!int one\n", "x.yaml: line 1: 'one' cannot be read"),
        ("a: !!bool maybe\n", "x.yaml: line 1: 'maybe' cannot be read"),
        ("a: " + "9" * 5000 + "\n", "cannot be read (an integer of 5,000 digits is too long)"),
        ("<<: {name: a}\n", "x.yaml: <<: unknown key"),
        ("a: 1\n---\nb: 2\n", "x.yaml: line 2: but found another document"),
        ("a: " + "[" * 50 + "]" * 50 + "\n", f"nested deeper than {LIMITS.depth} levels"),
        ("[" * 100_000, f"nested deeper than {LIMITS.depth} levels"),
        ("a: [" + "1," * LIMITS.values + "]\n", f"x.yaml: line 1: it holds more than {LIMITS.values:,} values"),
        ("x" * (LIMITS.num_bytes + 1), "x.yaml: larger than 256 KiB"),
        ("a: \x00\n", "x.yaml: "),
        ("a:\tb: c\n", "x.yaml: line 1: "),
    ],
)
def test_bad_yaml_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile_text(text, "x.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_laughing_bomb_is_refused_before_it_grows() -> None:
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 10))
    with pytest.raises(ProfileError, match="anchors and aliases"):
        parse_profile_text(f"l0: &l0 [1]\n{levels}\n", "bomb.yaml")


def test_files_that_are_no_profiles(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"absent\.yaml: no such file"):
        load_profile(tmp_path / "absent.yaml")
    with pytest.raises(ProfileError, match="is a directory; give a file"):
        load_profile(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\x7fELF\x80\xff")
    with pytest.raises(ProfileError, match="not a text file in UTF-8"):
        load_profile(binary)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (LIMITS.num_bytes + 1))
    with pytest.raises(ProfileError, match="larger than 256 KiB"):
        load_profile(large)
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(ProfileError, match="not a regular file"):
        load_profile(pipe)
    for impossible in ("a\0b", "x" * 5000):
        with pytest.raises(ProfileError):
            load_profile(impossible)


def test_a_profile_survives_yaml(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(yaml.safe_dump(minimal()), encoding="utf-8")
    assert load_profile(path) == parse_profile(minimal(), "ours.yaml")


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["GB", "vendor", "mesh"])
)
TREES = st.recursive(
    SCALARS, lambda t: st.lists(t, max_size=4) | st.dictionaries(st.text(max_size=10), t, max_size=4), max_leaves=12
)


def outcome(read: Callable[[], object]) -> str:
    """``"read"``, or the sentence of the refusal; any other exception fails the test."""
    try:
        read()
    except ProfileError as error:
        return str(error)
    return "read"


@given(st.text(max_size=200))
def test_any_text_is_refused(text: str) -> None:
    assert outcome(lambda: parse_profile_text(text, "x.yaml")).startswith("x.yaml")


@given(st.text(alphabet="abn01 :-[]{},&*!|>'\"#%@\n\t?.~<=", max_size=120))
def test_anything_that_looks_like_yaml_is_refused(text: str) -> None:
    assert outcome(lambda: parse_profile_text(text, "x.yaml")).startswith("x.yaml")


def paths_of(tree: Any, prefix: str = "") -> list[str]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    result = []
    for key, value in items:
        path = f"{prefix}.{key}" if prefix else str(key)
        result += [path, *paths_of(value, path)]
    return result


@given(path=st.sampled_from(paths_of(minimal())), tree=TREES)
def test_a_profile_with_anything_anywhere_is_read_or_refused(path: str, tree: Any) -> None:
    document = set_at(minimal(), path, tree)
    sentence = outcome(lambda: parse_profile(document, "x.yaml"))
    assert sentence.startswith(("x.yaml: ", "read"))
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("family", "precision", "capability", "sentence"),
    [
        ("ascend", "bf16", 9.0, "compute_capability: it is of GPUs, and the family is ascend"),
        ("nvidia", "fp8", 8.6, "matmul_flops_per_s.fp8: .* from compute capability 8.9 on, and compute_capability is 8.6"),
        ("nvidia", "nvfp4", 9.0, "matmul_flops_per_s.nvfp4: .* from compute capability 10.0 on"),
        ("amd", "mxfp4", 9.4, "matmul_flops_per_s.mxfp4: .* from compute capability 9.5 on"),
    ],
)
def test_rates_and_compute_capability_agree(family: str, precision: str, capability: float, sentence: str) -> None:
    document = {**minimal(), "family": family, "compute_capability": number(capability, "1")}
    document["matmul_flops_per_s"][precision] = number(294.9, "TFLOPS")
    with pytest.raises(ProfileError, match=sentence):
        parse_profile(document, "ours.yaml")


@pytest.mark.parametrize("capability", [90, 100, 9.05, 0.9, 20.1])
def test_a_compute_capability_is_written_with_a_point(capability: float) -> None:
    document = {**minimal(), "family": "nvidia", "compute_capability": number(capability, "1")}
    with pytest.raises(ProfileError, match=f"{capability:g} 1 is not allowed; give 1 to 20 .* 9.0 for sm_90, not 90"):
        parse_profile(document, "ours.yaml")


def test_a_profile_without_compute_capability_is_read_as_before() -> None:
    assert parse_profile({**minimal(), "family": "nvidia"}, "ours.yaml").compute_capability is None
