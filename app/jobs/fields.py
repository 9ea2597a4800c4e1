"""The job document: every field, its type and its bounds. Records of measured runs have the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, create_model, model_validator

from app.jobs.assumed import AssumedFields
from app.jobs.counts import ExpertCountsField
from app.jobs.delivery import DeliverySection
from app.jobs.headroom import MAX_HEADROOM_TEXT, HeadroomBytes, checked_headroom
from app.jobs.stack_name import GRAPH_STACKS, StackName
from app.jobs.sweep import SweepSection
from cost_models.shapes.optimizers import OPTIMIZERS, STATE_BYTES, TpMode
from cost_models.shapes.precision import RECIPES
from cost_models.shapes.recompute_modules import MODULE_NAMES
from cost_models.shapes.residual import RESIDUALS
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.software_options import HOST, OPERATORS, OPTION_NAMES
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Recompute, RecomputeMethod
from cost_models.shapes.tensors import TENSOR_NAMES
from cost_models.shapes.training_task import ADAPTED_MODULES, BasePrecision, Reference, Task
from cost_models.shapes.workload import DEFAULT_CONFIDENCE, LAYER_SYMBOLS, LayerKind
from documents.bounds import (
    MAX_ADAPTER_RANK,
    MAX_DEGREE,
    MAX_DEVICES,
    MAX_LAYERS,
    MAX_NAME,
    MAX_TOKENS,
    CapacityFactor,
    Degree,
    Devices,
    GlobalBatch,
    InterNodeBytesPerS,
    Layers,
    Name,
    SeqLength,
    ZeroStage,
)
from documents.checking import OneOf, Section
from documents.sentences import Sentence, joined
from search.objectives.table import OBJECTIVES
from search.session.request import MAX_SIMULATIONS
from search.session.request import SAMPLERS as OPTUNA_SAMPLERS
from search.space.limits import SCHEDULES, SWITCH_LIMITS, SWITCHES, LimitFields

TimeFactor = Annotated[float, Field(ge=0.2, le=5)]
Precision = Literal["bf16", "fp16", "fp8", "mxfp8", "hif8", "nvfp4", "fp32"]
PRECISIONS: tuple[str, ...] = get_args(Precision)  # precisions of training; profiles also have rates of precisions for inference

CP_ALGOS = {kind.label: kind for kind in CpAlgo}
DISPATCHERS = {kind.label: kind for kind in Dispatcher}
GRANULARITIES = {kind.label: kind for kind in Recompute}
RECOMPUTE_METHODS = {kind.label: kind for kind in RecomputeMethod}
FEATURES = tuple(SWITCHES)
EXHAUSTIVE = "exhaustive"
SAMPLERS = (EXHAUSTIVE, *OPTUNA_SAMPLERS)
MAX_TRIALS = 100_000  # a sampler reads all trials before it proposes the next ones
MAX_RANKED = 1000  # plans that a search reports, and a study stores
DEFAULT_TRIALS = 1000
MAX_NS_STEPS = 100
TASK_NAMES = {"sft_full": Task.SFT}  # other names of tasks
TASKS = (*Task, *TASK_NAMES)
MAX_LOSS_CHUNKS = 1024
MAX_REFINE_TRIALS = 10_000  # each may be simulated


def _trained_precision(value: object) -> object:
    if value == "mxfp4":
        raise ValueError(
            Sentence(
                "'mxfp4' is not priced: no target multiplies in it. MindSpeed-LLM's --qat-scheme casts to it and multiplies in "
                "16 bits, and of Transformer Engine only AMD's fork has it. Give one of {}.",
                joined(", ", PRECISIONS),
            )
        )
    return value


OperatorPacks = Annotated[list[Annotated[str, OneOf(*OPTION_NAMES[OPERATORS])]], Field(max_length=16)]
HostOptions = Annotated[list[Annotated[str, OneOf(*OPTION_NAMES[HOST])]], Field(max_length=16)]


class ClusterSection(Section):
    """Type, number and network of the devices."""

    hardware: Name = Field(description="hardware profile: a name from `hardware list`, or the path of a profile file")
    num_devices: Devices = Field(description="devices the job runs on (what the collective library gives a rank)")
    devices_per_node: Devices | None = Field(
        default=None, description="devices of a node, at most the profile's, whose default it is: 4 where others have 8"
    )
    inter_node_bytes_per_s: InterNodeBytesPerS | None = Field(
        default=None, description="one device's share of the network between nodes, one direction; default: the profile's"
    )
    oversubscription: float = Field(default=1.0, ge=1, le=1000, description="divides the bandwidth between nodes")
    time_factor: TimeFactor = Field(
        default=1.0, description="multiplies all device and communication time of this cluster: clocks, power caps, a slow fabric"
    )


class AdapterSection(Section):
    """Low-rank adapters of linear layers."""

    rank: int = Field(ge=1, le=MAX_ADAPTER_RANK, description="channels between the two matrices of an adapter")
    alpha: float | None = Field(
        default=None, gt=0, le=1e6, description="scales the adapter's output by alpha / rank; no effect on cost; default: rank"
    )
    target_modules: list[Annotated[str, OneOf(*ADAPTED_MODULES)]] | None = Field(
        default=None,
        min_length=1,
        max_length=len(ADAPTED_MODULES),
        description="linear layers with an adapter, all by Megatron's names or all by Hugging Face's; default: linear_qkv, "
        "linear_proj, linear_fc1 and linear_fc2",
    )


class TrainingSection(Section):
    """The batch. Without length or batch size, the model preset's default training applies and is listed as assumed."""

    seq_length: SeqLength | None = None
    global_batch_size: GlobalBatch | None = Field(
        default=None, description="sequences in one step; with dpo pairs of a chosen and a rejected sequence"
    )
    precision: Annotated[Precision, BeforeValidator(_trained_precision)] | None = Field(
        default=None,
        description="of linear layers; mxfp8 means fp8 with fp8_recipe mxfp8. Default: the preset's, else bf16, else fp16",
    )
    fp8_recipe: Annotated[str, OneOf(*RECIPES)] | None = Field(
        default=None,
        description="with fp8 or hif8: how operands are scaled, by the framework's name. Default: tensorwise for hif8; mxfp8 for "
        "mindspeed-llm, delayed for target megatron-lm; else not stated, and scales take no bytes",
    )
    fp8_param_gather: bool | None = Field(
        default=None,
        description="with fp8 and zero_stage 1 or more, on Transformer Engine: weights of linear layers are kept in 8 bits "
        "alone; default: true, but for `blockwise`, and for `mxfp8` before core 0.13",
    )
    train_tokens: float | None = Field(
        default=None, gt=0, le=MAX_TOKENS, description="gives days; default: the model preset's for pretrain, else none"
    )
    expert_load_factor: float | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="largest rank's routed tokens over the mean, the same for every degree; default: what router_balance gives",
    )
    expert_counts: ExpertCountsField | None = Field(
        default=None,
        description="in place of expert_load_factor: measured tokens of each routed expert, one list for each MoE layer in order "
        "or one for all; in a file also the path of a JSON file with them",
    )
    router_balance: Annotated[str, OneOf(*(balance.value for balance in RouterBalance))] | None = Field(
        default=None,
        description="in place of expert_load_factor: what balances the router, from which the load of each expert-parallel "
        "degree follows; default: group for one expert of every group, loss-free for a balancing bias, else auxiliary-loss",
    )
    expert_capacity_factor: CapacityFactor | None = Field(
        default=None,
        description="in place of the model's: the mean share of an expert times this is all it takes, and what is above is "
        "dropped; with strategy.features moe_pad_to_capacity what is below is padded. Default: the model's, else dropless",
    )
    mean_squared_length_fraction: float = Field(
        default=1.0, gt=0, le=1, description="packed samples: sum of squared sample lengths over seq_length squared; 1: unpacked"
    )
    task: Annotated[str, OneOf(*TASKS)] | None = Field(
        default=None,
        description="pretrain, the default; sft: supervised fine-tuning of all weights; lora, qlora: of adapters, beside weights "
        "in 16 bits or quantised; dpo: preference training, of adapters if training.adapter is given; sft_full means sft",
    )
    adapter: AdapterSection | None = Field(default=None, description="with lora, qlora or dpo; all other weights are frozen")
    base_precision: Annotated[str, OneOf(*BasePrecision)] | None = Field(
        default=None, description="how frozen weights of linear layers are stored; default: nf4 for qlora, else bf16"
    )
    reference: Annotated[str, OneOf(*Reference)] | None = Field(
        default=None,
        description="of dpo: model, whose forward runs in every step, or precomputed log-probabilities; default: model",
    )
    optimizer: Annotated[str, OneOf(*OPTIMIZERS)] | None = Field(
        default=None, description="adam, the default; muon of the layers' matrices, with adam for the rest; sgd with momentum"
    )
    muon_tp_mode: Annotated[str, OneOf(*TpMode)] | None = Field(
        default=None,
        description="of muon: a matrix that tp divides is orthogonalised part by part (blockwise, the default), whole on every "
        "rank (duplicated), or by all ranks together (distributed)",
    )
    muon_num_ns_steps: int | None = Field(default=None, ge=1, le=MAX_NS_STEPS, description="of muon: Newton-Schulz steps (5)")
    main_params_dtype: Annotated[str, OneOf("fp32", "fp16")] | None = Field(default=None, description="of adam: master weights")
    exp_avg_dtype: Annotated[str, OneOf(*STATE_BYTES)] | None = Field(default=None, description="of adam: first moment")
    exp_avg_sq_dtype: Annotated[str, OneOf(*STATE_BYTES)] | None = Field(default=None, description="of adam: second moment")


