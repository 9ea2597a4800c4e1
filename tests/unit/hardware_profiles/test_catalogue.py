"""The shipped profiles: complete, sourced, and in agreement with the arithmetic of their own notes."""

import copy
import json
import pickle
from pathlib import Path

import pytest

from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile
from hardware_profiles.schema import Basis, ProfileError, Status, Wiring
from hardware_profiles.writer import profile_document

CONTRACT = {
    "atlas-800t-a2": "910B3",
    "atlas-900-a2-podc": "910B2",
    "atlas-800t-a2-910b4": "910B4",
    "atlas-800t-a2-910b4-64gb": "910B4 64 GB",
    "atlas-200t-a2-box16": "910B2C",
    "atlas-800t-a3": "910C die",
    "atlas-900-a3-superpod": "910C die",
    "ascend-950pr": "950PR",
    "atlas-350": "950PR card",
    "atlas-950-pod-1024": "950DT 96 GB",
    "atlas-800-910a": "910A",
    "atlas-950-superpod": "950DT",
    "a100-sxm-80gb": "A100",
    "a100-sxm-40gb": "A100",
    "a100-pcie-80gb": "A100 PCIe",
    "a800-sxm-80gb": "A800",
    "h100-pcie-80gb": "H100 PCIe",
    "h100-nvl-94gb": "H100 NVL",
    "l40s-48gb": "L40S",
    "gh200-96gb": "GH200",
    "h100-sxm-80gb": "H100",
    "h100-sxm-96gb-500w": "H100 500 W",
    "h20-sxm-96gb": "H20",
    "h200-sxm-141gb": "H200",
    "h800-sxm-80gb": "H800",
    "b200-sxm-180gb": "B200",
    "b300-sxm-288gb": "B300",
    "gb200-nvl72": "GB200",
    "gb300-nvl72": "GB300",
    "v100-sxm-32gb": "V100",
    "mi250x": "MI250X die",
    "mi300x": "MI300X",
    "mi350x": "MI350X",
    "mi355x": "MI355X",
}


def test_the_names_that_other_tools_rely_on_exist() -> None:
    assert {name: catalogue.profile(name).device for name in catalogue.names()} == CONTRACT


@pytest.mark.parametrize("name", catalogue.names())
def test_a_profile_is_named_and_filed_as_it_says(name: str) -> None:
    profile = catalogue.profile(name)
    assert profile.name == name
    root = Path(catalogue.__file__).parent
    assert (root / profile.family / f"{name}.yaml").is_file()


@pytest.mark.parametrize("name", catalogue.names())
def test_every_gpu_states_its_compute_capability_and_no_other_device_does(name: str) -> None:
    profile = catalogue.profile(name)
    assert (profile.compute_capability is not None) == (profile.family != "ascend")


OPTIONAL = ("clock_hz", "compute_capability", "host_memory_bytes", "host_memory_bytes_per_s", "power_w", "price_usd")


@pytest.mark.parametrize("name", catalogue.names())
def test_every_number_keeps_its_unit_source_and_basis(name: str) -> None:
    profile = catalogue.profile(name)
    paths = {
        "vector_flops_per_s",
        "num_matmul_cores",
        "hbm_bytes",
        "usable_hbm_bytes",
        "hbm_bytes_per_s",
        "host_link_bytes_per_s",
        "context_bytes",
        "communicator_bytes",
        "devices_per_node",
        *(f"matmul_flops_per_s.{p}" for p in profile.matmul_flops_per_s),
        *(f"achievable_matmul_flops_per_s.{p}" for p in profile.achievable_matmul_flops_per_s),
        *(key for key in OPTIONAL if getattr(profile, key) is not None),
    }
    for i, tier in enumerate(profile.tiers):
        paths |= {f"tiers.{i}.bandwidth_bytes_per_s", f"tiers.{i}.latency_s"}
        paths |= {f"tiers.{i}.{key}" for key in ("domain_devices", "link_bytes_per_s") if getattr(tier, key) is not None}
        for j, curve in enumerate(tier.curves):
            points = range(len(curve.time_s))
            paths |= {f"tiers.{i}.curves.{j}.group_size"}
            paths |= {f"tiers.{i}.curves.{j}.{key}.{k}" for key in ("message_bytes", "time_s") for k in points}
    assert set(profile.provenance) == paths
    for stated in profile.provenance.values():
        assert stated.unit
        assert stated.source
        assert isinstance(stated.basis, Basis)


