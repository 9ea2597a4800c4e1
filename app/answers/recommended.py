"""The plan that an answer recommends."""

from __future__ import annotations

from collections.abc import Sequence

from app.answers.schemas import Plan, SearchDocument


def recommended_plan(document: SearchDocument) -> Plan:
    """The plan to run. Answers of earlier versions list it first."""
    return recommended_of(document.plans, None if document.recommended is None else document.recommended.plan_id)


def recommended_of(plans: Sequence[Plan], plan_id: str | None) -> Plan:
    """The plan with this identifier, otherwise the first."""
    return next((plan for plan in plans if plan.plan_id == plan_id), plans[0])