class ExpertCountsFile(Section):
    """A file of counts that says where they come from."""

    expert_counts: ExpertCountsField
    source: str | None = Field(default=None, max_length=MAX_NAME)


class SoftwareSection(Section):
    """Software stack, whose efficiency is priced, and target framework, whose legality rules apply."""

    stack: StackName | None = None
    target: Name | None = Field(
        default=None,
        description="framework the plan must run on, name or name@release; any: the physics alone. Default: any; in a search "
        "the framework of the stack, where it takes a plan of the job",
    )
    execution: Literal["eager", "graph"] | None = Field(
        default=None, description=f"default: graph for {' and '.join(GRAPH_STACKS)}, else eager"
    )
    year: float | None = Field(
        default=None, ge=2018, le=2100, description="when the stack was released (2024.5: July); default: its newest release"
    )
    release: Name | None = Field(default=None, description="in place of year: the stack's release, such as r1.5 or 2.1")
    fp32_parameters: bool = Field(default=False, description="4-byte weights with cast copies (MindFormers' FP16 recipes)")
    portable_attention: bool | None = Field(
        default=None,
        description="FlashAttention-2 on newer devices, Triton's kernels with a year before 2024; default: true for fsdp",
    )
    torch_compile: bool | None = Field(
        default=None,
        description="torch.compile fuses the kernels and the loss of plain PyTorch (stack fsdp); default: true for target "
        "torchtitan, else false",
    )
    compiled_loss: bool | None = Field(default=None, description="the loss is compiled as well; default: as torch_compile")
    loss_chunks: int | None = Field(
        default=None,
        ge=0,
        le=MAX_LOSS_CHUNKS,
        description="chunks in which torchtitan's head and loss of a micro batch run, 0 for one pass; default: 8 for "
        "torchtitan@2026.08, else 0",
    )
    loader_mask: bool = Field(
        default=False,
        description="Megatron-LM's data loader makes a mask of sequence x sequence, its default in scripts without "
        "--no-create-attention-mask-in-dataloader; memory of the first and last stage",
    )
    legacy_layers: bool = Field(
        default=False,
        description="MindFormers' layers of use_legacy: True, for a file that has them; no file is written for them",
    )
    fp32_residual: Annotated[str, OneOf(*RESIDUALS)] = Field(
        default="none",
        description="MindFormers' residual in FP32: inside a layer (layer: fp32_residual_connection); in legacy layers in the "
        "sums alone (sums: residual_dtype, res_dtype), or from layer to layer (stream: ChatGLM's)",
    )
    time_factor: TimeFactor = Field(
        default=1.0, description="multiplies device time: kernels older (above 1) or fresher than those that were measured"
    )
    operators: OperatorPacks = Field(
        default=[], description="packs of operators faster than those that were measured; docs/switches.md has what each changes"
    )
    host: HostOptions | None = Field(
        default=None,
        description="how an eager host dispatches: all of its options; default: those of the measured runs, which "
        "docs/switches.md marks",
    )
    calibration: Name | None = Field(
        default=None,
        description="in place of the shipped constants: on a server the id of a stored calibration, in a file the path of one",
    )