@pytest.mark.parametrize(
    ("name", "cores", "clock_hz"),
    [
        ("atlas-900-a2-podc", 24, 1.8e9),  # 24 x 8192 x 1.8e9 = 353.9e12
        ("atlas-800t-a2", 20, 1.8e9),  # 20 x 8192 x 1.8e9 = 294.9e12
        ("atlas-800t-a2-910b4", 20, 1.5e9),  # 20 x 8192 x 1.5e9 = 245.8e12
        ("atlas-900-a3-superpod", 24, 1.8e9),
        ("atlas-800t-a2-910b4-64gb", 20, 1.5e9),
        ("atlas-200t-a2-box16", 24, 1.8e9),
        ("atlas-800t-a3", 24, 1.8e9),
        ("ascend-950pr", 32, 1.65e9),  # 32 x 8192 x 1.65e9 = 432.5e12
        ("atlas-350", 28, 1.65e9),  # 28 x 8192 x 1.65e9 = 378.5e12
        ("atlas-950-pod-1024", 36, 1.65e9),
        ("atlas-950-superpod", 36, 1.65e9),  # 36 x 8192 x 1.65e9 = 486.6e12
    ],
)
def test_the_cube_peak_is_cores_times_clock(name: str, cores: int, clock_hz: float) -> None:
    profile = catalogue.profile(name)
    assert (profile.num_matmul_cores, profile.clock_hz) == (cores, pytest.approx(clock_hz))
    # a core multiplies 16 x 16 x 16 numbers a clock, two operations each
    assert profile.matmul_flops_per_s["bf16"] == pytest.approx(cores * 16**3 * 2 * clock_hz, rel=3e-4)


def test_no_precision_is_invented() -> None:
    assert set(catalogue.profile("atlas-800-910a").matmul_flops_per_s) == {"fp16"}
    assert set(catalogue.profile("v100-sxm-32gb").matmul_flops_per_s) == {"fp16", "fp32"}
    for name in ("atlas-800t-a2", "atlas-900-a2-podc", "atlas-900-a3-superpod", "a100-sxm-80gb"):
        assert "fp8" not in catalogue.profile(name).matmul_flops_per_s


def test_the_a2_node_is_a_mesh_whose_all_reduce_is_the_measured_one() -> None:
    profile = catalogue.profile("atlas-800t-a2")
    inside, outside = profile.tiers
    assert inside.wiring is Wiring.MESH
    assert inside.link_bytes_per_s == pytest.approx(18.3e9)
    assert inside.bandwidth_bytes_per_s == pytest.approx(7 * 18.3e9)
    assert outside.bandwidth_bytes_per_s == pytest.approx(20e9)
    (curve,) = inside.curves
    assert (curve.op, curve.group_size) == ("all_reduce", 8)
    times = dict(zip(curve.message_bytes, curve.time_s, strict=True))
    # below 8 MiB: -0.9698 x 4^2 + 27.062 x 4 + 14.77 = 107.50; above: 13.585 x 64 + 61.51 = 930.95
    assert times[4 * 2**20] == pytest.approx(107.50e-6, rel=1e-4)
    assert times[64 * 2**20] == pytest.approx(930.95e-6, rel=1e-4)
    # so 67,108,864 B / 930.95 us = 72 GB/s, where a mesh of 18.3 GB/s links predicts 8 x 18.3 / 2 = 73.2
    assert 64 * 2**20 / times[64 * 2**20] == pytest.approx(73.2e9, rel=0.02)


def test_an_a3_device_is_a_die_of_a_pair_in_a_node_in_a_supernode() -> None:
    profile = catalogue.profile("atlas-900-a3-superpod")
    assert [tier.domain_devices for tier in profile.tiers] == [2, 16, 768, None]
    assert profile.devices_per_node == 16
    node = profile.tiers[1]
    gather = next(c for c in node.curves if c.op == "all_gather" and c.group_size == 16)
    # 15 shards of 40 MiB received in 3080 us: 204 GB/s
    assert 15 * gather.message_bytes[-1] / gather.time_s[-1] == pytest.approx(204e9, rel=0.01)
    exchange = next(c for c in node.curves if c.op == "all_to_all" and c.group_size == 8)
    # 4096 tokens x 8 copies x 7168 x 2 B at the published 125 GB/s
    assert exchange.message_bytes[-1] == 4096 * 8 * 7168 * 2
    assert exchange.message_bytes[-1] / exchange.time_s[-1] == pytest.approx(125e9, rel=1e-3)


def test_usable_memory_and_hccl_buffers_are_the_published_ones() -> None:
    profile = catalogue.profile("atlas-900-a2-podc")
    assert profile.usable_hbm_bytes == pytest.approx(64.77e9, rel=1e-4)  # 60.32 GiB, which its source also gives in GB
    assert profile.communicator_bytes == 2 * 200 * 2**20


@pytest.mark.parametrize("name", catalogue.names())
def test_hccl_runs_tier_after_tier_and_nccl_does_not(name: str) -> None:
    profile = catalogue.profile(name)
    assert profile.sequential_tiers is (profile.family == "ascend")


def test_a_rack_scale_domain_outgrows_its_node() -> None:
    for name in ("gb200-nvl72", "gb300-nvl72"):
        profile = catalogue.profile(name)
        assert (profile.devices_per_node, profile.tiers[0].domain_devices) == (4, 72)


