"""One step of Megatron-LM: the launch file's arguments, and from there the framework's own code.

Arguments are parsed and validated, process groups made, model and optimizer built, and ``train_step`` called, all by the
release. Two things differ from a start: tensors hold no data, and experts get even shares of the tokens.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import sys
import time
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from execution import devices, packages, running, triton_kernels
from execution import transformer_engine as te
from execution.meters import WEIGHTS
from execution.running import calls, enter, live, meter

import torch  # isort: skip
import torch._dynamo
import torch._inductor.runtime.hints
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from execution import experts, received_shapes

KEPT = {**te.KEPT, **experts.KEPT}
ADDED = (
    *("--no-check-for-nan-in-loss-and-grad", "--rerun-mode", "disabled", "--distributed-timeout-minutes", "10"),
    *("--disable-gloo-process-groups", "--tokenizer-type", "NullTokenizer", "--mock-data"),
)
# Of the file, what a run without data has no use for; each takes one value.
DROPPED = (
    "--data-path", "--tokenizer-type", "--tokenizer-model", "--save", "--load", "--save-interval", "--split",
    "--global-batch-size", "--tokenizer-name-or-path",
)  # fmt: skip
GROUPS = {
    "_TENSOR_MODEL_PARALLEL_GROUP": "tp", "_PIPELINE_MODEL_PARALLEL_GROUP": "pp", "_CONTEXT_PARALLEL_GROUP": "cp",
    "_DATA_PARALLEL_GROUP": "dp", "_DATA_PARALLEL_GROUP_WITH_CP": "dp", "_INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP": "dp",
    "_EXPERT_MODEL_PARALLEL_GROUP": "ep", "_EXPERT_TENSOR_PARALLEL_GROUP": "etp",
    "_EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP": "ep", "_EXPERT_DATA_PARALLEL_GROUP": "expert_dp",
    "_INTRA_PARTIAL_EXPERT_DATA_PARALLEL_GROUP": "expert_dp", "_EMBEDDING_GROUP": "embedding",
    "_POSITION_EMBEDDING_GROUP": "embedding", "_MODEL_PARALLEL_GROUP": "model", "_TENSOR_AND_CONTEXT_PARALLEL_GROUP": "tp-cp",
    "_TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP": "tp-dp", "_TENSOR_AND_DATA_PARALLEL_GROUP": "tp-dp",
    "_EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP": "expert model",
}  # fmt: skip

MERGING = "mindspeed.core.transformer.moe.moe_feature.fb_overlap"
# Functions of the schedules that make a pass, in the module that calls them.
PASSES = {
    "megatron.core.pipeline_parallel.schedules": {"forward_step": "forward", "backward_step": "backward"},
    "megatron.core.pipeline_parallel.combined_1f1b": {"combined_forward_backward_step": "merged"},
    "mindspeed.core.pipeline_parallel.dualpipev.dualpipev_schedules": {
        "forward_step_with_model_graph": "forward", "forward_step_no_model_graph": "forward",
        "backward_step_with_model_graph": "backward", "backward_step": "backward",
    },
    f"{MERGING}.vpp_schedules": {"forward_step": "forward", "backward_step": "backward"},
    f"{MERGING}.no_pipelining_schedules": {"forward_step": "forward", "backward_step": "backward"},
}  # fmt: skip


def prepare(question: dict[str, Any]) -> None:
    """Import the framework once, with stand-ins for its kernels."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if not hasattr(typing, "override"):  # the release is written for Python 3.12
        typing.override = lambda method: method  # type: ignore[attr-defined]
    os.environ.update(question.get("environment", {}))
    act_as(0, question["num_processes"])
    calls.install()
    devices.install(lambda: None if meter.phase == "setup" else meter)
    modules, absent = te.modules(), dict(te.ABSENT)
    modules |= experts.modules() | triton_kernels.modules()
    packages.provide(modules, absent)
    sys.path[:0] = question["folders"]
    for name in ("megatron.training.initialize", "megatron.training.training", "pretrain_gpt"):
        importlib.import_module(name)


def act_as(rank: int, world: int) -> None:
    """Set the environment of a rank."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")


def arguments(question: dict[str, Any], added: tuple[str, ...] = ADDED) -> list[str]:
    """The file's arguments without data and tokenizer, and those of a run without them."""
    kept, words = [], list(question["arguments"])
    while words:
        word = words.pop(0)
        if word in DROPPED:
            while words and not words[0].startswith("--"):
                words.pop(0)
            continue
        kept.append(word)
    return [*kept, "--global-batch-size", str(question["global_batch_size"]), *added]