class RecomputeSection(Section):
    """Activation recompute."""

    granularity: Annotated[str, OneOf(*GRANULARITIES)] = "none"
    method: Annotated[str, OneOf(*RECOMPUTE_METHODS)] | None = Field(
        default=None, description="of a full recompute; default uniform"
    )
    num_layers: Layers | None = Field(default=None, description="a virtual stage; default 1 with uniform")
    layers_per_stage: list[Layers] | None = Field(default=None, max_length=MAX_LAYERS, description="one entry a pipeline rank")
    modules: list[Annotated[str, OneOf(*MODULE_NAMES)]] | None = Field(
        default=None,
        max_length=16,
        description="of a selective recompute; default core_attn; beside layers_per_stage of the other layers",
    )


Headroom = Annotated[HeadroomBytes | Annotated[str, Field(max_length=MAX_HEADROOM_TEXT)], AfterValidator(checked_headroom)]
Offset = Annotated[int, Field(ge=-MAX_LAYERS, le=MAX_LAYERS)]
SomeLayers = Field(min_length=1, max_length=MAX_LAYERS)
MAX_SHARES = 8  # choices of tensors among the layers of one kind on a virtual stage

if TYPE_CHECKING:
    Switches = Section
else:
    Switches = create_model(
        "Switches",
        __base__=Section,
        **{name: (bool | None, Field(default=None, description=limit.description)) for name, (_, limit) in SWITCH_LIMITS.items()},
    )


