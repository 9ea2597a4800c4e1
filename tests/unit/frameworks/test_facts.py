"""Rules derived from facts about arguments: which rows, which words, and what cannot be a rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from frameworks.facts import Extra, FactRule, beside, choice, fact_rule, number, switch
from frameworks.mindspeed_llm.rules import RULES
from frameworks.release import Exclusion, Fact, Release, Requirement
from tests.unit.frameworks.legality_workloads import DENSE_PLAN, MIXTURE, MIXTURE_PLAN, job

TERMS = {
    "mc2": switch(Feature.MC2),
    "coc": switch(Feature.COC),
    "tp": number("tp"),
    "pp": number("pp"),
    "kind": choice(
        "kind", lambda w, b: b.zero_stage, {"plain": 0, "sharded": 1}, lambda w, s: ["plain", "sharded"][s.zero_stage]
    ),
}
PLAN = replace(DENSE_PLAN, features=Feature.MC2 | Feature.COC)  # tp 4, pp 4, zero_stage 1


def rule(*facts: Fact, extra: Extra | None = None) -> FactRule:
    exclusions = tuple(fact for fact in facts if isinstance(fact, Exclusion))
    needs = tuple(fact for fact in facts if isinstance(fact, Requirement))
    return fact_rule(Release("toy", "1", {}, {}, exclusions, needs), TERMS, "toy", "be a toy", extra=extra)


def excludes(*conditions: str) -> Exclusion:
    return Exclusion(conditions, "[toy, a]", "toy")


def needs(when: tuple[str, ...], *needed: str) -> Requirement:
    return Requirement(when, needed, "[toy, b]", "toy")


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ([excludes("mc2", "coc")], "mc2 over tp 4 excludes coc over tp 4"),
        ([excludes("mc2", "coc"), excludes("mc2", "tp>2")], "mc2 over tp 4 excludes coc over tp 4 and tp 4"),
        ([excludes("mc2", "kind=sharded")], "mc2 over tp 4 excludes kind sharded"),
        ([excludes("mc2", "kind!=plain", "pp=4")], "mc2 over tp 4 excludes kind sharded with pp 4"),
        ([needs(("mc2",), "tp>4", "kind=plain")], "mc2 over tp 4 needs tp above 4 (it is 4) or kind plain (it is sharded)"),
        ([needs(("mc2",), "kind=unheard", "pp=2")], "mc2 over tp 4 needs pp 2 (it is 4)"),
        ([needs(("mc2", "pp>1"), "tp=8"), excludes("mc2", "coc")],
         "mc2 over tp 4 with pp 4 needs tp 8 (it is 4), and excludes coc over tp 4"),
        ([excludes("mc2")], "mc2 over tp 4 is refused"),
    ],
)  # fmt: skip
def test_facts_make_a_sentence_with_the_plans_values(facts: list[Fact], sentence: str) -> None:
    made = rule(*facts)
    assert made.sentence(job(), PLAN) == sentence
    assert made.reason(job(), PLAN) == sentence.replace("mc2 over tp 4", "it", 1)
    # without the switch, or where it acts on nothing, nothing is broken
    batch = StrategyBatch.of([PLAN, replace(PLAN, features=Feature.COC), replace(PLAN, tp=1)])
    assert list(made.violates(job(), batch)) == [True, False, False]


def test_rows_that_keep_every_fact_are_legal() -> None:
    made = rule(needs(("mc2",), "tp>4", "kind=plain"), excludes("mc2", "coc"))
    alone = replace(PLAN, features=Feature.MC2)
    plans = [PLAN, alone, replace(alone, tp=8), replace(alone, zero_stage=0), replace(PLAN, tp=8)]
    assert list(made.violates(job(), StrategyBatch.of(plans))) == [True, True, False, False, True]
    assert made.source == "[toy, b; toy, a]"
    assert (made.subject, made.excludes, made.needs) == (Feature.MC2, Feature.COC, Feature(0))


def test_what_no_condition_says_is_asked_of_plans_with_the_subject_alone() -> None:
    made = rule(excludes("mc2", "coc"), extra=Extra(lambda w, b: b.tp % 8 != 0, lambda w, s: f"needs 8 in tp {s.tp}"))
    assert made.sentence(job(), PLAN) == "mc2 over tp 4 excludes coc over tp 4, and needs 8 in tp 4"
    assert list(made.violates(job(), StrategyBatch.of([replace(PLAN, features=Feature(0)), PLAN]))) == [False, True]


def test_facts_that_make_no_rule_are_refused() -> None:
    with pytest.raises(ValueError, match="are about nothing"):
        rule()
    with pytest.raises(ValueError, match=r"are about \['coc', 'mc2'\]"):
        rule(excludes("mc2", "coc"), excludes("coc", "mc2"))
    with pytest.raises(ValueError, match="no plan says kind=unheard"):
        rule(needs(("mc2",), "kind=unheard"))
    with pytest.raises(KeyError, match="pp2"):
        rule(excludes("mc2", "pp2>1"))


def test_a_need_that_is_on_and_does_nothing_is_said_to() -> None:
    (dualpipev,) = (rule for rule in RULES if rule.name == "mindspeed_dualpipev")
    plan = replace(MIXTURE_PLAN, ep=1, features=Feature.MOE_COMM_OVERLAP)
    assert dualpipev.sentence(job(MIXTURE), plan) == "schedule dualpipev needs moe_comm_overlap (it does nothing over ep 1)"


def test_what_a_switch_excludes_takes_what_needs_that_along() -> None:
    assert beside(RULES, Feature.MOE_COMM_OVERLAP) == (
        Feature.OVERLAP_GRAD_REDUCE
        | Feature.OVERLAP_PARAM_GATHER  # which needs overlap_grad_reduce
        | Feature.MOE_ALLTOALL_OVERLAP_COMM
        | Feature.SWAP_ATTENTION
        | Feature.MOE_TP_EXTEND_EP
    )


def test_a_verdict_of_the_job_holds_for_every_row() -> None:
    (mixed,) = (rule for rule in RULES if rule.name == "megatron_grouped_gemm_precision")
    batch = StrategyBatch.of([MIXTURE_PLAN, ParallelStrategy()])
    assert not mixed.violates(job(MIXTURE), batch).any()
    assert np.array_equal(mixed.violates(job(MIXTURE, precision="fp16"), batch), [True, True])
