import pytest

from calibration.measurements.cases import KINDS, Case, Kind, default_cases
from documents.errors import InputError


def test_every_kind_is_measured_and_says_the_sizes_that_it_has() -> None:
    cases = default_cases(8)
    assert {case.kind for case in cases} == set(Kind)
    assert len(set(cases)) == len(cases)
    for case in cases:
        assert case.operation in KINDS[case.kind].operations
        assert list(case.by_name) == list(KINDS[case.kind].sizes)
        assert min(case.sizes) >= 1


def test_one_rank_has_nobody_to_exchange_with() -> None:
    assert not any(case.kind is Kind.COLLECTIVE for case in default_cases(1))
    exchanges = [case for case in default_cases(4) if case.kind is Kind.COLLECTIVE]
    assert {case.by_name["ranks"] for case in exchanges} == {4}
    assert {case.operation for case in exchanges} == set(KINDS[Kind.COLLECTIVE].operations)


def test_a_processor_gets_smaller_matmuls_of_as_many_experts() -> None:
    small, large = default_cases(1, on_processor=True), default_cases(1)
    assert len(small) == len(large)
    assert sum(case.flops for case in small) < sum(case.flops for case in large) / 100
    experts = [{case.by_name["experts"] for case in cases if case.kind is Kind.GROUPED_MATMUL} for cases in (small, large)]
    assert experts[0] == experts[1] == {8, 32}


@pytest.mark.parametrize(
    ("case", "flops"),
    [
        (Case(Kind.MATMUL, "matmul", "bf16", (2, 3, 5)), 60.0),
        (Case(Kind.GROUPED_MATMUL, "grouped_matmul", "bf16", (4, 2, 3, 5)), 60.0),  # 2 rows over all four experts
        (Case(Kind.ATTENTION, "full_forward", "bf16", (1, 10, 2, 2, 4)), 3200.0),  # 2 matmuls x 2 x 10 x 10 x 2 heads x 4
        (Case(Kind.ATTENTION, "causal_forward", "bf16", (1, 10, 2, 2, 4)), 1600.0),
        (Case(Kind.ATTENTION, "causal_backward", "bf16", (1, 10, 2, 2, 4)), 4000.0),  # five matmuls against two
        (Case(Kind.VECTOR, "norm", "bf16", (10, 10)), 0.0),
    ],
)
def test_flops_are_counted_as_the_model_counts_them(case: Case, flops: float) -> None:
    assert case.flops == flops


def test_only_takes_names_of_kinds() -> None:
    assert {case.kind for case in default_cases(1, only=["vector", "dispatch"])} == {Kind.VECTOR, Kind.DISPATCH}
    with pytest.raises(InputError, match=r"--only: 'matmull'.*did you mean 'matmul'"):
        default_cases(1, only=["matmull"])