WHOLE_LAYERS = [LayerKind(moe, local) for local in (False, True) for moe in (False, True)]
KindName = Annotated[str, OneOf(*(kind.label for kind in (*WHOLE_LAYERS, *LAYER_SYMBOLS.values())))]
TensorNames = Annotated[list[Annotated[str, OneOf(*TENSOR_NAMES)]], Field(max_length=len(TENSOR_NAMES))]


class TensorSection(Section):
    """Tensors that layers of one kind on a virtual stage recompute or swap."""

    recompute: TensorNames = Field(default=[], description="tensors that the backward computes again")
    swap: TensorNames = Field(default=[], description="tensors that wait on the host")
    layers: int | None = Field(
        default=None, ge=1, le=MAX_LAYERS, description="in a list: layers that do so; the last has the rest"
    )


TensorSections = TensorSection | Annotated[list[TensorSection], Field(min_length=1, max_length=MAX_SHARES)]


class StrategySection(Section):
    """A parallel layout of the job. Missing fields take their defaults, which the answer repeats."""

    tp: Degree = 1
    sequence_parallel: bool | None = Field(default=None, description="default: true where tp > 1")
    cp: Degree = 1
    cp_algo: Annotated[str, OneOf(*CP_ALGOS)] | None = Field(
        default=None, description="default: the target's or ring where cp > 1; ulysses for attention in windows, linear or sparse"
    )
    ulysses_degree: Degree | None = Field(default=None, description="inside cp; needed with hybrid")
    pp: Degree = 1
    vpp: Degree = Field(default=1, description="virtual stages of a pipeline rank")
    ep: Degree = Field(default=1, description="all expert-parallel ranks, those inside tp included")
    etp: Degree = Field(default=1, description="tensor parallelism inside an expert")
    dp: Devices | None = Field(default=None, description="derived; if given, tp x cp x pp x dp must be num_devices")
    micro_batch_size: GlobalBatch = 1
    num_microbatches: GlobalBatch | None = Field(default=None, description="derived; checked if given")
    schedule: Annotated[str, OneOf(*SCHEDULES)] | None = Field(
        default=None, description="default: none, 1f1b or interleaved-1f1b, by pp and vpp"
    )
    microbatch_group_size_per_vp_stage: GlobalBatch | None = Field(
        default=None, description="interleaved: micro batches a chunk takes in turn; default pp"
    )
    distributed_optimizer: bool | None = Field(default=None, description="true is zero_stage 1, false is 0")
    zero_stage: ZeroStage | None = Field(
        default=None, description="default: 1, the distributed optimizer; reshard_after_forward of FSDP2: 3 true, 2 false"
    )
    optimizer_shard_size: int = Field(default=0, ge=0, le=MAX_DEVICES, description="ranks that share one optimizer state; 0: all")
    moe_dispatcher: Annotated[str, OneOf(*DISPATCHERS)] | None = Field(default=None, description="default: alltoall for MoE")
    recompute: RecomputeSection | Name = Field(
        default=RecomputeSection(),
        description="a mapping, or a mode's name: none, full, full:K, block:K, or modules joined by '+'",
    )
    tensor_plan: list[Annotated[list[Annotated[dict[KindName, TensorSections], Field(max_length=4)]], SomeLayers]] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_LAYERS,
        description="beside no recompute: what layers do not keep, by [chunk][stage] and kind of layer (dense, moe, dense-local, "
        "moe-local), as meshplan estimate --memory-plan writes it; a list where layers of one kind differ",
    )
    layer_layout: list[Layers] | list[Annotated[list[Layers], SomeLayers]] | None = Field(
        default=None, min_length=1, max_length=MAX_LAYERS, description="layers of each stage, or of each [chunk][stage]"
    )
    layer_offset: list[Offset] | list[Annotated[list[Offset], SomeLayers]] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_LAYERS,
        description="MindFormers' offset: layers beyond the even share, one entry a stage, or a list of them a chunk",
    )
    noop_layers: Layers | Annotated[list[Layers], Field(max_length=MAX_LAYERS)] | None = Field(
        default=None, description="positions of no-op layers, from 0; a count is checked against the layout"
    )
    mtp_before_head: int = Field(
        default=0, ge=0, le=MAX_DEGREE, description="virtual stages from that of the MTP modules to that of head and loss"
    )
    features: list[Annotated[str, OneOf(*FEATURES)]] | None = Field(
        default=None, max_length=64, description="all switches that are on; default: the usual fused kernels and overlaps"
    )
    switches: Switches = Field(default=Switches(), description="switches that differ from `features`, on or off")
    name: str | None = Field(default=None, description="that an answer gives, so that its strategy may be sent back; not read")


