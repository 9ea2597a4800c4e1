"""The text of docs/accuracy.md; its figures come from the runs."""

from __future__ import annotations

README_START, README_END = (
    "<!-- accuracy: written by scripts/accuracy/write_accuracy.py (`make docs`) -->\n",
    "<!-- /accuracy -->",
)

EVERY_RUN = "all, unclear too"  # of a family, also where the chip's variant is unclear
README = (
    "{runs} published runs of {publications} documents, which nothing was fitted to or tuned on, were each predicted before "
    "anyone looked at an error. The median error of the step time is {median} %: {ampere} for dense models on Ampere, {hopper} "
    "on Hopper, {blackwell} on Blackwell, and {hopper_moe} for mixtures of experts on Hopper; {rest} more are of other kinds. "
    "Nominal 80 % intervals hold "
    "{inside} % of these runs. Few of them are of tuned benchmarks, and none is on Ascend. There the model was "
    "refitted for each publication without its runs: {unclear} with those whose variant of the chip is unclear; where it is "
    "known or likely, {single} for dense models on one node, {multi} on several nodes, {long} at long sequences, and {moe} for "
    "mixtures. [docs/accuracy.md](docs/accuracy.md) has every figure, also where the model falls "
    "short."
)
README_ZH = """\
{publications} 份文献的 {runs} 条公开实测从未用于拟合或调参，预测均先于误差统计完成。
单步时间的中位误差为 {median}%：Ampere 上的稠密模型 {ampere}，Hopper {hopper}，Blackwell {blackwell}，
Hopper 上的 MoE 模型 {hopper_moe}，其余 {rest} 条为其他类别；名义 80% 区间包含其中的 {inside}%。
其中少有经过调优的基准测试，也没有昇腾上的；昇腾的误差采用留一法：每次留出一份文献，用其余文献重新拟合。
含芯片型号（如 910B1 至 910B4）不明的实测为 {unclear}；
型号已知或可推断的：单机稠密模型 {single}，多机 {multi}，长序列 {long}，MoE 模型 {moe}。
全部数字见 [docs/accuracy.md](docs/accuracy.md)。
"""

