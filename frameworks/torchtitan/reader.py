"""Reads options of torchtitan as a strategy; missing ones have the release's defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.strategy import CpAlgo, Dispatcher, LayerLayout, ParallelStrategy, Recompute, Schedule
from cost_models.shapes.switches import FUSED_KERNELS, Feature
from documents.sentences import Sentence, joined
from frameworks.framework import ReadingError, ReadJob
from frameworks.fully_sharded import Checkpoints
from frameworks.options import OptionValues, as_given, options_of
from frameworks.rule import either, unless_default
from frameworks.table import features_read
from frameworks.torchtitan.checkpoints import BY_OPERATORS, Mode, checkpoints_of
from frameworks.torchtitan.dialect import V0_2
from frameworks.torchtitan.flavors import UNREAD_FAMILIES, Flavor
from frameworks.torchtitan.stages import counts_of, layout_from, usual_counts
from frameworks.torchtitan.table import (
    BATCH,
    BY_OPERATOR,
    COMPILE,
    COMPILED,
    OPTION,
    PARALLELISM,
    PARTS,
    REPLICAS,
    RESHARD,
    SHARDS,
    STAGES,
)
from frameworks.unread import Unread, unread


class Reading(OptionValues):
    """Options of 0.2 by path, with values as TOML reads them; an empty list is a value that is not given."""

    dialect = V0_2
    family, size = "model.name", "model.flavor"

    def __init__(self, arguments: Sequence[str], num_devices: int | None) -> None:
        given = options_of(arguments)
        super().__init__(self.dialect.release, {name: value for name, value in given.items() if value != []})
        self.table = self.dialect.table
        self.flavor = self._flavor()
        self.tp, self.pp, self.cp = (self.number(self.table.columns[name]) for name in ("tp", "pp", "cp"))
        self.replicas = self.number(REPLICAS)
        self.shards = self._shards(num_devices)
        self.dp = self.replicas * self.shards
        self.parts = self.options.get(STAGES)
        self.schedule_name = str(self.value(self.table.columns["schedule"]))
        self.layout = self._layout()
        self.compiles_layers, self.compiles_loss = (name in self._compiled(given) for name in PARTS)

    def _flavor(self) -> Flavor:
        name, flavor = str(self.value(self.family)), str(self.value(self.size))
        found = self.dialect.flavors.get((name, flavor))
        if found is None and name in UNREAD_FAMILIES:
            raise ReadingError(Sentence("{} {} has no price: {}", self.family, name, UNREAD_FAMILIES[name]))
        if found is None:
            known = joined(", ", (Sentence("{} {}", *each) for each in self.dialect.flavors))
            raise ReadingError(
                Sentence("model {} {} is no flavor that is known here; give one of {}", name[:80], flavor[:80], known)
            )
        if found.has_chunks:
            raise ReadingError(Sentence("{} {} has attention within chunks, which has no price", self.size, flavor))
        return found

    def _shards(self, num_devices: int | None) -> int:
        """``data_parallel_shard_degree``; -1 is what the others leave of the devices [torchtitan-0.2, parallel_dims.py:50]."""
        given, others = self.number(SHARDS, low=-1), self.replicas * self.tp * self.pp * self.cp
        if given > 0:
            return given
        if given == 0:
            raise ReadingError(Sentence("{} 0 is neither a number of ranks nor -1", SHARDS))
        if num_devices is None:
            raise ReadingError(Sentence("{} is -1, what the devices leave; --devices states their number", SHARDS))
        if num_devices % others:
            raise ReadingError(Sentence("{} devices do not divide over {} ranks of the other degrees", num_devices, others))
        return num_devices // others

    def _layout(self) -> LayerLayout:
        layers = self.flavor.model.num_layers
        if self.pp == 1:
            return ((layers,),)
        if self.schedule_name not in self.table.schedules.values():
            raise ReadingError(
                Sentence(
                    "{} {} has no price; give {}",
                    self.table.columns["schedule"],
                    self.schedule_name[:80],
                    either([*self.table.schedules.values()]),
                )
            )
        if self.parts is not None:
            return layout_from(counts_of(self.parts, layers, self.dialect.head), self.pp)
        less = [self.number(f"{PARALLELISM}.pipeline_parallel_{end}_stage_less_layers", low=0) for end in ("first", "last")]
        stages = self.pp * (1 if self._is_single else 2)  # [torchtitan-0.2, pipeline_parallel.py:104]
        if self.value(f"{PARALLELISM}.pipeline_parallel_layers_per_stage") is not None:
            each = self.number(f"{PARALLELISM}.pipeline_parallel_layers_per_stage")
            stages = -(-(layers + sum(less)) // each)
        return layout_from(usual_counts(layers, stages, *less), self.pp)

    @property
    def _is_single(self) -> bool:
        """Whether the schedule has one stage a rank."""
        return not any(name == self.schedule_name and schedule.rules.in_groups for schedule, name in self.table.schedules.items())

    def _compiled(self, given: Mapping[str, Any]) -> list[str]:
        """The compiled parts; none with an empty list."""
        if not self.value(COMPILE):
            return []
        parts = given.get(COMPILED, list(PARTS))
        if not isinstance(parts, list) or not {*map(str, parts)} <= {*PARTS}:
            raise ReadingError(Sentence("{} {} is not allowed; give {}", COMPILED, str(parts)[:80], either(PARTS)))
        return parts

    @property
    def etp(self) -> int:
        """Ranks that share an expert, where experts are divided over ranks."""
        return self.number(self.table.columns["etp"])

    @property
    def seq_length(self) -> int:
        """Tokens of a sample."""
        return self.number("training.seq_len")

    @property
    def loss_chunks(self) -> int:
        """Chunks of the loss, 0 for a loss of all tokens at once."""
        return 0

    @property
    def at_once(self) -> int:
        """Samples of a data-parallel rank in one pass of the pipeline, or of the layers without one."""
        return self.number(self.table.columns["micro_batch_size"])

    @property
    def micro_batch_size(self) -> int:
        """Samples of a micro batch."""
        if self.pp == 1:
            return self.at_once
        size = self.number(f"{PARALLELISM}.pipeline_parallel_microbatch_size")
        if self.at_once % size:
            raise ReadingError(Sentence("local_batch_size {} does not divide by micro batches of {}", self.at_once, size))
        return size

    @property
    def global_batch_size(self) -> int:
        """Samples of a step [torchtitan-0.2, train.py:200]. A pipeline that runs several times a step has no price."""
        given, once = self.number(BATCH, low=-1), self.at_once * self.dp
        if given <= 0:
            return once
        if given % once:
            raise ReadingError(Sentence("global_batch_size {} does not divide by {} x {}", given, self.at_once, self.dp))
        if self.pp > 1 and given != once:
            raise ReadingError(
                Sentence("global_batch_size {} runs the pipeline {} times a step, which has no price", given, given // once)
            )
        return given

    def mode(self) -> Mode:
        """The activation checkpoints."""
        mode = str(self.value(self.table.columns["recompute"]))
        if mode != "selective":
            return Mode(mode if mode == "full" else "none")
        option = str(self.value(OPTION))
        if option == BY_OPERATORS.option:
            return BY_OPERATORS
        if not option.isdecimal() or len(option) > 6:
            raise ReadingError(Sentence("selective_ac_option {!r} is not allowed; give op or a number of layers", option[:80]))
        return Mode("selective", option)

    def strategy(self) -> ParallelStrategy:
        """The strategy."""
        model, pp, vpp = self.flavor.model, len(self.layout[0]), len(self.layout)
        ep = self.number(self.table.columns["ep"]) if model.moe else 1
        named = next((s for s, name in self.table.schedules.items() if name == self.schedule_name), Schedule.NONE)
        mode = self.mode()
        by_operator = mode == BY_OPERATORS
        found = Checkpoints(Recompute.SELECTIVE) if by_operator else Checkpoints(*checkpoints_of(mode, self.layout))
        schedule = canonical_schedule(pp, vpp, named)
        if pp > 1 and vpp > 1 and self._is_single:
            raise ReadingError(Sentence("{} has one stage a rank, and the file has {}", self.schedule_name, vpp))
        given = {name: as_given(value) for name, value in self.options.items() if name in self.release.arguments}
        features = features_read(self.table, self.release, given, self.value) | (self.table.implied & ~FUSED_KERNELS)
        return ParallelStrategy(
            tp=self.tp,
            pp=pp,
            dp=self.dp,
            cp=self.cp,
            ep=ep,
            etp=(self.tp if ep == 1 else self.etp) if model.moe else 1,
            vpp=vpp,
            micro_batch_size=self.micro_batch_size,
            sequence_parallel=self.tp > 1,
            cp_algo=CpAlgo.KV_ALLGATHER if self.cp > 1 else CpAlgo.NONE,
            schedule=schedule,
            zero_stage=self._zero_stage(),
            optimizer_shard_size=self.shards * self.cp if self.replicas > 1 else 0,
            dispatcher=Dispatcher.ALLTOALL if model.moe else Dispatcher.NONE,
            recompute=found.recompute,
            recompute_method=found.method,
            recompute_num_layers=found.num_layers,
            recompute_layers_per_stage=found.layers_per_stage if found.recompute is Recompute.FULL else None,
            recompute_modules=BY_OPERATOR if by_operator else RecomputeModule(0),
            features=features | (FUSED_KERNELS if self.compiles_layers else Feature(0)),
            layer_layout=unless_default(self.layout, schedule) if pp > 1 else None,
        )

    def job(self, assumed: Iterable[str], not_priced: Iterable[Unread], uneven: tuple[str, ...]) -> ReadJob:
        """The job, with sentences on what is priced in another form, and what the price does not have beside unread options."""
        forced = bool(self.value("debug.moe_force_load_balance")) and self.flavor.model.moe is not None
        return ReadJob(
            self.flavor.model,
            self.strategy(),
            self.seq_length,
            self.global_batch_size,
            "bf16",
            tuple(assumed),
            router_balance=RouterBalance.FORCED if forced else None,
            unread=(*not_priced, *unread(self.release, {name: as_given(value) for name, value in self.options.items()})),
            torch_compile=self.compiles_layers,
            compiled_loss=self.compiles_loss,
            loss_chunks=self.loss_chunks,
            uneven=uneven,
        )

    def _zero_stage(self) -> int:
        policy = self.value(RESHARD)
        if policy == "default":  # [torchtitan-0.2, models/llama3/infra/parallelize.py:327]
            return 2 if self.pp > 1 else 3
        return 3 if policy == "always" else 2