@dataclass(frozen=True)
class Variant:
    """What differs of a framework that starts as Megatron-LM does.

    ``added`` arguments, what its kernels keep, whether random states are the package's that keeps none, and what is done before
    the model is built.
    """

    added: tuple[str, ...] = ADDED
    kept: Mapping[str, str] = field(default_factory=lambda: KEPT)
    package_states: bool = True
    before_build: Callable[[Any], None] = lambda _args: None


def run(question: dict[str, Any], rank: int, stages: list[str], variant: Variant | None = None) -> dict[str, Any]:
    """The counts of one rank."""
    variant = variant or Variant()
    began = time.process_time()
    act_as(rank, question["num_processes"])
    sys.argv = ["pretrain_gpt.py", *arguments(question, variant.added)]
    sys.stdout = sys.stderr
    with devices.OnProcessor():
        stages.append("parse")
        entry = importlib.import_module("pretrain_gpt")
        args = _parsed(stages)
        stages.append("groups")
        dist.init_process_group("fake", rank=rank, world_size=question["num_processes"], store=FakeStore())
        _groups(entry)
        stages.append("model")
        with FakeTensorMode(allow_non_fake_inputs=True), meter:
            _seed(args, variant.package_states)
            if args.num_experts:
                experts.balance(args)
            variant.before_build(args)
            model, optimizer, scheduler = _built(args, entry)
            found: dict[str, Any] = {"num_microbatches": _microbatches(), "parameters": [_parameters(chunk) for chunk in model]}
            seconds = {"built": round(time.process_time() - began, 1)}
            stages.append("step")
            found |= _step(args, entry, model, optimizer, scheduler)
            seconds["step"] = round(time.process_time() - began, 1)
    return found | {
        "calls": calls.by_group(),
        "flops": dict(meter.flops),
        "assumed": dict(meter.assumed + running.answers),
        "kernels": {
            name: {"count": count, "keeps": variant.kept.get(name, "nothing of its own" if name.startswith("Triton") else "")}
            for name, count in running.kernels.items()
        },
        "operators": meter.operators,
        "seconds": seconds,
    }


