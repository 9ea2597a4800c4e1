"""Changes of a script's text, argument by argument, until it states another plan. Each step is read back first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields

from app.launch_scripts.launch import Launch, named_values
from app.launch_scripts.schemas import ScriptChange
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.framework import Framework, ReadingError
from frameworks.options import as_given, options_of
from frameworks.release import Fact, Kind, accepted, arguments_of, broken_facts, holds, told
from frameworks.unread import UNUSED_GROUP

Values = tuple[str, ...] | None  # values of an argument; None: not given
MAX_EDITS = 400
MAX_MENDED = 4  # rounds of changes for companions, and for companions of these
MAX_READ_AGAIN = 4_000_000  # characters; every edit is read back


@dataclass(frozen=True)
class Patched:
    """The script with the changes made. ``is_exact``: whether it says the wanted plan.

    ``refused``: sentences on combinations of its arguments that the release refuses, and that the script did not have before.
    """

    launch: Launch
    changes: tuple[ScriptChange, ...]
    is_exact: bool
    refused: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # sentences on environment variables set elsewhere


def patched(
    launch: Launch, framework: Framework, workload: Workload, own: ParallelStrategy, best: ParallelStrategy, num_devices: int
) -> Patched:
    """The script with plan ``best`` in place of ``own``.

    First, change the arguments that the writer writes differently for the two plans. Scripts may express a plan with other
    arguments; then make further changes that bring the plan that is read nearer to ``best``, and state the batch if it followed
    from what was changed. Last, change what the release
    refuses beside the changed arguments: companions that they need, and arguments of the script that they exclude.
    """
    patch = _Patch(launch, framework, workload, framework.nearest(workload, best)[0], num_devices)
    before, after = (_written(framework, workload, strategy) for strategy in (own, best))
    written: dict[str, Values] = {name: after.get(name) for name in {**after, **before}}
    said = launch.said()
    wanted = {
        name: values for name, values in written.items() if before.get(name) != values and _is_of_plan(framework, name, said)
    }
    patch.settle(wanted)
    if patch.distance():
        patch.settle({name: values for name, values in written.items() if name not in wanted}, only_nearer=True)
    if patch.distance():
        patch.settle({name: None for name in patch.launch.said() if name not in after}, only_nearer=True)
    patch.keep_batch(after)
    refused = patch.mend(after, frozenset(patch.broken(launch)))
    left = _Environment(framework, workload, own, best).settle(patch)
    changes = tuple(_changes(launch, patch.launch))
    return Patched(patch.launch, changes, not patch.distance(), tuple(told(fact) for fact in refused), left)


def _is_of_plan(framework: Framework, name: str, said: Mapping[str, Values]) -> bool:
    """Whether the plan decides an argument; one of the model (a padding that follows tp) counts only if the script has it."""
    return name in said or framework.release.group_of(name) != "Model"


def _written(framework: Framework, workload: Workload, strategy: ParallelStrategy) -> dict[str, tuple[str, ...]]:
    return named_values(framework.release, list(framework.write(workload, strategy).arguments))


class _Patch:
    def __init__(
        self, launch: Launch, framework: Framework, workload: Workload, wanted: ParallelStrategy, num_devices: int
    ) -> None:
        self.launch = launch
        self._framework, self._workload, self._num_devices = framework, workload, num_devices
        self._wanted = canonical(workload, wanted)
        self._edits = 0

    def distance(self) -> int:
        """Number of fields in which the script differs from the wanted plan."""
        return self._distance(self.launch)

    def _distance(self, launch: Launch) -> int:
        try:
            read = canonical(self._workload, self._framework.read(launch.arguments, self._num_devices))
        except ReadingError:
            return len(fields(ParallelStrategy)) + 1
        differing = [f.name for f in fields(read) if getattr(read, f.name) != getattr(self._wanted, f.name)]
        return len(differing) + (read.features ^ self._wanted.features).bit_count()

    def settle(self, wanted: Mapping[str, Values], *, only_nearer: bool = False) -> None:
        """Brings the arguments to their values; ``only_nearer``: those alone that bring the plan nearer."""
        goal: dict[str, Values] = {**self.launch.said()}
        if not only_nearer:
            goal |= wanted
        # Removals come last, so that new arguments are placed next to the others of their group.
        for name, values in sorted(wanted.items(), key=lambda item: item[1] is None):
            if self.launch.said().get(name) == values:
                continue
            if only_nearer:
                self._try_nearer(name, values)
            else:
                self._step(name, values, goal)

    def keep_batch(self, written: Mapping[str, tuple[str, ...]]) -> None:
        """States the global batch where the script leaves it to the plan, and the changed plan makes another of it."""
        name = self._framework.batch_argument
        if name is None or name not in written or name in self.launch.said():
            return
        with suppress(ReadingError):  # of a model that the arguments name
            job = self._framework.read_job(self.launch.arguments, self._num_devices)
            if job.global_batch_size != self._workload.training.global_batch_size:
                self.settle({name: written[name]})

    def broken(self, launch: Launch) -> list[Fact]:
        """Combinations of arguments that the release refuses; arguments that it does not know are passed over."""
        return broken_facts(self._framework.release, self._accepted(launch))

    def _accepted(self, launch: Launch) -> dict[str, tuple[str, ...]]:
        """The arguments that the release knows, in the form of its table."""
        release = self._framework.release
        if self._framework.suffix == "sh":
            return accepted(release, named_values(release, launch.arguments))
        return accepted(release, {name: as_given(value) for name, value in options_of(launch.arguments).items()})

    def mend(self, written: Mapping[str, tuple[str, ...]], known: frozenset[Fact]) -> list[Fact]:
        """Gives arguments of broken facts the values of the wanted plan's own file; the facts that stay broken.

        ``known`` are broken in the script as it was given: it may be run with other software, and they stay.
        """
        for _ in range(MAX_MENDED):
            found = [fact for fact in self.broken(self.launch) if fact not in known]
            before = self.launch
            for fact in found:
                self.settle({name: written.get(name) for name in arguments_of(fact) if self._may_change(name, written)})
            if self.launch is before:
                return found
        return found

    def _may_change(self, name: str, written: Mapping[str, tuple[str, ...]]) -> bool:
        """Whether an argument may change beside others.

        The model's arguments stay, but for switches that the plan adds; so do those of data and weights, and those that have no
        price: without them the script would train something else.
        """
        release = self._framework.release
        given = self._accepted(self.launch)
        if any(holds(release, given, condition) for condition in release.unpriced_by_name.get(name, ())):
            return False
        if release.group_of(name) == UNUSED_GROUP:
            return False
        if release.group_of(name) != "Model":
            return True
        return name in written and release.arguments[name].kind is Kind.SWITCH

    def _step(self, name: str, values: Values, goal: Mapping[str, Values]) -> None:
        open_before = self._open(self.launch, goal)
        self._first(name, values, lambda launch: name not in (left := self._open(launch, goal)) and left < open_before)

    def _try_nearer(self, name: str, values: Values) -> None:
        goal = {**self.launch.said(), name: values}
        before = self.distance()
        self._first(name, values, lambda launch: not self._open(launch, goal) and self._distance(launch) < before)

    @staticmethod
    def _open(launch: Launch, goal: Mapping[str, Values]) -> set[str]:
        said = launch.said()
        return {name for name in {**goal, **said} if said.get(name) != goal.get(name)}

    def _first(self, name: str, values: Values, is_good: Callable[[Launch], bool]) -> None:
        """Take the first notation that is read back correctly."""
        for text in self._ways(name, values):
            self._edits += 1
            if self._edits > min(MAX_EDITS, MAX_READ_AGAIN // len(text)):
                return
            try:
                launch = self.launch.again(text)
            except InputError:
                continue
            if is_good(launch):
                self.launch = launch
                return

    def _ways(self, name: str, values: Values) -> Iterator[str]:
        return self.launch.without(name) if values is None else self.launch.with_values(name, values)


class _Environment:
    """Variables that the writer sets differently for two plans."""

    def __init__(self, framework: Framework, workload: Workload, own: ParallelStrategy, best: ParallelStrategy) -> None:
        self._before, self._after = (framework.write(workload, strategy).environment for strategy in (own, best))

    def settle(self, patch: _Patch) -> tuple[str, ...]:
        """Export the variables of the best plan; a sentence for each that the user must set."""
        left = []
        for name in {**self._after, **self._before}:
            value = self._after.get(name)
            if value == self._before.get(name):
                continue
            if self._set(patch, name, value):
                continue
            change = (
                Sentence("must be started without {}, which", name)
                if value is None
                else Sentence("needs {}={} on every node, and", name, value)
            )
            left.append(
                Sentence(
                    "The best plan {} {}.",
                    change,
                    Sentence("the script exports") if value is None else Sentence("the file does not export it"),
                )
            )
        return tuple(left)

    @staticmethod
    def _set(patch: _Patch, name: str, value: str | None) -> bool:
        launch = patch.launch
        if launch.environment.get(name) == value:
            return True
        for text in launch.with_variable(name, value):
            try:
                changed = launch.again(text)
            except InputError:
                continue
            if changed.environment.get(name) == value and changed.said() == launch.said():
                patch.launch = changed
                return True
        return False


def _changes(before: Launch, after: Launch) -> Iterable[ScriptChange]:
    was, now = before.said(), after.said()
    for name in {**was, **now}:
        if was.get(name) != now.get(name):
            yield ScriptChange(argument=name, was=_text(was.get(name)), now=_text(now.get(name)), line=before.line_of(name))
    exported, kept = before.environment, after.environment
    for name in {**exported, **kept}:
        if exported.get(name) != kept.get(name):
            yield ScriptChange(argument=f"export {name}", was=exported.get(name), now=kept.get(name), line=None)


def _text(values: Values) -> str | None:
    return None if values is None else " ".join(values)
