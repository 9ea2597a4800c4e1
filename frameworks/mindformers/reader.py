"""Reads options of MindFormers as a strategy; missing ones have the release's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, LayerLayout, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import Tensor, TensorPlan
from documents.bounds import MAX_NUMBER
from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.mindformers import cells
from frameworks.mindformers.models import CLASSES
from frameworks.mindformers.selection import BY_MODULE, WHOLE, Counts, plan_of
from frameworks.mindformers.table import EXPERT_KEYS, MODEL, RELEASE, RING_ATTENTION, TABLE
from frameworks.options import Options, as_given, options_of
from frameworks.rule import unless_default
from frameworks.table import features_read, key_of

WHOLLY, SELECTED = "recompute_config.recompute", "recompute_config.select_recompute"
GATHERED = "recompute_config.select_comm_recompute"
SHARDED = "parallel.enable_parallel_optimizer"
_SWAP = "swap_config.swap"  # with it, lists have numbers of layers
Found = TypeVar("Found")


class Selected(NamedTuple):
    """What layers recompute that are not recomputed whole: modules, or else tensors of all layers; and keys that say more."""

    modules: RecomputeModule
    plan: TensorPlan | None = None
    unread: tuple[str, ...] = ()


def _selection(values: Mapping[str, Any], key: str, of: Callable[[Any], Found]) -> Found:
    """A reading of one of the values. Raises ``ReadingError``."""
    try:
        return of(values[key])
    except ValueError:
        raise ReadingError(Sentence("{} {} is no selection of layers", key, str(values[key])[:80])) from None


def _beyond(rows: Counts, others: Counts) -> list[list[int]]:
    """Layers of each virtual stage among the first ``rows`` that are not among the first ``others``."""
    return [[max(n - m, 0) for n, m in zip(row, other, strict=True)] for row, other in zip(rows, others, strict=True)]


def read(arguments: Sequence[str], _num_devices: int | None = None) -> ParallelStrategy:
    """The strategy of ``path=value`` arguments; its degrees give the number of devices."""
    return Reading(options_of(arguments)).strategy()


def current_names(options: Options) -> tuple[Options, list[str]]:
    """The options under the release's names, and a sentence for each value that is given twice and differs."""
    renamed = {name: value for name, value in options.items() if name not in RELEASE.former}
    twice: list[str] = []
    for name, value in options.items():
        now = RELEASE.former.get(name)
        if now is not None and renamed.setdefault(now, value) != value:
            twice.append(Sentence("{} {} is passed over: {} is {}", name, str(value)[:40], now, str(renamed[now])[:40]))
    return renamed, twice


