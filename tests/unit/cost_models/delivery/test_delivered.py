"""A plan on a site: which class recovers how, and what the parts make together."""

from dataclasses import replace

import pytest

from cost_models.delivery.delivered import LONGEST_INTERVAL_S, RunningPlan, Site, delivered, failure_classes
from cost_models.delivery.energy import device_power, mean_power_w, owned_device_hour_usd
from cost_models.delivery.failures import DAY_S
from cost_models.delivery.recovery import RECOVERY_MODES
from cost_models.delivery.state import SavedState

PLAN = RunningPlan(2048, 0, 128, 1 / 16, 5.0, SavedState(5.67e12, 3.5e8), 5e10, 5e10)
SITE = Site(4e-3, RECOVERY_MODES["job"], 60.0, 1e11, 1e11, checkpoint_fixed_s=3.0, num_spares=40, repair_s=3 * DAY_S)


def test_classes_by_hand() -> None:
    found = delivered(PLAN, SITE)
    node, software = found.classes
    assert node.rate_per_s == pytest.approx(2048 * 4e-3 * 0.78 / DAY_S)
    assert node.recovery_s == pytest.approx(60 + 300 + 56.7 + 5)
    assert (node.keeps_state, node.replaces_node, software.replaces_node) == (False, True, False)
    assert found.mtbf_s == pytest.approx(DAY_S / (2048 * 4e-3))
    assert found.rate == pytest.approx(found.effective.useful * found.supply.rate)


def test_peers_hold_the_state_only_where_there_are_any() -> None:
    site = replace(SITE, mode=RECOVERY_MODES["process"])
    found = delivered(PLAN, site)
    assert all(each.keeps_state for each in found.classes)
    assert found.interval_s == LONGEST_INTERVAL_S
    assert found.classes[0].recovery_s == pytest.approx(60 + 30 + 3.5e8 / 5e10 + 5)
    alone = delivered(replace(PLAN, num_replicas=1), site)
    assert not any(each.keeps_state for each in alone.classes)
    assert alone.classes[0].recovery_s == pytest.approx(60 + 30 + 56.7 + 5)


def test_dying_gasps_and_copies_in_memory() -> None:
    gasp = delivered(PLAN, replace(SITE, dying_gasp=True)).classes[0]
    assert gasp.keeps_state
    assert gasp.recovery_s == pytest.approx(60 + 300 + 56.7 + 56.7 + 5)  # saved, then loaded
    copied = delivered(PLAN, replace(SITE, in_memory_interval_s=600.0)).classes[0]
    assert copied.recovery_s == pytest.approx(60 + 300 + 3.5e8 / 5e10 + 300 + 5)


def test_faults_of_a_supernode_or_the_cluster_take_the_whole_job_down() -> None:
    site = replace(SITE, mode=RECOVERY_MODES["step"], supernode_failures_per_day=0.01, cluster_failures_per_day=0.1)
    found = {
        each.name: each for each in failure_classes(replace(PLAN, num_supernodes=16), site, delivered(PLAN, SITE).checkpoint)
    }
    assert found["supernode"].rate_per_s == pytest.approx(0.16 / DAY_S)
    assert found["cluster"].recovery_s == pytest.approx(60 + 300 + 56.7 + 5)
    assert not found["cluster"].keeps_state
    assert found["repaired_in_place"].recovery_s == 65.0
    shares = found["node"].rate_per_s + found["repaired_in_place"].rate_per_s
    assert shares == pytest.approx(0.78 * 2048 * 4e-3 / DAY_S)


@pytest.mark.parametrize(
    "better",
    [
        {"mode": RECOVERY_MODES["pod"]},
        {"detection_s": 10.0},
        {"num_spares": 60},
        {"repair_s": DAY_S},
        {"elastic": True},
        {"dying_gasp": True},
        {"failures_per_node_day": 2e-3},
        {"write_bytes_per_s": 4e11, "read_bytes_per_s": 4e11},
    ],
)
def test_what_should_help_does(better: dict[str, object]) -> None:
    assert delivered(PLAN, replace(SITE, **better)).rate >= delivered(PLAN, SITE).rate


def test_power_and_price_by_hand() -> None:
    power = device_power(700.0, 0.2, 0.6, 0.35, 1.25)
    assert (power.busy_w, power.waiting_w, power.idle_w) == pytest.approx((1.25 * 945, 1.25 * 665, 1.25 * 385))
    assert mean_power_w(power, 0.5, 0.9) == pytest.approx(1.25 * (0.9 * 805 + 0.1 * 385))
    assert owned_device_hour_usd(35_064.0, 4.0, 0.5) == pytest.approx(2.0)