Objective = Annotated[str, OneOf(*OBJECTIVES)]


class HowToSearch(Section):
    """Settings of the search."""

    objective: Objective | Annotated[list[Objective], Field(min_length=1, max_length=len(OBJECTIVES))] = Field(
        default="step_time", description="what ranks plans; of several the first, and the answer holds their Pareto front"
    )
    top: int = Field(
        default=20, ge=1, le=MAX_RANKED, description="plans to report; the recommended one is added where it is behind them"
    )
    min_headroom: Headroom = Field(
        default=0.0, description="device memory that must stay free: bytes, text such as 4GiB, or 5% of the device's limit"
    )
    fit_confidence: float = Field(
        default=DEFAULT_CONFIDENCE, ge=0.5, le=0.99, description="how sure it must be that a strategy fits and leaves that free"
    )
    deadline_days: float | None = Field(
        default=None, gt=0, le=1e6, description="plans that need longer for training.train_tokens are not offered"
    )
    budget_usd: float | None = Field(
        default=None, gt=0, le=1e15, description="plans that cost more for training.train_tokens are not offered"
    )
    time_limit_s: float | None = Field(
        default=None,
        gt=0,
        le=1e7,
        description="of a search, default MESHPLAN_SEARCH_S (45); of a study and of all points of a sweep, default none",
    )
    sampler: Annotated[str, OneOf(*SAMPLERS)] = Field(
        default=EXHAUSTIVE, description="exhaustive prices every strategy and proves the best; the others try some of them"
    )
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="of a sampler; an exhaustive search draws nothing")
    max_simulations: int = Field(
        default=MAX_SIMULATIONS, ge=1, le=10**7, description="candidates that are simulated at most to prove the best"
    )
    max_trials: int | None = Field(
        default=None, ge=1, le=MAX_TRIALS, description=f"strategies that a sampler tries; default {DEFAULT_TRIALS}"
    )
    refine: int = Field(
        default=0,
        ge=0,
        le=MAX_REFINE_TRIALS,
        description="trials around the best plans of an exhaustive search, by Optuna with `seed`, outside of its proof; 0: none",
    )
    refine_front: bool = Field(
        default=False, description="refine for step time and memory at once (NSGA-II), and list what no plan beats in both"
    )
    by_tensor: bool = Field(
        default=False,
        description="also every listed structure of target any by recompute and swap of single tensors, with what files can "
        "state of it",
    )

    @property
    def objectives(self) -> tuple[str, ...]:
        """Objectives of the search without repetition; plans are ranked by the first."""
        return tuple(dict.fromkeys([self.objective] if isinstance(self.objective, str) else self.objective))

    @property
    def needs_criteria(self) -> bool:
        """Whether more ranks or bounds plans than one order of the lattice itself."""
        is_one = len(self.objectives) == 1 and OBJECTIVES[self.objectives[0]].orders_lattice_by is not None
        return not is_one or self.deadline_days is not None or self.budget_usd is not None

    @model_validator(mode="after")
    def _a_sampler_ranks_strategies(self) -> Self:
        judged = [name for name in self.objectives if OBJECTIVES[name].orders_lattice_by is None]
        several = len(self.objectives) > 1
        if self.sampler != EXHAUSTIVE and self.needs_criteria:
            what = (
                Sentence("objective {}", judged[0])
                if judged
                else Sentence("more than one objective")
                if several
                else Sentence("a deadline or a budget")
            )
            raise ValueError(Sentence("{} needs the exhaustive search; leave sampler out.", what))
        return self


