"""What a job ranks and bounds its plans by, from its site and its prices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.answers.costs import basis_sentences, busy_fraction, draw_of, price_of
from app.answers.delivery import LEAST_RATE, delivered_of
from app.answers.site import failing_site, nodes_of, spares_of
from app.calibrations.constants import constants_for
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job
from app.text.quantities import count, gibibytes, percent, seconds
from calibration.files.calibrations import Calibration
from cost_models.delivery.failures import DAY_S
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate
from documents.errors import InputError
from documents.sentences import Sentence, word
from search.ranking.criteria import Judgement, Limit, Measure, Value
from search.sensitivity.quantities import CHANGE, quantities

TOKENS = 1e12  # of which money, energy and device-hours are told
HOUR_S = 3600.0

Strategies = Sequence[ParallelStrategy]
Estimates = Sequence[Mapping[str, Any]]


def judgement_of(job: Job, own: Sequence[Calibration] = ()) -> Judgement | None:
    """Nothing where step time or memory alone ranks; ``InputError`` for an objective or a limit that has no number."""
    settings = job.settings
    if not settings.judges_plans:
        return None
    judge = _Judge(job, own)
    return Judgement(tuple(map(judge.measure, settings.objectives)), tuple(judge.limits()), settings.top)


def judged_sentences(job: Job) -> list[str]:
    """What power, price and failures rest on, where an objective or a limit asks for them."""
    asked = {"delivered", "cost", "energy"} & set(job.settings.objectives)
    return basis_sentences([job]) if asked or job.settings.budget_usd is not None else []


@dataclass(frozen=True)
class _Running:
    """What a plan is while it runs for months: useful time over wall time, time in which steps run, spare nodes."""

    rate: float
    running: float
    spares: int


@dataclass(frozen=True)
class _Judge:
    job: Job
    own: Sequence[Calibration]

    @property
    def section(self) -> DeliverySection:
        return self.job.delivery or DeliverySection()

    @cached_property
    def tokens_per_step(self) -> float:
        training = self.job.workload.training
        return float(training.global_batch_size * training.seq_length)

    @cached_property
    def spares(self) -> int:
        site = failing_site(self.job)
        return 0 if site is None else spares_of(site, nodes_of(self.job.workload))

    def running(self, strategy: ParallelStrategy, numbers: Mapping[str, Any]) -> _Running:
        section = failing_site(self.job)
        if section is None:
            return _Running(1.0, 1.0, 0)
        found, site = delivered_of(self.job, section, strategy, numbers["step_time_s"], self.own)
        running = found.supply.rate * (found.effective.useful + found.effective.repeated)
        return _Running(max(found.rate, LEAST_RATE), running, site.num_spares)

    def measure(self, name: str) -> Measure:
        values: Callable[[Strategies, Estimates], list[Value]] = {
            "step_time": self._steps,
            "device_hours": self._device_hours,
            "memory_headroom": self._memory,
            "delivered": self._delivered,
            "cost": self._costs,
            "energy": self._energies,
            "robust": self._robust,
        }[name]
        workload, hours = self.job.workload, self.job.workload.cluster.num_devices / HOUR_S
        least: Callable[[float], float] = lambda step_s: step_s  # noqa: E731 - of steps, and of steps over a rate below 1
        if name == "device_hours":
            least = lambda step_s: step_s * hours * TOKENS / self.tokens_per_step  # noqa: E731
        if name == "memory_headroom":
            least = lambda step_s: 0.0  # noqa: E731
        if name in ("cost", "energy"):
            all_waiting = {"step_time_s": 1.0, "time_breakdown_s": {"host": 1.0}}
            draw = draw_of(workload, self.section, all_waiting, num_spares=self.spares)
            price = price_of(workload, self.section, draw, num_spares=self.spares)
            if name == "energy" and draw is None:
                raise InputError(
                    Sentence("search.objective: energy: nobody says what a device of the profile draws; give delivery.power_w.")
                )
            if name == "cost" and price is None:
                raise InputError(
                    Sentence(
                        "search.objective: cost: {} has no price; "
                        "give delivery.price_per_device_hour_usd (--price-per-device-hour).",
                        workload.cluster.profile.name,
                    )
                )
            a_day = price.usd_per_day if name == "cost" and price else draw.kwh_per_day if draw else 0.0
            least = lambda step_s: a_day * self._days(step_s, TOKENS)  # noqa: E731
        return Measure(name, values, least)

    def _days(self, step_s: float, tokens: float) -> float:
        return tokens / self.tokens_per_step * step_s / DAY_S

    def _steps(self, strategies: Strategies, estimates: Estimates) -> list[Value]:
        return [
            Value(each["step_time_s"], each["step_time_s"], Sentence("{} a step", seconds(each["step_time_s"])))
            for each in estimates
        ]

    def _device_hours(self, strategies: Strategies, estimates: Estimates) -> list[Value]:
        number = self.job.workload.cluster.num_devices
        found = [self._days(each["step_time_s"], TOKENS) * 24.0 * number for each in estimates]
        return [Value(hours, hours, Sentence("{} device-hours for a trillion tokens", count(hours))) for hours in found]

    def _memory(self, strategies: Strategies, estimates: Estimates) -> list[Value]:
        limit = fit_rule(self.job.workload, constants_for(self.job.workload, self.own)).memory_limit_bytes
        return [
            Value(each["peak_memory_bytes"], free := limit - each["peak_memory_bytes"], Sentence("{} stay free", gibibytes(free)))
            for each in estimates
        ]

    def _delivered(self, strategies: Strategies, estimates: Estimates) -> list[Value]:
        found = []
        for strategy, numbers in zip(strategies, estimates, strict=True):
            rate = self.running(strategy, numbers).rate
            per_day = numbers["tokens_per_s"] * rate * DAY_S
            text = Sentence("{} tokens a day delivered, {} of the time useful", count(per_day), percent(rate, 2))
            found.append(Value(numbers["step_time_s"] / rate, per_day, text))
        return found

    def _costs(self, strategies: Strategies, estimates: Estimates) -> list[Value]:
        usd = self._usd(strategies, estimates, TOKENS)
        return [Value(each, each, Sentence("{} USD for a trillion tokens", count(each))) for each in usd]

    def _energies(self, strategies: Strategies, estimates: Estimates) -> list[Value]:
        found = []
        for strategy, numbers in zip(strategies, estimates, strict=True):
            its = self.running(strategy, numbers)
            draw = draw_of(self.job.workload, self.section, numbers, running=its.running, num_spares=its.spares)
            assert draw is not None  # of a measure that has a least
            kwh = draw.kwh_per_day * self._days(numbers["step_time_s"] / its.rate, TOKENS)
            text = Sentence(
                "{:,.1f} MWh for a trillion tokens, computing {} of the step", kwh / 1e3, percent(busy_fraction(numbers))
            )
            found.append(Value(kwh, kwh, text))
        return found

    def _robust(self, strategies: Strategies, estimates: Estimates) -> list[Value]:
        """The step when the one number that matters most to the plan is ``CHANGE`` worse."""
        workload, constants, batch = self.job.workload, constants_for(self.job.workload, self.own), StrategyBatch.of(strategies)
        as_it_is = estimate(workload, batch, constants).step_time_s
        worst: list[tuple[float, str]] = [(1.0, "nothing")] * len(strategies)
        for quantity, scaled in quantities(workload, constants):
            changed, changed_constants = scaled(1.0 / (1.0 + CHANGE))
            longer = (estimate(changed, batch, changed_constants).step_time_s / as_it_is).tolist()
            worst = [max(before, (ratio, quantity)) for before, ratio in zip(worst, longer, strict=True)]
        found = []
        for numbers, (ratio, quantity) in zip(estimates, worst, strict=True):
            step_s = numbers["step_time_s"] * ratio
            text = Sentence("{} a step with {} {:.0%} worse, which hurts it most", seconds(step_s), word(quantity), CHANGE)
            found.append(Value(step_s, step_s, text))
        return found

    def _usd(self, strategies: Strategies, estimates: Estimates, tokens: float) -> list[float]:
        found = []
        for strategy, numbers in zip(strategies, estimates, strict=True):
            its = self.running(strategy, numbers)
            draw = draw_of(self.job.workload, self.section, numbers, running=its.running, num_spares=its.spares)
            price = price_of(self.job.workload, self.section, draw, num_spares=its.spares)
            found.append(math.inf if price is None else price.usd_per_day * self._days(numbers["step_time_s"] / its.rate, tokens))
        return found

    def limits(self) -> list[Limit]:
        settings, workload = self.job.settings, self.job.workload
        given = {"deadline_days": settings.deadline_days, "budget_usd": settings.budget_usd}
        tokens = workload.training.train_tokens
        for name, most in given.items():
            if most is not None and tokens is None:
                raise InputError(Sentence("search.{}: of how many tokens? Give training.train_tokens.", name))
        if settings.budget_usd is not None:
            self.measure("cost")  # has a price, or says which
        found = []
        if settings.deadline_days is not None and tokens is not None:
            most_days, all_tokens = settings.deadline_days, tokens
            found.append(
                Limit(
                    lambda strategies, estimates: [
                        self._days(numbers["step_time_s"] / self.running(strategy, numbers).rate, all_tokens)
                        for strategy, numbers in zip(strategies, estimates, strict=True)
                    ],
                    most_days,
                    lambda least: Sentence(
                        "No plan is done within {:g} days: the fastest takes {:,.1f}, and trains "
                        "{} in that time. At its speed a device it would take "
                        "{:,} devices.",
                        most_days,
                        least,
                        _part(all_tokens, most_days / least),
                        math.ceil(workload.cluster.num_devices * least / most_days),
                    ),
                )
            )
        if settings.budget_usd is not None and tokens is not None:
            most_usd, paid_tokens = settings.budget_usd, tokens
            found.append(
                Limit(
                    lambda strategies, estimates: self._usd(strategies, estimates, paid_tokens),
                    most_usd,
                    lambda least: Sentence(
                        "No plan costs {:,.0f} USD or less: the cheapest costs {:,.0f}, and trains {} for that.",
                        most_usd,
                        least,
                        _part(paid_tokens, most_usd / least),
                    ),
                )
            )
        return found


def _part(tokens: float, fraction: float) -> str:
    return Sentence("{:.3g} of the {:.3g} tokens", tokens * fraction, tokens)
