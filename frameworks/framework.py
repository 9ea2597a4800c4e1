"""What a training framework is to us: one record, which its folder makes and the registry lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import ModelShape, Workload
from frameworks.placements import Placements
from frameworks.release import Release
from frameworks.rule import Rule
from frameworks.table import Table
from frameworks.target import Target


@dataclass(frozen=True)
class LaunchArguments:
    """``arguments`` as a shell would pass them, ``environment`` variables, and one sentence a note."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Start:
    """What the launcher must know: the plan's name and the processes it starts."""

    title: str
    num_devices: int
    devices_per_node: int

    @property
    def processes_per_node(self) -> int:
        """Processes that one node runs."""
        return min(self.devices_per_node, self.num_devices)

    @property
    def num_nodes(self) -> int:
        """Nodes that hold all processes."""
        return -(-self.num_devices // self.devices_per_node)


class ReadingError(ValueError):
    """Arguments that no strategy means; the message is one sentence."""


@dataclass(frozen=True)
class ReadJob:
    """What the arguments of a script say of a whole job. None: they do not say it.

    ``not_understood``: one sentence for each argument that was passed over and may matter.
    """

    model: ModelShape
    strategy: ParallelStrategy
    seq_length: int | None
    global_batch_size: int | None
    precision: str
    not_understood: tuple[str, ...]
    router_balance: str | None = None


@dataclass(frozen=True)
class Framework:
    """``target``: name, release, devices it runs on. ``release``: its arguments; ``table``: which of them says what of a plan.

    ``rules`` are those that bind its plans beside physics. ``nearest``: what it can be told, and a sentence for each setting that
    is replaced; ``write``: arguments of that; ``read``: the strategy that such arguments mean, with the number of devices where
    they do not say it, ``read_job`` the whole job (raise ``ReadingError``). ``purposes``: what each environment variable is for.
    ``untold``: a sentence for what the release cannot be told of the model, so that it would train another one.
    ``placements``: where layers can sit; ``merged_chunks``: where they can if ``moe_comm_overlap`` merges passes of virtual
    stages, if not there.
    ``file``: text of a launch file, of ``suffix``, from release, purposes and an entry of ``launch_block``.
    """

    target: Target
    release: Release
    table: Table
    rules: tuple[Rule, ...]
    nearest: Callable[[Workload, ParallelStrategy], tuple[ParallelStrategy, tuple[str, ...]]]
    write: Callable[[Workload, ParallelStrategy], LaunchArguments]
    read: Callable[[Sequence[str], int | None], ParallelStrategy]
    read_job: Callable[[Sequence[str], int | None], ReadJob]
    suffix: str
    purposes: Mapping[str, str]
    file: Callable[[Release, Mapping[str, str], Mapping[str, Any], Start], str]
    placements: Placements
    merged_chunks: Placements | None = None
    untold: Callable[[Workload], tuple[str, ...]] = lambda _workload: ()

    @property
    def name(self) -> str:
        """The name, as in ``software.target``."""
        return self.target.name