HEAD = """# Accuracy

<!-- Written by scripts/accuracy/write_accuracy.py (`make docs`); edit it or scripts/accuracy/text.py, not this page. -->

[中文](zh/accuracy.md)

This page compares predicted step times and memory peaks with published measurements. Nobody on this project
measured a run. `calibration/runs/` has {ascend_rows} published runs on Ascend and {gpu_rows} on GPUs, each
with its source. {ascend_used} and {gpu_used} of them are newest of their configuration, not marked suspect,
in BF16, FP16 or FP32, and have a step time. The model is fitted to these ({ascend_constants} and
{gpu_constants} constants, [calibration.md](calibration.md)) and judged by them. `meshplan validate FILE`
prints the fitted errors for any file of runs.

- An error is the size of predicted / measured - 1, shown as median / mean in per cent. Bias is its median
  with the sign, below zero where the prediction is too fast.
- *Publication left out* is the figure to trust where the framework has constants of its own. Each run is
  predicted with every run of its document (repository or page, and title) left out of the fit **and of all
  that was ever tuned on it**. {tuned} numbers cite the runs, most of them as priors. Each starts again from
  kernel tables, vendors' figures or arithmetic, and the remaining runs find it
  ([calibration.md](calibration.md#what-was-tuned-on-runs) lists them). *Rolling origin* is fitted only to
  publications of earlier half years, and judges the later ones. *Stack left out* drops all runs of its
  software. These three are nested.
- *Fitted without its architecture* is the figure that this page recommended before. The fit alone has not
  seen the model's shape, but its priors have. It is too small, by the excess of the nested columns over it.
- *One utilisation* is the error of a single MFU for all runs of the family.
- The same configuration published twice differs by 4.6 % (median) on Ascend and 2.8 % on GPUs, with software
  releases up to 77 %. No model that ignores releases can do better [runs-ascend] [runs-gpu].
- A group of a few runs is noise: read its count first.

## Blind

Nothing was ever fitted to these runs or tuned on them, and their publications teach nothing. Each was
predicted before anyone looked at its error: that first prediction is kept, and is the figure to expect for a
run of your own. The other columns are the errors of release {release} and of this version. *Noise* is what the
mean error of so many runs may differ by for no reason of the model's: the median difference of the same
configuration, published twice, over the root of their number. `make blind` fails if the mean error of a kind
grew by more, and such a change does not ship. Whoever looks at the error of a run to mend something moves it
out of the table.

{blind}
Most are predicted too fast: few of these stacks were tuned for a benchmark, as those of the fitted runs were,
and most have no constants of their own. Your own runs remove that ([calibration.md](calibration.md)).

These runs teach nothing either, but somebody looked at their errors, so they are blind no more: at 49 for a
rule of reading (PyTorch's own layers are not fused), and at one on Ascend for the releases of other
frameworks. 18 more, of Megatron-Kwai, were opened and now teach.

{opened}
## Aims

{aims}
These figures are nested, with runs whose kind the model was built on. Where an aim is missed, the sections
below describe the residual.

## Every split

The table covers all runs of a family that the model is fitted to. Every number is found again without the
left-out runs, except in the first row of each.

{splits}
## Ascend

By the kind of run: rows whose NPU bin is named or likely, then with those where it is unclear.

{ascend}
![predicted against measured step times on Ascend](images/accuracy_ascend.svg)

- Dense models are near the scatter of republished runs. The rest is mostly software: MindSpore releases
  before mid-2024, and NPU bins that a source does not state.
- Mixture-of-experts rows are few. Experts in a loop on one tensor-parallel rank and pairs of expert ranks are
  predicted too slow. 64 experts over two nodes (outside context parallelism) and a post-training update on A3
  are predicted too fast. A table of one model over dispatchers and expert degrees on one software release
  would settle the first. Megatron's dispatchers copy the counts of all experts to the host before a loop
  begins (core 0.6 to 0.12), which leaves no wait for each expert. Yet without such a wait the loops on four
  and eight tensor-parallel ranks come out 30 to 45 % too fast. On A3 a profile of one layer would help, since
  the published phase includes work around the step.
- Full recompute of mixtures has no error of its own. Megatron-Core's checkpoint runs the whole forward again,
  with dispatch, experts, combine and the wait for counts [megatron-0.12, tensor_parallel/random.py], and so it
  is priced. The eight fully recomputed rows that teach, on Ascend and GPUs, are between -10 % and +28 % where
  fitted, with a median of -2 %.
- MindFormers' runs with `jit_level` O1 and tp 1 are predicted 15 % too slow; those with O2 and those at TP8
  are met. O1 fuses operators into one another, but counting that in full makes as many others too fast. A
  profile of one layer under each level would separate them.
- Slices are tests of a few layers, where host time and small collectives decide. All come from one
  framework's CI, whose NPUs are never named. The same ChatGLM3 and Baichuan2 plans ran 11 to 14 % slower
  there than in its README, while three pipelines of TP2 are predicted 20 % too slow. A pair of NPUs that
  exchanged 23 GB/s, nearer to the 28 of its wire than to the 18.3 by which HCCL plans, would explain these.
  But it makes TP4 and long sequences 2 to 3 % worse, and named runs at TP2 and TP4 go either way. The bin of
  that machine, and an all-gather measured over two, four and eight NPUs of a node, would settle both.
- Qwen2.5 at 32,768 tokens is predicted 15 % too slow. Its README says that fused matmuls and collectives
  (MC2) were on, its scripts leave them off, and scripts count.

## GPUs

By generation, then by source, in BF16, FP16 and FP32.

{gpu}
{sources}
![predicted against measured step times on GPUs](images/accuracy_gpu.svg)

- The two MoE Parallel Folding architectures disagree on the cost of an all-to-all across nodes. Those runs do
  not state the virtual stages and the dropped tokens, and their times follow from an MFU whose attention
  convention moves them by 3 to 6 %.
- Blackwell in bfloat16 has one dense shape and one mixture on eight B200, whose own matmul table is as slow
  as their runs (`stock_blackwell_factor`, of these runs alone), and a few rows on NVL72. The chip is not the
  cause: nine dense runs in 8 bits on B200 have a bias of +0.7 %. TP8 is predicted 15 % too fast. No constant
  of tiles, depth or links that the other rows allow explains it. A trace of one layer at TP1 and TP8 would.
- The A100 sites differ by 8 % either way, unexplained; your own runs remove that
  ([calibration.md](calibration.md)). BigScience's runs above 100 B parameters hung unless every launch
  blocked, which costs 3.6 ms a layer and micro batch whatever its size. The rest grows with the micro batch,
  as if everything else were 6 % slower. Heads of 108 and of 150 run their scores off the tensor cores, at a
  rate that no other document states.
- vTrain's 3.6B model on several nodes would need all-reduces of about 80 GB/s over two A100 of a node, 120 over
  four and 240 over eight to be met at every degree; 176 is fitted to all. Megatron-LM's own runs at TP1 to TP8
  and NeMo's at TP1 to TP4 have no such trend (biases between -4 and +5 %), so no rate by degree was added.
- Where experts span nodes, the MoE Parallel Folding runs are predicted 15 to 20 % too slow, elsewhere 3 to
  10 %: their InfiniBand moves nearly all of its 400 Gb/s, others' less. Their exchange of gradients and
  weights is read as overlapped, which makes their errors alike from 128 to 1,024 GPUs. No other document says
  how much of it shows: 0.9 of it without them, 0.4 with them.

8-bit and 4-bit runs are not fitted to: recipes quantise different parts. Their precision is a mechanism that
no run has shown, and their intervals are wider for it ([Intervals](#intervals)). The cost of casts is counted
in bytes, not fitted.

{untaught}
Remaining errors, and the data that would settle them:

- The same FP8 MoE plan was published with up to twice the time one release later (Qwen3 30B-A3B on 16 H100,
  12.5 s and 24.8 s): a kernel count or a host trace for each release.
- DeepSeek-V3 with experts over several nodes is predicted up to 85 % too slow where a table does not state
  the router's groups, the experts' tensor parallelism and the overlap. With 4 of 8 groups, whole experts and
  overlap two such rows are within 10 %. Tables of recipes that state these would settle it.
- The records do not have dropped tokens (the 25.09 tables) and captured graphs. The release therefore decides
  whether dispatch is eager.
- Mixtures with biases and clamped activations (experts 2,880 wide, on B200) are predicted a quarter too fast
  at EP8 and a tenth at EP64, after 4 ms a layer and micro batch of passes that no kernel fuses. No single
  cause closes EP8: with all gradients of the experts exposed 14 % are left, with matmuls as slow as
  SimuMax's 15 %. The width itself, 22.5 tiles of 128, loses 2 %, and 7 % at tiles of 256.
  Records that do not state biases, clamps and windows are priced without them. A profile of one such layer
  would settle it.
- Recipes of mixtures in 8 bits gained with every release: some of 2025 are predicted 10 to 25 % too fast,
  some of mid-2026 up to 24 % too slow.
- FlashAttention-2 runs of PyTorch beyond 65,536 tokens, and row-wise scaled FP8 under TP8, are a few rows
  each.

## One framework predicts another

{frameworks}
## Both fidelities

Constants are fitted at the fidelity of a search, `validate` and `estimate --simulate`: simulated. The closed
form uses the same ones. Runs in 8 and 4 bits, which the fit does not use, count here too.

{fidelities}
## Small clusters predict large ones

{small}
## Intervals

The nominal coverage is 80 %. A run is judged by the interval of all other publications, widened by its steps
into the unknown beyond them ([calibration.md](calibration.md#intervals) says how). *By publication* weighs
every document alike, as a new one meets them. A *slice* is here a wide model cut to a few layers; runs of
continuous integration, which the tables by family also count as slices, are of their model's kind.

{intervals}
A kind of few publications is a rough figure: one holds most of the GPUs' MoE runs and one nearly all of their
slices, so that the coverage of these is a single draw. One document holds half of the shapes on Ascend, and is
met better than the others.

The next table shows the same under every split. Each run is judged by a fit without its publication, stack,
chip or release, or by publications of earlier half years alone.

{coverage}

The next table shows the past cost of a step into the unknown, which widens an interval. It is the number of
intervals of known runs that hold four in five of the errors with every run of the thing left out, never less
than 1. Several at once add in squares.

{steps}
Errors with one mechanism left out of the fit:

{mechanisms}

## Memory

Each peak is compared on the basis that the source states; `first iteration` is before Adam's moments exist.
The aim is 1 / 2.5 by rank for memory that stays, 3 / 6 for the first peak, and no more than one row in twenty
under-estimated by more than 5 %.

{memory}
The memory that stays after a step is arithmetic without a fitted constant; about a hundred MiB of small
buffers are not counted. `device` peaks come from the zero-bubble schedules and from BigScience's reports by
hand, on first and last nodes. They have one constant, the growth of the allocator's pool while memory is
free, which never decides the fit. On Megatron's GPU stacks the pool stays at the least unless experts are
dropless, and the smallest of the zero-bubble models come out up to 8 % low there. Most of the rows that are
under-estimated most do not say how their optimizer was sharded. `nvidia-smi` beside the framework's own
counters, once, would separate the two.

The probability that a plan fits comes from these errors ([calibration.md](calibration.md#memory)). Each peak
is judged by the band of all other architectures. The table shows the share of peaks that fit on devices
chosen to be just that sure (by run / by architecture).

{sure}
A margin must not refuse plans that run. All of these ran. Those that are predicted above the limit itself
rest on a guess of how they kept memory down (recompute, offloaded activations, sharded optimizers), or show
an error of the model.

{refused}

{ran}
## Order of plans

The table counts pairs that differ by 5 % or more in measured time and are predicted in the right order.
Regret is the extra time of the plan that is predicted best over the measured best. Aim: 95 % of pairs, 2 %
mean regret.

{order}
Of the pairs on GPUs in the wrong order, seven in ten hold one of eight TP4 plans of vTrain's 39.1B sweep.
These took 8 to 23 % longer than plans beside them, and 8 % longer with four sequences a micro batch than with
six at one layout; its TP8 plans do nothing like it. Its TP2 plans do, and are marked suspect; no source calls
the eight disturbed, so they count. Without them 97.5 % are in order. A fixed cost of each kernel or
collective, or more traffic to accumulate gradients, would turn five pairs at most. Host jitter, which grows
with tp, decides the single-node sweeps of small models: two TP4 plans took less time than the dispatch of
their kernels takes everywhere else.

## Beside other tools

{peers}
## Ablations

With the publication left out, one constant is held and all other numbers are found again; sorted by the worse
of the two columns. *As without runs* asks whether fitting it was worth a constant, *mechanism off* whether
the mechanism is. Most matter to few runs. A constant that does not move the pooled error is kept if its
mechanism is documented and a search would go wrong without it (no plan may be free of a cost that it has).

{ablations}
## Furthest off

The table lists the largest errors with the publication left out, and the parts of each prediction.

{worst}
{not_covered}"""