def test_only_the_announced_system_is_roadmap() -> None:
    assert [n for n in catalogue.names() if catalogue.profile(n).status is Status.ROADMAP] == ["atlas-950-superpod"]


@pytest.mark.parametrize("name", catalogue.names())
def test_a_written_profile_reads_back_equal(name: str) -> None:
    profile = catalogue.profile(name)
    document = profile_document(profile)
    assert parse_profile(json.loads(json.dumps(document)), "stored") == profile
    assert pickle.loads(pickle.dumps(profile)) == copy.deepcopy(profile) == profile


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ProfileError, match=r"hardware 'atlas-801t-a3' is unknown \(did you mean 'atlas-800t-a3'\?\); known are"):
        catalogue.profile("atlas-801t-a3")
    with pytest.raises(ProfileError, match=r"'H100-SXM-8GB' is unknown .*'h100-sxm-80gb'"):
        catalogue.profile("H100-SXM-8GB")
    with pytest.raises(ProfileError, match=r"'x+\.\.\. is unknown; known are"):
        catalogue.profile("x" * 5000)


def test_a_name_is_found_in_any_case() -> None:
    assert catalogue.profile("H100-SXM-80GB") == catalogue.profile("h100_sxm_80gb") == catalogue.named("h100-sxm-80gb")


def test_a_path_is_read_and_read_again_when_it_changes(tmp_path: Path) -> None:
    shipped = Path(catalogue.__file__).parent / "nvidia" / "h100-sxm-80gb.yaml"
    mine = tmp_path / "mine.yaml"
    mine.write_text(shipped.read_text(encoding="utf-8").replace("name: h100-sxm-80gb", "name: ours"), encoding="utf-8")
    first = catalogue.profile(mine)
    assert first.name == "ours"
    assert catalogue.profile(str(mine)) is first
    mine.write_text(mine.read_text(encoding="utf-8").replace("name: ours", "name: renamed"), encoding="utf-8")
    assert catalogue.profile(mine).name == "renamed"


def test_a_name_is_never_a_path() -> None:
    with pytest.raises(ProfileError, match="is unknown"):
        catalogue.named("../nvidia/h100-sxm-80gb")
    with pytest.raises(ProfileError, match="no such file"):
        catalogue.profile("nowhere/at-all.yaml")


@pytest.mark.parametrize(
    ("name", "bf16_median", "fp8_ninth_decile"),
    [
        ("b200-sxm-180gb", 1471, 2894),
        ("b300-sxm-288gb", 1485, 2973),
        ("gb200-nvl72", 1525, 3070),
        ("gb300-nvl72", 1843, 3504),
    ],
)
def test_blackwell_rates_stand_to_the_h100_as_one_library_measured_them(
    name: str, bf16_median: float, fp8_ninth_decile: float
) -> None:
    """TFLOPS of 675 shapes with every side of 4,096 and more; the H100 reached 771 and 1,382 [aiconfigurator]."""
    ours, h100 = (catalogue.profile(each).achievable_matmul_flops_per_s for each in (name, "h100-sxm-80gb"))
    assert ours["bf16"] == pytest.approx(h100["bf16"] * bf16_median / 771, rel=1e-3)
    assert ours["fp8"] == pytest.approx(h100["fp8"] * fp8_ninth_decile / 1382, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        (
            "910b",
            [
                "'atlas-200t-a2-box16' (910B2C)",
                "'atlas-800t-a2' (910B3)",
                "'atlas-800t-a2-910b4' (910B4)",
                "'atlas-800t-a2-910b4-64gb' (910B4 64 GB)",
                "'atlas-900-a2-podc' (910B2)",
            ],
        ),
        ("910-B2", ["'atlas-200t-a2-box16' (910B2C)", "'atlas-900-a2-podc' (910B2)"]),
        ("h100-sxm", ["'h100-sxm-80gb' (H100)", "'h100-sxm-96gb-500w' (H100 500 W)"]),
        ("a100-pcie-40gb", ["'a100-pcie-80gb' (A100 PCIe)", "'a100-sxm-40gb' (A100)", "'a100-sxm-80gb' (A100)"]),
        ("a3", ["'atlas-800t-a3' (910C die)", "'atlas-900-a3-superpod' (910C die)"]),
        ("Ascend 910B3", ["'atlas-800t-a2' (910B3)"]),
        ("910B3-64GB", ["'atlas-800t-a2' (910B3)"]),
        ("atlas-801t-a3", ["'atlas-800t-a3'"]),
    ],
)
def test_the_name_of_a_device_suggests_its_profiles(name: str, meant: list[str]) -> None:
    assert catalogue.suggestion(name) == f" (did you mean {' or '.join(meant)}?)"
    assert catalogue.suggestion("") == catalogue.suggestion("~~~~") == catalogue.suggestion("x") == ""
    assert "no known hardware profile (did you mean" in str(catalogue.unknown("cluster.hardware", name))