class Reading:
    """Options by path, with values as JSON or YAML reads them."""

    def __init__(self, options: Options) -> None:
        self._options, self.twice = current_names(options)
        self.trained_by = CLASSES.get(str(self._options.get(f"{MODEL}.model_type")))
        self.legacy = self.value("use_legacy") is not False
        self.dp, self.tp, self.pp, self.cp = (self.column(name) for name in ("dp", "tp", "pp", "cp"))
        interleaved = self.value("parallel.pipeline_config.pipeline_interleave")
        self.vpp = self.column("vpp") if interleaved else 1
        named = self.value(TABLE.columns["schedule"])
        self.schedule = canonical_schedule(self.pp, self.vpp, key_of(TABLE.schedules, named, Schedule.NONE))

    def value(self, name: str) -> Any:
        """The value, given or by default; null removes the default of a model's class."""
        if self._options.get(name) is not None:
            return self._options[name]
        if self.trained_by is not None and name.startswith(f"{MODEL}."):
            key = name.removeprefix(f"{MODEL}.")
            if key in self.trained_by.defaults:
                return None if name in self._options else self.trained_by.defaults[key]
        argument = RELEASE.arguments.get(name)
        return argument.default if argument else None

    def is_given(self, name: str) -> bool:
        """Whether the options contain it."""
        return self._options.get(name) is not None

    def number(self, name: str, low: int = 0) -> int | None:
        """A whole number within bounds."""
        value = self.value(name)
        if value is None:
            return None
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MAX_NUMBER:
            raise ReadingError(Sentence("{} {!r} is not allowed; give a whole number from {}", name, str(value)[:80], low))
        return value

    def column(self, field: str) -> int:
        """A field of the strategy with a number from 1 on."""
        return self.number(TABLE.columns[field], low=1) or 1

    def strategy(self) -> ParallelStrategy:
        """The strategy."""
        routed = self.routed
        algo = self._cp_algo()
        stage = self._zero_stage()
        shard = self.value(TABLE.columns["optimizer_shard_size"])
        kind, method, layers, modules, plan = self._recompute()
        layout = self._layout()
        return ParallelStrategy(
            tp=self.tp,
            pp=self.pp,
            dp=self.dp,
            cp=self.cp,
            ep=self.column("ep") if routed else 1,
            vpp=self.vpp,
            micro_batch_size=self.column("micro_batch_size") * (self.number("micro_batch_interleave_num", low=1) or 1),
            sequence_parallel=bool(self.value(TABLE.columns["sequence_parallel"])) and self.tp > 1,
            cp_algo=algo,
            ulysses_degree={CpAlgo.ULYSSES: self.cp, CpAlgo.HYBRID: self.column("ulysses_degree")}.get(algo, 1),
            schedule=self.schedule,
            zero_stage=stage,
            optimizer_shard_size=min(max(shard, 0), MAX_NUMBER) if isinstance(shard, int) else 0,
            dispatcher=self._dispatcher() if routed else Dispatcher.NONE,
            recompute=kind,
            recompute_method=method,
            recompute_num_layers=layers,
            recompute_modules=modules,
            features=self._features(stage),
            recompute_layers_per_stage=plan,
            tensor_plan=self.selected.plan,
            layer_layout=unless_default(layout, self.schedule) if layout else None,
        )

    def _cp_algo(self) -> CpAlgo:
        if self.cp == 1:
            return CpAlgo.NONE
        algo = key_of(TABLE.cp_algos, self.value(TABLE.columns["cp_algo"]), CpAlgo.KV_ALLGATHER)
        return CpAlgo.RING if algo is CpAlgo.KV_ALLGATHER and self.value(RING_ATTENTION) is True else algo

    @property
    def routed(self) -> bool:
        """Whether the model has experts."""
        return any(self.number(key) for key in EXPERT_KEYS)

    def _dispatcher(self) -> Dispatcher:
        return key_of(TABLE.dispatchers, self.value(TABLE.columns["dispatcher"]), Dispatcher.ALLTOALL)

    def _zero_stage(self) -> int:
        if not self.value(SHARDED):
            return 0
        return 2 if self.value("parallel.parallel_optimizer_config.gradient_accumulation_shard") else 1

    def _features(self, zero_stage: int) -> Feature:
        given = {n: as_given(v) for n, v in self._options.items() if n in RELEASE.arguments and v is not None}
        features = features_read(TABLE, RELEASE, given, self.value) | Feature.OVERLAP_GRAD_REDUCE
        features |= Feature.OVERLAP_PARAM_GATHER if zero_stage else Feature(0)
        if self.legacy and self.value("parallel_config.vocab_emb_dp"):
            features |= Feature.REPLICATED_EMBEDDING  # layers of use_legacy: False always split the table
        if self.halves_tokens and self.tp > 1:
            features |= Feature.FINE_GRAIN_INTERLEAVE
        return features | (Feature.OVERLAP_P2P if self.schedule.rules.in_groups else Feature(0))

    @property
    def halves_tokens(self) -> bool:
        """Whether legacy layers split the tokens of a micro batch [mindformers-1.5, models/utils.py]."""
        return self.legacy and (self.number(f"{MODEL}.fine_grain_interleave") or 1) > 1

    def _layout(self) -> LayerLayout | None:
        """The layout; ``offset`` is the number of layers of a stage beyond the even share."""
        total = self.number(f"{MODEL}.num_hidden_layers")
        predicting = self.number(f"{MODEL}.num_nextn_predict_layers") or 0
        if self.legacy and total:
            total += predicting  # the legacy layers place them as the last ones [mindformers-1.5, deepseek2_model.py]
        stages = self.pp * self.vpp
        if not total or total < stages:
            return None
        offset = self.value(TABLE.columns["layer_layout"])
        rows = offset if isinstance(offset, list) else [[offset or 0] * self.pp] * self.vpp
        if rows and not isinstance(rows[0], list):
            rows = [rows]
        flat = [item for row in rows if isinstance(row, list) for item in row]
        each = total // stages
        fits = len(rows) == self.vpp and len(flat) == stages and all(isinstance(item, int) for item in flat)
        if not fits or sum(flat) + each * stages != total or min(flat) + each < 0:
            raise ReadingError(
                Sentence("offset {} does not place {} layers on pp {} x {}", str(offset)[:80], total, self.pp, self.vpp)
            )
        counts = cells.by_rank([[each + item for item in row] for row in rows], self.schedule)
        if self.legacy:
            counts[-1][-1] = max(counts[-1][-1] - predicting, 0)
        return tuple(map(tuple, counts))

    def _recompute(self) -> tuple[Recompute, RecomputeMethod, int, RecomputeModule, tuple[int, ...] | None]:
        value = self.value(WHOLLY)
        modules = self.selected.modules
        if self.selected.plan is not None:
            return Recompute.NONE, RecomputeMethod.NONE, 0, modules, None
        if value is True:
            return Recompute.FULL, RecomputeMethod.UNIFORM, 1, modules, None
        if isinstance(value, list) and value:
            layers, plan = self._recomputed_layers(value)
            return Recompute.FULL, RecomputeMethod.BLOCK, layers, modules, plan
        return Recompute.SELECTIVE if modules else Recompute.NONE, RecomputeMethod.NONE, 0, modules, None

    @cached_property
    def selected(self) -> Selected:
        """The reading of ``select_recompute`` and ``select_comm_recompute``."""
        value, whole = self.value(SELECTED), self.value(WHOLLY)
        again = self.value(GATHERED) if self.tp > 1 and self.value(TABLE.columns["sequence_parallel"]) else None
        if whole is True or not (value or again):
            names = value if isinstance(value, bool) else map(str, value if isinstance(value, list | Mapping) else ())
            return Selected(cells.modules_of(names))
        layout = self._layout()
        if layout is None:
            raise self._without_layers()
        numbered = self.value(_SWAP) is True
        named = {SELECTED: value, GATHERED: again, WHOLLY: whole}
        found = _selection(named, SELECTED, lambda given: cells.selection(given, layout, self.schedule, numbered=numbered))
        gathered = _selection(
            named, GATHERED, lambda given: cells.gathered_again(given, layout, self.schedule, numbered=numbered)
        )
        repeated = _selection(named, WHOLLY, lambda given: cells.layers_selected(given, layout, self.schedule, numbered=numbered))
        return self._selected(found, gathered, repeated, layout)

    def _selected(self, found: cells.Selection, gathered: Counts | None, repeated: Counts, layout: LayerLayout) -> Selected:
        """Modules, if all layers are alike that are not recomputed whole; else a plan by tensor."""
        unread = [key for key, is_read in ((SELECTED, found.is_read), (GATHERED, gathered is not None)) if not is_read]
        everywhere, somewhere = RecomputeModule(0), dict[Tensor, Counts]()
        for module, rows in found.layers.items():
            if _beyond(rows, repeated) == _beyond(layout, repeated):
                everywhere |= module
            elif any(map(any, _beyond(rows, repeated))):
                somewhere[BY_MODULE[module]] = rows
        gathers = gathered is not None and any(map(any, _beyond(gathered, repeated)))
        if not (somewhere or gathers):
            return Selected(everywhere, None, tuple(unread))
        # No plan by tensor has swap, and options do not say which layers have experts.
        if self.routed or self.value(_SWAP) is True:
            unread += [key for key, some in ((SELECTED, somewhere), (GATHERED, gathers)) if some]
            return Selected(everywhere, None, tuple(unread))
        counts = somewhere | {BY_MODULE[module]: layout for module in everywhere} | {WHOLE: repeated}
        plan = plan_of(counts | ({Tensor.GATHERED_INPUT: gathered} if gathered is not None else {}), layout)
        return Selected(RecomputeModule(0), plan, tuple(unread))

    def _without_layers(self) -> ReadingError:
        return ReadingError(Sentence("num_hidden_layers is missing, or less than pp {} x {}; give the layers", self.pp, self.vpp))

    def _recomputed_layers(self, value: list[Any]) -> tuple[int, tuple[int, ...] | None]:
        """Recomputed layers of every virtual stage, or of each stage; with swap the list has layer numbers."""
        by_chunk = isinstance(value[0], list)
        counts = [count for row in (value if by_chunk else [value]) for count in row]
        if not all(isinstance(count, int) and 0 <= count <= MAX_NUMBER for count in counts):
            raise ReadingError(Sentence("recompute {} is no list of numbers of layers", str(value)[:80]))
        if not by_chunk and self.value(_SWAP) is True:
            layout = self._layout()
            if layout is None:
                raise self._without_layers()
            placed = cells.counts_of(counts, layout)
            block = cells.block_size(placed, layout)
            if block is not None:
                return block, None
            counts = [sum(stage) for stage in zip(*placed, strict=True)]
        same = by_chunk or (self.vpp == 1 and len(set(counts)) == 1)
        return max(counts), None if same else tuple(counts)
