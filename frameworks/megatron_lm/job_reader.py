"""Reads arguments of the Megatron family as a whole job: model, batch, precision and strategy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cost_models.shapes.precision import RECIPES
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.training_task import PRETRAIN, Task, TrainingTask
from cost_models.shapes.workload import ModelShape, MoeShape
from documents.bounds import MAX_LAYERS
from documents.quantities import gibibytes
from documents.sentences import Sentence, joined
from frameworks.framework import ROWS_UNSAID, ReadingError, ReadJob
from frameworks.megatron_lm import fully_sharded, host_optimizer, hybrid, offload
from frameworks.megatron_lm.balance import BIAS, FORCING, LOSS, LOSSES
from frameworks.megatron_lm.dialect import Dialect
from frameworks.megatron_lm.model_table import MODEL_0_12
from frameworks.megatron_lm.optimizer import read_optimizer, types_on_host
from frameworks.megatron_lm.reader import Reading
from frameworks.megatron_lm.table import SFT
from frameworks.model_facts import ModelTable
from frameworks.physics.memory import BESIDE_SWAPS
from frameworks.release import Kind, Release, problems, values_of
from frameworks.table import Table
from frameworks.unread import UNEVEN, Unread, assumed, unread

BATCH = "global-batch-size"
NEEDED = ("num-layers", "hidden-size", "num-attention-heads")
STATED_ROWS, TOKENIZERS = ("padded-vocab-size", "pad-vocab-size-to", "vocab-size"), ("tokenizer-model", "tokenizer-name-or-path")
GATHERS, REUSES_BUFFER = "fp8-param-gather", "reuse-grad-buf-for-mxfp8-param-ag"
FEWEST_ROWS = 1024  # a smaller multiple is padding; from here on it is the number of embedding rows
_FREQUENCIES = 64  # "every n-th layer" is tried up to this


def read(dialect: Dialect, arguments: Sequence[str], num_devices: int | None) -> ParallelStrategy:
    """The strategy; unknown arguments and rejected values are skipped."""
    return Reading(dialect.release, dialect.table, arguments, num_devices).strategy()


def read_job(dialect: Dialect, arguments: Sequence[str], num_devices: int | None) -> ReadJob:
    """The job, with what was not understood."""
    reading = JobReading(dialect.release, dialect.table, arguments, num_devices)
    reading.models = dialect.models
    return reading.job()


NO_MASK, INTER_DOCUMENT = "no-create-attention-mask-in-dataloader", "dataloader-inter-document-masking"
LEAST_MASK_BYTES = 64 * 2**20  # a smaller mask is within the error of the memory


class JobReading(Reading):
    """Arguments of one release, read as a job. ``models``: the table for the model."""

    models: ModelTable = MODEL_0_12

    def __init__(self, release: Release, table: Table, arguments: Sequence[str], num_devices: int | None) -> None:
        super().__init__(release, table, arguments, num_devices)
        self.unread: list[Unread] = []
        self.offloads = False

    def job(self) -> ReadJob:
        """The job; raises ``ReadingError`` if no model is described, or if a number is out of bounds."""
        notes = self.refused()
        model = self.model(notes)
        strategy = self.by_tensor(model, self.strategy())
        return ReadJob(
            model,
            strategy,
            self.number("seq-length", low=1),
            self.number(BATCH, low=1) or strategy.micro_batch_size * strategy.dp,  # [megatron-0.12, arguments.py]
            self.precision(),
            (*notes, *self.masks(), *assumed(self.written)),
            self.balance(model, notes),
            self.not_understood(),
            tuple(name for name in UNEVEN if name in self.written),
            0 if any(self.number(name) for name in STATED_ROWS if name in self.release.arguments) else self.vocab_multiple(),
            next((str(self.value(name)) for name in TOKENIZERS if name in self.given), ""),
            (*self.doubts_of_mask(), *host_optimizer.doubts_of_overlap(self.given, self.table.switches)),
            self.builds_mask(),
            task=self.task(),
            fp8_recipe=self.recipe(),
            fp8_param_gather=self.gathers_eight_bits(),
            optimizer=read_optimizer(self.release, self.value),
        )

    def task(self) -> TrainingTask:
        """What the arguments train."""
        return TrainingTask(Task.SFT) if SFT in self.release.arguments and self.on(SFT) else PRETRAIN

    def builds_mask(self) -> bool:
        """Whether the data loader builds a mask, as it does unless it is told not to [megatron-0.12, arguments.py]."""
        return not (self.on(NO_MASK) or INTER_DOCUMENT in self.written)

    def doubts_of_mask(self) -> tuple[str, ...]:
        """A sentence if the data loader builds the mask of a long sequence.

        It takes 4 bytes an entry while a worker builds it, then one for each sample, there and on the device [megatron-0.12,
        gpt_dataset.py].
        """
        entries = (self.number("seq-length", low=1) or 0) ** 2
        on_device = entries * self.strategy().micro_batch_size
        if not self.builds_mask() or on_device < LEAST_MASK_BYTES:
            return ()
        return (
            Sentence(
                "The data loader builds a mask of sequence x sequence: {} of host memory in each worker and the time to move it, "
                "which are not priced, and for each micro batch {} on each device of the first and last stage, which is; --{} "
                "leaves it out, and attention is causal without it.",
                gibibytes(4 * entries + on_device),
                gibibytes(on_device),
                NO_MASK,
            ),
        )

    def not_understood(self) -> tuple[Unread, ...]:
        """Arguments on which the price depends and that are not understood."""
        found = (*unread(self.release, self.written), *self.unread, *fully_sharded.unpriced(self.release, self.value))
        beside = Sentence("beside an optimizer on the host it has no price")
        found = (*found, *(Unread(name, beside) for name in types_on_host(self.release, self.value)))
        if self.symbols:
            found = tuple(entry for entry in found if not self.is_of_single_blocks(entry.name))
        shares = REUSES_BUFFER in self.release.arguments and self.on(REUSES_BUFFER)
        if self.gathers_eight_bits() and self.recipe() == "mxfp8" and not shares:
            found = (*found, Unread(GATHERS, Sentence("without --{} its weights are also held in 16 bits", REUSES_BUFFER)))
        priced = {offload.SWITCH} if self.offloads else set()
        if self.on(host_optimizer.SWITCH):  # which needs it, and keeps its states in FP32
            priced.add(host_optimizer.AWARE)
        elif host_optimizer.FRACTION in self.given:
            priced.add(host_optimizer.FRACTION)
        return tuple(entry for entry in found if entry.name not in priced)

    def is_of_single_blocks(self, name: str) -> bool:
        """Whether an argument is understood in a model whose layers have one block each."""
        if name == "spec":
            return tuple(self.values(name)) in hybrid.STACKS
        if name == "position-embedding-type":
            return bool(self.value(name) == "none")
        return name in (hybrid.FORMER, "is-hybrid-model", *hybrid.NUMBERS)

    def by_tensor(self, model: ModelShape, strategy: ParallelStrategy) -> ParallelStrategy:
        """The strategy with the inputs that go to the host as a plan by tensor, where one says them."""
        if offload.SWITCH not in self.release.arguments or not self.on(offload.SWITCH):
            return strategy
        plan = offload.plan_of(model, self.values(offload.MODULES), strategy.pp, strategy.vpp)
        beside = strategy.recompute is not Recompute.FULL and not strategy.recompute_modules & ~BESIDE_SWAPS
        if plan is None or not beside or self.value(offload.FRACTION) != 1.0 or self.precision() not in ("bf16", "fp16"):
            return strategy
        self.offloads = True
        return replace(strategy, tensor_plan=plan)

    def refused(self) -> list[str]:
        """A sentence for each combination that the framework rejects, then for each skipped token."""
        return [*problems(self.release, self.given), *self.stray]

    def masks(self) -> list[str]:
        """A sentence for each kind of dropout, whose masks and time are not priced; Megatron's default is 0.1."""
        names = ("attention-dropout", "hidden-dropout")
        return [
            Sentence("{} {} is priced as 0, which keeps no masks.", name, self.value(name)) for name in names if self.value(name)
        ]

    def balance(self, model: ModelShape, notes: list[str]) -> str | None:
        """The router's balancing method, if arguments say more than the bias that the model already has."""
        if model.moe is None or model.moe.capacity_factor:
            return None
        if any(name in self.release.arguments and self.on(name) for name in FORCING):
            return RouterBalance.FORCED
        if LOSS not in self.given or self.on(BIAS):
            return None
        losses = values_of(self.release, self.given, LOSS)
        return next((LOSSES[name].value for name in losses if name in LOSSES), None)

    def precision(self) -> str:
        """The precision of matmuls."""
        fewer = [name for name in ("fp8-format", "fp4-format") if name in self.release.arguments and self.value(name)]
        if len(fewer) > 1:
            raise ReadingError(Sentence("fp8-format and fp4-format exclude each other [megatron-0.19, arguments.py]"))
        if self.value("fp8-format"):
            return "hif8" if self.value("fp8-format") == "hif8" else "fp8"
        if fewer:
            return "nvfp4"
        return next((name for name in ("bf16", "fp16") if self.on(name)), "fp32")

    def recipe(self) -> str | None:
        """How operands in 8 bits are scaled; ``None`` in other precisions, and for a recipe that is not priced."""
        stated = str(self.value("fp8-recipe"))
        return stated if self.value("fp8-format") and stated in RECIPES else None

    def gathers_eight_bits(self) -> bool | None:
        """Whether weights are gathered in 8 bits; ``None`` where the arguments do not decide it."""
        return self.on(GATHERS) if self.value("fp8-format") else None

    def layers(self) -> int:
        """Layers of the model."""
        layers = len(hybrid.plain(self.symbols)) if self.symbols else self.number("num-layers", low=1) or 1
        if layers > MAX_LAYERS:
            raise ReadingError(Sentence("num-layers {} is not allowed; give 1 to {}", layers, MAX_LAYERS))
        return layers

    def model(self, notes: list[str]) -> ModelShape:
        """The model, with notes on facts that the arguments leave open."""
        needed = [name for name in NEEDED if not (self.symbols and name == "num-layers")]
        if missing := [name for name in needed if self.value(name) is None]:
            raise ReadingError(Sentence("{} is not given, and a model needs {}", missing[0], joined(", ", NEEDED)))
        for fact in self.models.facts:
            argument = self.release.arguments.get(fact.number)
            if argument is not None and argument.kind is Kind.INTEGER and not argument.many:
                self.number(fact.number)
        known: dict[str, Any] = {"name": "", "num_layers": self.layers(), "vocab_size": self.rows(notes), **self.widths()}
        if self.symbols:
            known |= self.single_blocks()
        elif self.number("num-experts"):
            known |= self.expert_layers()
        return self.models.read(self.release, self.given, known)

    def single_blocks(self) -> Mapping[str, Any]:
        """Fields of a model whose layers have one block each."""
        if "E" in self.symbols and not self.number("num-experts"):
            raise ReadingError(Sentence("{} has layers E, and num-experts is not given", hybrid.PATTERN))
        if hybrid.predicts(self.symbols):
            self.unread.append(
                Unread(hybrid.PATTERN, Sentence("multi-token prediction is not priced beside layers of one block"))
            )
        own = {"hybrid_layer_pattern": self.symbols}
        return own | hybrid.known(self.symbols, self.number("hidden-size") or 0, self.number("mamba-head-dim", low=1) or 1)

    def widths(self) -> Mapping[str, Any]:
        """Defaults of the framework for widths that are not given [megatron-0.12, arguments.py]."""
        hidden = self.number("hidden-size", low=1) or 1
        dense = self.number("ffn-hidden-size") or (int(4 * hidden * 2 / 3) // 64 * 64 if self.on("swiglu") else 4 * hidden)
        return {"ffn_hidden_size": dense, "moe.expert_ffn_hidden_size": dense}

    def vocab_multiple(self) -> int:
        """The tokenizer's rows are padded to a multiple of this."""
        return (self.number("make-vocab-size-divisible-by", low=1) or 1) * self.tp

    def rows(self, notes: list[str]) -> int:
        """Rows of the embedding; 0 if only the tokenizer knows."""
        multiple = self.vocab_multiple()
        padded = (self.number(name, low=1) for name in STATED_ROWS[:2] if name in self.release.arguments)
        stated = next(filter(None, padded), None)
        size = self.number("vocab-size", low=1)
        if stated or size:
            return stated or -(-(size or 1) // multiple) * multiple
        if multiple >= FEWEST_ROWS * self.tp:
            return multiple
        notes.append(ROWS_UNSAID)
        return 0

    def expert_layers(self) -> Mapping[str, Any]:
        """The MoE layers as a number of leading dense layers and a frequency."""
        pattern = self.pattern()
        for frequency in range(1, _FREQUENCIES):
            for leading in dict.fromkeys((pattern.index(1) - frequency + 1, 0)) if 1 in pattern else ():
                if leading >= 0 and expert_pattern(leading, frequency, len(pattern)) == pattern:
                    return {"moe.num_leading_dense_layers": leading, "moe.moe_layer_freq": frequency}
        order = Sentence("no order of dense and MoE layers like {} is priced", str(self.value("moe-layer-freq"))[:80])
        self.unread.append(Unread("moe-layer-freq", order))
        return {}

    def pattern(self) -> list[int]:
        """1 for each MoE layer, 0 for each dense one."""
        text, layers = str(self.value("moe-layer-freq")), self.layers()
        if re.fullmatch(r"\d{1,5}", text):
            return [int(index % max(int(text), 1) == 0) for index in range(layers)]
        try:
            pattern = repeated(text)
        except ReadingError as error:
            raise ReadingError(Sentence("--moe-layer-freq: {}", error)) from None
        if len(pattern) != layers or set(pattern) - {0, 1}:
            raise ReadingError(Sentence("moe-layer-freq {!r} does not say of {} layers which are MoE", text[:80], layers))
        return pattern


def expert_pattern(leading: int, frequency: int, layers: int) -> list[int]:
    """The MoE layers of a shape: 1 for each MoE layer, 0 for each dense one."""
    shape = ModelShape("", layers, 1, 1, 1, 1, 1, 1, moe=MoeShape(1, 1, 1, 0, 0, leading, frequency))
    return [int(is_moe) for is_moe in shape.moe_layers()]


def repeated(text: str) -> list[int]:
    """A list such as ``([0]*3+[1]*58)*1``: lists of whole numbers, added and repeated. Nothing is executed."""
    tokens = re.findall(r"\d{1,6}|[][()*+,]", text)
    if "".join(tokens) != re.sub(r"\s", "", text) or len(tokens) > 4 * MAX_LAYERS:
        raise ReadingError(Sentence("{!r} is not a list of numbers", text[:80]))
    position = 0

    def take(wanted: str = "") -> str:
        nonlocal position
        token = tokens[position] if position < len(tokens) else ""
        if not token or (wanted and token != wanted):
            raise ReadingError(Sentence("{!r} is not a list of numbers", text[:80]))
        position += 1
        return token

    def part(depth: int) -> list[int]:
        if depth > 8:
            raise ReadingError(Sentence("{!r} is nested too deeply", text[:80]))
        if take() == "(":
            items = whole(depth + 1)
            take(")")
        elif tokens[position - 1] == "[":
            items = [_digit(take(), text)]
            while position < len(tokens) and tokens[position] == ",":
                take()
                items.append(_digit(take(), text))
            take("]")
        else:
            raise ReadingError(Sentence("{!r} is not a list of numbers", text[:80]))
        while position < len(tokens) and tokens[position] == "*":
            take()
            times = _digit(take(), text)
            if len(items) * times > MAX_LAYERS:
                raise ReadingError(Sentence("{!r} has more than {} layers", text[:80], MAX_LAYERS))
            items = items * times
        return items

    def whole(depth: int) -> list[int]:
        items = part(depth)
        while position < len(tokens) and tokens[position] == "+":
            take()
            items = items + part(depth)
        return items

    found = whole(0)
    if position < len(tokens) or len(found) > MAX_LAYERS:
        raise ReadingError(Sentence("{!r} is not a list of at most {} numbers", text[:80], MAX_LAYERS))
    return found


def _digit(token: str, text: str) -> int:
    if not token.isdigit():
        raise ReadingError(Sentence("{!r} is not a list of numbers", text[:80]))
    return int(token)