PEERS_HEAD = """\
No other tool publishes an error table for training on Ascend, and none gives an interval. The table compares
the mean absolute error of the step time on the public GPU measurements. The others were run as shipped or are
quoted from their authors.

| data | tool | theirs | meshplan, publication left out |
|---|---|---|---|
| vTrain's multi-node A100 runs | Calculon, as shipped [calculon] | 12.9 % (103 of 109 runs) | {vtrain} |
| | Calculon, network set to the cluster's | 11.1 % (103) | |
| | vTrain, its authors' figure [vtrain] | 14.7 % | |
| SimuMax's B200 runs | SimuMax on its own 43, with its per-shape tables [simumax] | 5.6 % | {simumax} |
| the same, memory | SimuMax | 0.5 % | {memory} |
| Korthikanti's A100 runs | Calculon [calculon] | 3.7 % (8 runs) | {korthikanti} |

Rows differ: 73 of vTrain's 109 and 22 of SimuMax's 43 are here, and vTrain's own figure may be on others.
Pick quality on vTrain's sweeps: Calculon's first choice costs 0 to 4.5 % over the measured best; ours is in
the table above.
"""

EXPLANATIONS = {
    "msllm-readme-qwen2-57b": "all-gather dispatch over two nodes, outside context parallelism as in Megatron before core 0.9",
    "msllm-readme-minicpm": "small experts: host time and all-to-all overlap more than is modelled",
    "msllm-readme-deepseek-v2-lite": "experts in a loop under full recompute: their waits overlap more than is modelled",
    "msllm-ci-baichuan2_13b": "a vocabulary of 125,696 over few layers; the same plan at full depth errs the other way",
    "msllm-ci-mixtral_tp1_pp4": "a slice with half of its tokens dropped",
    "msllm-readme-mixtral-8x7b-8x8-s32768": "32,768 tokens on 64 NPUs; how uneven its routing was is not recorded",
    "msllm-ci-mixtral_mcore_tp4_cp2_ep2": "a slice that spends half of its time on the host",
    "mindformers-finetune_glm32k": "recompute of layers and of parts of others, read as layers alone",
    "mindformers-run_telechat": "MindSpore release of early 2024",
    "cannrecipes-": "a post-training update: what surrounds its step is in the measured phase",
    "mindformers-run_internlm": "MindSpore release of early 2024",
    "mindformers-run_baichuan2_7b": "MindSpore release of 2023",
    "mindformers-finetune_qwen1_5_72b": "MindSpore release of early 2024",
    "mindformers-pretrain_qwen1_5_7b": "MindSpore release of early 2024 at 32,768 tokens",
    "msllm-ci-llama2_tp2": "slice: two NPUs exchange more than the link rate by which HCCL plans",
    "msllm-readme-baichuan-13b": "nearly the same plan was published at 13.5 s with other software",
    "vtrain-single": "small model at TP8: host jitter grows with tp",
    "mpf-": "virtual stages and dropped tokens not stated; the other architecture decides the all-to-all",
    "vtrain-multi-39.1b": "a sweep whose neighbouring plans differ by 15 % without a pattern",
    "simumax-b200-llama3-70b-l12-tp8": "collectives of few MB a rank on NVLink 5",
    "simumax-b200-llama3-70b-l12": "attention of 131,072 tokens on Blackwell: its kernels are newer than Hopper's",
    "foundry-30b": "one sequence a device on eight devices: the allocator at its limit",
    "foundry": "a run slower than its neighbours in the same table",
    "bigscience-1b3-v100": "TP2 is twice as slow as TP1: the link between two V100 is not stated",
    "megatron2020": "V100 of a DGX-2, possibly the model with more power than the profile",
    "bigscience": "many small micro batches at TP8 cost more than is modelled",
}

NOT_COVERED = """## Not covered by any measured run

- Ascend: A3 beyond one post-training update, Atlas 950 supernodes, 910A, 910B4; dense models on more than 96
  NPUs; overlap of expert traffic with compute. The published Pangu Ultra MoE results (4,096 and 6,144 NPUs)
  are a [case study](case-studies/pangu-ultra-moe.md), not fitted to.
- GPUs: AMD beyond two rows in FP8; MoE models above 1,024 devices.
- DualPipe schedules, failures and stragglers, data loading, checkpoints.
- Routing imbalance: published runs do not state it. An estimate takes the factor that you give.
"""
