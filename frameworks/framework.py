"""Record of a training framework. Each folder makes one, and the registry lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cost_models.shapes.optimizers import ADAM, Optimizer
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.training_task import PRETRAIN, Task, TrainingTask
from cost_models.shapes.workload import ModelShape, Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from frameworks.caution import Caution
from frameworks.fixed import Fixed
from frameworks.placements import Placements
from frameworks.release import Given, Release
from frameworks.rule import Rule
from frameworks.table import Table
from frameworks.target import Target
from frameworks.unread import Unread
from hardware_profiles.schema import HardwareProfile


@dataclass(frozen=True)
class LaunchArguments:
    """Launch settings: ``arguments`` for a shell, ``environment`` variables, and notes of one sentence each.

    ``strategy`` is the one that the arguments describe: ``Framework.nearest`` of the planned one.
    """

    strategy: ParallelStrategy
    arguments: tuple[str, ...]
    environment: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Start:
    """Inputs of a launch file: the plan's name, the processes to start, and the language of the comments."""

    title: str
    num_devices: int
    devices_per_node: int
    say: Callable[[str], str] = str

    @property
    def processes_per_node(self) -> int:
        """Processes on each node."""
        return min(self.devices_per_node, self.num_devices)

    @property
    def num_nodes(self) -> int:
        """Number of nodes for all processes."""
        return -(-self.num_devices // self.devices_per_node)


class ReadingError(ValueError):
    """No strategy matches the arguments; the message is one sentence."""


class DevicesError(ReadingError):
    """No strategy of the arguments has the number of devices that was given beside them."""


ROWS_UNSAID = Sentence("vocab-size is not given: the tokenizer decides how many rows the embedding has.")


@dataclass(frozen=True)
class ReadJob:
    """A whole job read from the arguments of a script. ``None``: the arguments do not say.

    ``not_understood``: one sentence for each argument that is priced in another form, or that the framework rejects beside
    others. ``unread``: arguments on which the price depends and that are not understood. ``uneven``: arguments by which samples
    are packed or as short as they are. ``padded``: the argument that pads them to the sequence, empty if none does.
    ``vocab_multiple``: the rows of the embedding are a multiple of it, and not stated (0: they are). ``tokenizer``: its name or
    path. ``warnings``: one sentence for each default of the framework that costs, and that the price leaves out. ``loader_mask``:
    the data loader makes a mask of sequence x sequence. ``torch_compile``: layers are compiled; ``compiled_loss``: the loss is.
    ``loss_chunks``: chunks in which head and loss of a micro batch run, 0 for none.
    ``legacy_layers``: the layers are older ones of the framework. ``fp32_residual``: as in ``cost_models.shapes.residual``.
    ``fp8_recipe``: as in ``cost_models.shapes.precision``. ``fp8_param_gather``: weights are gathered in 8 bits.
    """

    model: ModelShape
    strategy: ParallelStrategy
    seq_length: int | None
    global_batch_size: int
    precision: str
    not_understood: tuple[str, ...]
    router_balance: str | None = None
    unread: tuple[Unread, ...] = ()
    uneven: tuple[str, ...] = ()
    vocab_multiple: int = 0
    tokenizer: str = ""
    warnings: tuple[str, ...] = ()
    loader_mask: bool = False
    torch_compile: bool | None = None
    compiled_loss: bool | None = None
    loss_chunks: int | None = None
    legacy_layers: bool = False
    fp32_residual: str = "none"
    task: TrainingTask = PRETRAIN
    fp8_recipe: str | None = None
    fp8_param_gather: bool | None = None
    optimizer: Optimizer = ADAM
    padded: str = ""


class NamedModel(NamedTuple):
    """A model that arguments name and of which they state no sizes.

    ``argument`` has the ``path``; ``kind_argument`` with the value ``kind`` builds models of the Hugging Face ``types``.
    """

    argument: str
    path: str
    kind_argument: str
    kind: str
    types: tuple[str, ...]


class NamedReader(NamedTuple):
    """How jobs are read of arguments that name a model: its name, and the job once its shape is known."""

    model: Callable[[Sequence[str]], NamedModel]
    read_job: Callable[[Sequence[str], int | None, ModelShape], ReadJob]


def untold_task(name: str, tasks: Sequence[Task], workload: Workload) -> tuple[str, ...]:
    """A sentence where a framework's program does not start the job's task, and would train other weights."""
    task = workload.training.task.name
    if task in tasks:
        return ()
    return (Sentence("Not the same task: {} is written for {}, not {}.", name, joined(", ", tasks), task),)


def uneven_fine_tune(workload: Workload) -> str | None:
    """The task of a framework whose fine-tuning alone packs samples, or leaves them short."""
    task = workload.training.task.name
    return Sentence("training.task {}", task) if task is Task.SFT else None


def untold_optimizer(name: str, optimizers: Sequence[str], workload: Workload, *, types: bool = False) -> tuple[str, ...]:
    """A sentence where a framework's program has another optimizer than the job, and would train other weights.

    ``types``: it has one whose states have types of their own.
    """
    optimizer = workload.training.optimizer.name
    if optimizer in optimizers:
        typed = workload.training.optimizer.state_types is not None and not types
        return (Sentence("{} has no optimizer whose states have types of their own.", name),) if typed else ()
    known = joined(", ", optimizers)
    return (Sentence("Not the same optimizer: {} trains with {}, not with {}.", name, known, optimizer),)


def only_pretraining(workload: Workload) -> tuple[str, ...]:
    """A sentence on any other task, for a framework that can be told every model."""
    return untold_task(Sentence("the program"), (Task.PRETRAIN,), workload)


class EnvironmentFaults(NamedTuple):
    """Sentences on environment variables with which a program does not start, and on those that a script leaves open."""

    refused: Sequence[str] = ()
    doubts: Sequence[str] = ()


def nothing_by_tensor(_workload: Workload, _whole: ParallelStrategy) -> Iterable[ParallelStrategy]:
    """The plans by tensor of a framework whose files say none."""
    return ()


@dataclass(frozen=True)
class Framework:
    """One release of a training framework.

    ``target``: name, release and devices. ``release``: its arguments; ``table``: how they map to parts of a plan. ``rules`` apply
    to its plans in addition to physics. ``nearest``: the nearest strategy that it can express, with a sentence for each replaced
    setting; ``write``: the arguments of that strategy. ``read``: the strategy of given arguments, with the number of devices if
    they do not say it; ``read_job``: the whole job (both raise ``ReadingError``). ``purposes``: the purpose of each environment
    variable. ``untold``: sentences on parts of the model that the release cannot express, and on a task that it does not start,
    so that it would train something else. ``misstated``: sentences on numbers of the model that it cannot be told; layers and
    cost are the same. ``mispacked``: sentences on packed samples that it would train wrongly, so that no plan of them is offered.
    ``uneven``: by what its launch file packs samples whose lengths are not stated, or leaves them as short as they are; ``None``
    where it does not. ``batch_argument``: the argument of the global batch, which follows from the plan where it is not given.
    ``refused_at_start``: a sentence for each combination of arguments that its program refuses before it trains;
    ``environment_faults``: of arguments beside exported variables, on a product.
    ``unpriced``: sentences on what the framework does for such a job beside the price. ``placements``: the
    possible placements of layers; ``merged_chunks``: those under ``moe_comm_overlap`` with virtual stages, if different.
    ``cautions``: what is legal and only a page warns of. ``file``: text of a launch file with
    ``suffix``, from release, purposes and an entry of ``launch_block``. ``forms``: the forms of scripts that are read, if not
    ``suffix``. ``suffix_of``: the suffix of a file with given arguments, if it is not always the same. ``named``: for files that
    name a model and state no sizes; ``read_job`` then raises. ``unwritable``: sentences on a plan that is so far from all that
    the framework runs that no file is written. ``by_tensor``: the plans by tensor that its files can say, of a
    strategy that keeps everything.
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
    fixed: tuple[Fixed, ...]
    merged_chunks: Placements | None = None
    cautions: tuple[Caution, ...] = ()
    untold: Callable[[Workload], tuple[str, ...]] = only_pretraining
    misstated: Callable[[Workload], tuple[str, ...]] = lambda _workload: ()
    mispacked: Callable[[Workload], tuple[str, ...]] = lambda _workload: ()
    uneven: Callable[[Workload], str | None] = lambda _workload: None
    batch_argument: str | None = None
    refused_at_start: Callable[[Given], list[str]] = lambda _given: []
    environment_faults: Callable[[Given, Mapping[str, str], HardwareProfile], EnvironmentFaults] = (
        lambda _given, _exported, _profile: EnvironmentFaults()
    )
    unpriced: Callable[[Workload], tuple[str, ...]] = lambda _workload: ()
    forms: tuple[str, ...] = ()
    suffix_of: Callable[[Sequence[str]], str] | None = None
    named: NamedReader | None = None
    unwritable: Callable[[Workload, ParallelStrategy], tuple[str, ...]] = lambda _workload, _strategy: ()
    by_tensor: Callable[[Workload, ParallelStrategy], Iterable[ParallelStrategy]] = nothing_by_tensor

    @property
    def name(self) -> str:
        """The name, as in ``software.target``."""
        return self.target.name