def _parsed(stages: list[str]) -> Any:
    initialize = importlib.import_module("megatron.training.initialize")
    module = importlib.import_module("megatron.training.arguments")
    first = initialize if hasattr(initialize, "parse_args") else module
    args = first.parse_args(None, False)
    stages.append("validate")
    args = first.validate_args(args, {"tokenizer_type": "GPT2BPETokenizer"}) or args
    stages.append("globals")
    importlib.import_module("megatron.training.global_vars").set_global_variables(args, build_tokenizer=False)
    if getattr(args, "padded_vocab_size", None) is None:
        multiple = args.make_vocab_size_divisible_by * args.tensor_model_parallel_size
        args.padded_vocab_size = -(-args.vocab_size // multiple) * multiple
    return args


def _groups(entry: Any) -> None:
    """The entry has functions that say which ranks share embeddings."""
    initialize = importlib.import_module("megatron.training.initialize")
    hooks = inspect.signature(initialize._initialize_distributed).parameters.values()
    initialize._initialize_distributed(*[getattr(entry, each.name, None) for each in hooks if each.default is each.empty])
    state = vars(importlib.import_module("megatron.core.parallel_state"))
    for name, label in GROUPS.items():
        group = state.get(name)
        for each in group if isinstance(group, list) else [group]:
            if each is not None:
                calls.names.setdefault(id(each), label)
                calls.kept.append(each)


def _seed(args: Any, package_states: bool) -> None:
    random = importlib.import_module("megatron.core.tensor_parallel.random")
    random._set_cuda_rng_state = lambda *_values, **_keywords: None
    state = torch.zeros(1, dtype=torch.uint8)
    random._get_cuda_rng_state = lambda *_values, **_keywords: state
    random.initialize_rng_tracker(package_states)
    tracker = random.get_cuda_rng_tracker()
    names = (random.get_data_parallel_rng_tracker_name(), random.get_expert_parallel_rng_tracker_name(), "model-parallel-rng")
    for seed, name in enumerate(names):
        tracker.add(name, seed)
    args.perform_initialization = False


def _built(args: Any, entry: Any) -> tuple[Any, Any, Any]:
    training = importlib.import_module("megatron.training.training")
    kind = importlib.import_module("megatron.core.enums").ModelType.encoder_or_decoder
    live.kind = "model"
    if hasattr(entry, "pretrain_cfg_container_from_args"):
        container = entry.pretrain_cfg_container_from_args(args, entry.gpt_config_from_args(args))
        groups = importlib.import_module("megatron.core.process_groups_config").ProcessGroupCollection.use_mpu_process_groups()
        return training.setup_model_and_optimizer(kind, cfg_container=container, pg_collection=groups)
    return training.setup_model_and_optimizer(entry.model_provider, kind)


def _microbatches() -> int:
    return int(importlib.import_module("megatron.core.num_microbatches_calculator").get_num_microbatches())


def _is_routed(parameter: Any) -> bool:
    return not getattr(parameter, "allreduce", True)


def _parameters(chunk: Any) -> dict[str, int]:
    found: Counter[str] = Counter(dense=0, experts=0)
    for each in chunk.parameters():
        found["experts" if _is_routed(each) else "dense"] += each.numel()
    return dict(found)


def _bytes(tensors: Any) -> int:
    """Of distinct storages."""
    storages = {id(each.untyped_storage()): live.held(each.untyped_storage()) for each in tensors if each is not None}
    return sum(storages.values())


def _states(model: Any, optimizer: Any) -> dict[str, int]:
    """Bytes of weights, gradients, master weights and moments."""
    parameters = [each for chunk in model for each in chunk.parameters()]
    found = {"weights": _bytes(parameters), "gradients": _bytes(getattr(each, "main_grad", None) for each in parameters)}
    masters, moments = [], []
    for each in getattr(optimizer, "chained_optimizers", [optimizer]):
        for name in ("shard_fp32_from_float16_groups", "fp32_from_float16_groups"):
            masters += [part for group in getattr(each, name, []) for part in group]
        masters += getattr(each, "shard_main_param_res_buffers", [])  # MindSpeed: the lower halves
        moments += [value for state in each.optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    return found | {"master": _bytes(masters), "moments": _bytes(moments)}


def _batches(args: Any) -> Any:
    shape = (args.micro_batch_size, args.seq_length)
    while True:
        tokens = torch.zeros(shape, dtype=torch.long)
        positions = torch.zeros(shape, dtype=torch.long)
        yield {"tokens": tokens, "labels": torch.zeros_like(tokens), "loss_mask": torch.ones(shape), "position_ids": positions}


def _has_head(chunk: Any) -> bool:
    """Whether a chunk has the loss."""
    while hasattr(chunk, "module"):
        chunk = chunk.module
    return bool(getattr(chunk, "post_process", False))


class Watch:
    """Bytes held between passes, and what each layer keeps."""

    def __init__(self) -> None:
        self.static = 0
        self.held: list[tuple[str, int]] = []
        self.most = 0
        self.at_most: list[tuple[int, int, str]] = []
        self.entries: list[tuple[int, int]] = []  # bytes, number of the last storage
        self.layers: dict[str, Counter[int]] = {}
        self.tensors: dict[str, list[tuple[int, str]]] = {}

    def enter_layer(self) -> None:
        """A layer begins."""
        self.entries.append((live.total, live.number))

    def leave_layer(self, module: Any) -> None:
        """A layer is over, and keeps what it has added: its output is the next layer's input."""
        held, first = self.entries.pop()
        if meter.phase != "forward":
            return
        kind = "moe" if hasattr(getattr(module, "mlp", None), "router") else "dense"
        self.layers.setdefault(kind, Counter())[live.total - held] += 1
        if kind not in self.tensors:
            self.tensors[kind] = live.between(first, live.number)[:40]

    def passed(self, function: Any, name: str) -> Any:
        """A function that makes a pass, or a forward and a backward merged."""
        names = list(inspect.signature(function).parameters)

        def run(*values: Any, **keywords: Any) -> Any:
            given = {**dict(zip(names, values, strict=False)), **keywords}
            chunk = given.get("model", given.get("f_model"))
            before = enter("merged" if given.get("extra_block_kwargs") is not None else name)
            try:
                out = function(*values, **keywords)
            finally:
                enter(before)
            if before in ("between", "setup"):  # else it is a part of another pass
                kind = "backward" if chunk is None else "loss" if _has_head(chunk) else "forward"
                self._hold(kind, live.total - self.static)
            return out

        return run

    def _hold(self, name: str, nbytes: int) -> None:
        self.held.append((name[0], nbytes))
        if nbytes > self.most:
            self.most, self.at_most = nbytes, live.largest("step", 30)


def _step(args: Any, entry: Any, model: Any, optimizer: Any, scheduler: Any) -> dict[str, Any]:
    training = importlib.import_module("megatron.training.training")
    schedules = importlib.import_module("megatron.core.pipeline_parallel.schedules")
    config = importlib.import_module("megatron.core.utils").get_model_config(model[0])
    _configure(args, config, model, optimizer)
    if getattr(config, "mtp_standalone", False):
        sequence = (
            args.seq_length // args.context_parallel_size // (args.tensor_model_parallel_size if args.sequence_parallel else 1)
        )
        hidden = [sequence, args.micro_batch_size, args.hidden_size]
        stage = importlib.import_module("megatron.core.parallel_state").get_pipeline_model_parallel_rank()
        received_shapes.answer_shapes(config, len(model), _microbatches(), stage, hidden)
    watch = Watch()
    for chunk in model:
        for name, module in chunk.named_modules():
            short = name.rpartition(".")[2]
            module.register_forward_pre_hook(lambda _m, _a, short=short: meter.path.append(short))
            module.register_forward_hook(lambda _m, _a, _o: (meter.path.pop(), None)[1], always_call=True)
            if type(module).__name__ == "TransformerLayer" and ".mtp." not in f".{name}.":
                module.register_forward_pre_hook(lambda _m, _a: watch.enter_layer())
                module.register_forward_hook(lambda each, _a, _o: watch.leave_layer(each))
    for module, functions in PASSES.items():
        library = sys.modules.get(module)
        for name, phase in functions.items() if library is not None else ():
            setattr(library, name, watch.passed(getattr(library, name), phase))
    weights = sys.modules.get(f"{MERGING}.modules.weight_grad_store")
    if weights is not None:
        weights.WeightGradStore.pop = watch.passed(weights.WeightGradStore.pop, WEIGHTS)
    iterators = [_batches(args) for _ in model] if len(model) > 1 else _batches(args)
    model[0].train()
    for chunk in model:
        chunk.train()
    calls.log.clear()
    meter.assumed.clear()
    live.kind = "step"
    watch.static = live.total
    enter("between")
    live.reset_peak()
    real, peaks = optimizer.step, {}

    def optimizer_step(*values: Any, **keywords: Any) -> Any:
        peaks.update(passes=live.peak, at=live.peak_label, after=live.total)
        live.reset_peak()
        before = enter("optimizer")
        try:
            return real(*values, **keywords)
        finally:
            peaks["optimizer"] = live.peak
            enter(before)

    optimizer.step = optimizer_step
    given = [entry.forward_step, iterators, model, optimizer, scheduler, config]
    if "forward_backward_func" in inspect.signature(training.train_step).parameters:
        given.append(schedules.get_forward_backward_func())
    training.train_step(*given)
    return {
        "states": _states(model, optimizer),
        "dummies": live.now["dummies"],
        "built": watch.static,
        "peak": peaks,
        "after_step": live.total,
        "held": watch.held,
        "at_most": watch.at_most,
        "layers": {kind: dict(found.most_common(4)) for kind, found in watch.layers.items()},
        "tensors": watch.tensors,
    }


def _configure(args: Any, config: Any, model: Any, optimizer: Any) -> None:
    """What ``train`` sets before its first step."""
    args.curr_iteration = args.iteration = 0
    config.grad_scale_func = optimizer.scale_loss
    distributed = importlib.import_module("megatron.core.distributed")
    wrapped = isinstance(model[0], distributed.DistributedDataParallel)
    if wrapped and args.overlap_grad_reduce:
        config.no_sync_func = [chunk.no_sync for chunk in model]
        if args.align_grad_reduce:
            config.grad_sync_func = [chunk.start_grad_sync for chunk in model]
        if len(model) == 1:
            config.no_sync_func = config.no_sync_func[0]
            if args.align_grad_reduce:
                config.grad_sync_func = config.grad_sync_func[0]
    if args.overlap_param_gather and args.align_param_gather:
        config.param_sync_func = [chunk.start_param_sync for chunk in model]
        if len(model) == 1:
            config.param_sync_func = config.param_sync_func[0]
    config.finalize_model_grads_func = distributed.finalize_model_grads