class SearchSettings(LimitFields, HowToSearch):
    """Settings of the search, and the values of each dimension: one value, a list, or ``{min, max}``."""


# One more dimension for each switch that a search may try both ways.
if TYPE_CHECKING:
    SearchSection = SearchSettings
else:
    SearchSection = create_model("SearchSection", __base__=SearchSettings, **SWITCH_LIMITS)
SETTINGS = tuple(HowToSearch.model_fields)


class JobDocument(Section):
    """A job. Flags may replace any part of it."""

    schema_version: Literal[1] = 1
    model: Name | dict[str, Any] = Field(description="a preset's name, the path of a Hugging Face config.json, or a mapping")
    cluster: ClusterSection | Name = Field(description="a mapping, or a hardware profile's name where flags give the rest")
    training: TrainingSection = TrainingSection()
    software: SoftwareSection | Name = Field(default=SoftwareSection(), description="a mapping, or a stack's name")
    search: SearchSection = SearchSection()
    delivery: DeliverySection | None = Field(
        default=None, description="the site and its failures: answers then say what their plans deliver"
    )
    sweep: SweepSection | None = Field(default=None, description="what `meshplan sweep` tries beside the job's own sizes")
    strategy: StrategySection | None = Field(
        default=None, description="what `estimate` prices; in a search, the baseline to beat"
    )
    assumed: AssumedFields = Field(
        default={}, description="of a job as an answer shows it: the fields that nobody gave, with value and origin"
    )
