"""The count of answers for the files of public repositories, its record, and the facts that the record knows of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.conformance.public_scripts import ANSWERS, FACTS, Answer, answered, differing, files_in, main, table, written

ROOT = Path(__file__).resolve().parents[4]
RECORD: dict[str, dict[str, Any]] = json.loads(FACTS.read_text(encoding="utf-8"))
MODEL = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --bf16"
START = f"torchrun --nproc_per_node 8 pretrain_gpt.py {MODEL}"
FILES = {
    "a.sh": f"{START} --vocab-size 1024",
    "b/c.slurm": f"srun python pretrain_gpt.py {MODEL}",
    "d.sh": f"{START} --vocab-size 1024 --torch-fsdp2-no-reshard-after-forward",
    "e.sh": START.replace("pretrain_gpt", "pretrain_bert"),
    "f.sh": "echo done",
    "g.txt": "no script",
    "h.sh": f"{START} --vocab-size 1024 --micro-batch-size $MICRO",
    "i.sh": f"{START} --vocab-size 1024 --tensor-model-parallel-size 8",
    "j.sh": "torchrun pretrain_gpt.py --seq-length 64",
    "k.toml": '[model]\nname = "flux"\nflavor = "dev"\n[training]\nseq_len = 64\n',
    "l.yaml": "model: {}\nexp_manager: {}\ntrainer: {}\n",
}


def made(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return folder


def test_each_file_is_counted_once_by_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = f"me/mine@abc={made(tmp_path)}"
    assert main([given, "--facts", str(tmp_path / "none"), "--record", str(tmp_path / "record.json")]) == 0
    # read: a, and c with devices and rows; asked: h; argument: d; model: k; program: e, l; rule: i; script: j; none: f
    assert "| me/mine abc | 10 | 2 | 1 | 1 | 1 | 2 | 1 | 1 | 1 |" in capsys.readouterr().out
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))["me/mine"]
    assert (record["read"], record["rule"], record["none"]) == (["a.sh", "b/c.slurm"], ["i.sh"], 1)
    assert record["stated"] == {"b/c.slurm": ["devices", "rows of the vocabulary"]}


def test_a_known_fact_that_is_read_otherwise_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.json"
    for heads, status in ((4, 0), (8, 1)):
        facts.write_text(json.dumps({"me/mine": {"facts": {"a.sh": {"num_attention_heads": heads, "tp": 1}}}}))
        assert main([f"me/mine@abc={made(tmp_path)}", "--facts", str(facts)]) == status
        assert ("wrong: me/mine: a.sh: num_attention_heads: 4, known as 8" in capsys.readouterr().out) == bool(status)
    assert differing({"tp": 1}, Answer("asked", "give --devices")) == ["asked: give --devices"]


def test_the_record_has_a_line_for_each_path_and_is_read_back() -> None:
    text = written(RECORD)
    assert text == FACTS.read_text(encoding="utf-8")
    longest = max(len(line) for line in text.splitlines() if ": {" not in line)
    assert longest < 200


def test_the_record_holds_what_the_project_promises() -> None:
    trainings = {name: sum(len(record[kind]) for kind in ANSWERS if kind != "none") for name, record in RECORD.items()}
    assert sum(trainings.values()) >= 400
    assert sum(count > 0 for count in trainings.values()) >= 10
    known = {name: set(record["facts"]) for name, record in RECORD.items()}
    assert sum(map(len, known.values())) >= 60
    assert all(known[name] <= set(record["read"]) for name, record in RECORD.items())
    for name in ("NVIDIA/Megatron-LM", "Ascend/MindSpeed-LLM"):
        assert known[name] == set(RECORD[name]["read"])


@pytest.mark.parametrize("page", ["docs/tune.md", "docs/zh/tune.md"])
def test_the_pages_show_the_record(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for line in table([RECORD])[2:-1]:
        assert line in text
    total = table([RECORD])[-1].partition(" | ")[2]
    assert total in text
    assert f"{sum(len(record['facts']) for record in RECORD.values())} " in text


def test_a_folder_without_scripts_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert files_in(tmp_path) == []


CASES = [(name, path, facts) for name, record in RECORD.items() for path, facts in record["facts"].items()]
FLAVORS = {6: ("llama3", "debugmodel"), 80: ("llama3", "70B"), 64: ("qwen3", "32B")}
NAMED = {36: "Qwen3-8B", 40: "Qwen3-14B", 48: "Qwen3-30B-A3B", 64: "Qwen3-32B"}


@pytest.mark.parametrize(("name", "path", "facts"), CASES, ids=[f"{name}:{path}" for name, path, _ in CASES])
def test_facts_are_read_from_a_file_that_states_them(name: str, path: str, facts: dict[str, Any], tmp_path: Path) -> None:
    """A file of our own with the same facts is read to them, as the published one is."""
    text, suffix, hardware = FILE_OF[facts["target"]](facts)
    file = tmp_path / f"again{suffix}"
    file.write_text(text, encoding="utf-8")
    if facts["target"] == "mindspeed-llm-fsdp2":
        (tmp_path / "again.yaml").write_text(_fsdp2_yaml(facts), encoding="utf-8")
    answer = answered(file, hardware)
    assert differing(facts, answer) == [], text
    assert answer.kind == "read", answer.message


def _devices(facts: dict[str, Any]) -> int:
    return int(facts.get("devices") or facts["tp"] * facts["pp"] * facts["cp"] * max(facts.get("ep", 1), 1))


def _megatron(facts: dict[str, Any]) -> tuple[str, str, str]:
    ascend = facts["target"] == "mindspeed-llm"
    layers, words = (
        facts["num_layers"],
        ["--swiglu", "--normalization RMSNorm", "--disable-bias-linear", "--position-embedding-type rope"],
    )
    most = -(-layers // facts["pp"])
    layout = facts.get("layer_layout") or [[min(most, layers - rank * most) for rank in range(facts["pp"])]]
    slots = max(map(max, layout)) * len(layout) * facts["pp"]
    if len({count for row in layout for count in row}) > 1 and len(layout) == 1 and "layer_layout" in facts:
        words.append(f"--num-layer-list {','.join(map(str, layout[0]))}")
    elif slots != layers:
        places = [chunk * facts["pp"] + rank for chunk, row in enumerate(layout) for rank, _ in enumerate(row)]
        each, counts = max(map(max, layout)), [count for row in layout for count in row]
        noops = [place * each + at for place, count in zip(places, counts, strict=True) for at in range(count, each)]
        words.append(f"--noop-layers {','.join(map(str, noops))}")
        layers = slots
    if facts.get("vpp", 1) > 1:
        words.append(f"--num-layers-per-virtual-pipeline-stage {max(map(max, layout))}")
    words += _sizes(facts, layers) + _recompute(facts, layout)
    if facts["latent_ranks"]:
        query, latent = facts["latent_ranks"]
        words.append(
            f"--multi-latent-attention --kv-lora-rank {latent} --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128"
        )
        words += [f"--q-lora-rank {query}"] * bool(query)
    spec = "deepseek_spec" if facts["latent_ranks"] else "qwen3_spec" if facts["qk_layernorm"] else ""
    words += [f"--spec mindspeed_llm.tasks.models.spec.{spec} layer_spec"] * bool(spec)
    words += ["--qk-layernorm"] * facts["qk_layernorm"]
    if facts["num_experts"]:
        words += [f"--num-experts {facts['num_experts']} --moe-router-topk {facts['top_k']} --moe-token-dispatcher-type alltoall"]
        words += [f"--moe-ffn-hidden-size {facts['expert_ffn_hidden_size']} --moe-grouped-gemm"]
        words += [f"--first-k-dense-replace {facts['leading_dense_layers']} --moe-layer-freq 1"] * bool(
            facts["leading_dense_layers"]
        )
        extended = facts["tp"] > 1 and facts["etp"] == 1
        words += [
            f"--expert-model-parallel-size {facts['ep'] // (facts['tp'] if extended else 1)}",
            *["--moe-tp-extend-ep"] * extended,
        ]
    if facts["cp"] > 1:
        algo = {"ring": "megatron", "ulysses": "ulysses", "hybrid": "hybrid"}[facts["cp_algo"]]
        words.append(f"--context-parallel-size {facts['cp']} --context-parallel-algo {algo}_cp_algo")
        words += [f"--ulysses-degree-in-cp {facts['cp'] // 2}"] * (algo == "hybrid")
    words += ["--use-distributed-optimizer"] * (facts.get("zero_stage") == 1)
    words += ["--sequence-parallel"] * facts["sequence_parallel"]
    words += {"fp32": [], "fp8": ["--bf16", "--fp8-format e4m3"]}.get(facts["precision"], [f"--{facts['precision']}"])
    text = f"torchrun --nproc_per_node {_devices(facts)} pretrain_gpt.py {' '.join(words)}\n"
    hardware = "atlas-950-superpod" if facts["precision"] == "fp8" else "atlas-800t-a2" if ascend else "h100-sxm-80gb"
    return text, ".sh", hardware


def _sizes(facts: dict[str, Any], layers: int) -> list[str]:
    words = [f"--num-layers {layers} --hidden-size {facts['hidden_size']} --num-attention-heads {facts['num_attention_heads']}"]
    words += [f"--seq-length {facts['seq_length']} --max-position-embeddings {facts['seq_length']}"]
    words += [f"--micro-batch-size {facts['micro_batch_size']} --global-batch-size {facts['global_batch_size']}"]
    words += [f"--tensor-model-parallel-size {facts['tp']} --pipeline-model-parallel-size {facts['pp']}"]
    words += [f"--ffn-hidden-size {facts.get('ffn_hidden_size')}"] * ("ffn_hidden_size" in facts)
    words += [f"--vocab-size {facts.get('vocab_size', 32_000)} --make-vocab-size-divisible-by 1"]
    words += ["--untie-embeddings-and-output-weights"] * (not facts["tied_embeddings"])
    words += [f"--mtp-num-layers {facts['mtp_num_layers']}"] * bool(facts["mtp_num_layers"])
    if "kv_channels" in facts:
        words.append(
            f"--kv-channels {facts['kv_channels']} --group-query-attention --num-query-groups {facts['num_query_groups']}"
        )
    return words


def _recompute(facts: dict[str, Any], layout: list[list[int]]) -> list[str]:
    whole, modules = facts.get("recomputed_layers", [0]), facts.get("recompute_modules", [])
    switches = {
        "mlp_act": "--recompute-activation-function",
        "layernorm": "--recompute-norm",
        "mla_up_proj": "--recompute-mla-up-proj",
    }
    words = [switches[module] for module in modules if module in switches]
    ranks = list(zip(*layout, strict=True))
    if whole == [sum(rank) for rank in ranks] and not words:
        return ["--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"]
    if not any(whole):
        others = [module for module in modules if module not in switches]
        return words + [f"--recompute-granularity selective --recompute-modules {' '.join(others)}"] * bool(others)
    block = "--recompute-granularity full --recompute-method block --recompute-num-layers"
    for each in range(1, max(map(sum, ranks)) + 1):
        if whole == [sum(min(each, count) for count in rank) for rank in ranks]:
            return [*words, f"{block} {each}"]
    return [*words, f"{block} {max(whole)} --enable-recompute-layers-per-pp-rank"]


def _mindformers(facts: dict[str, Any]) -> tuple[str, str, str]:
    layout, dp, stages = facts["layer_layout"], facts["dp"], facts["pp"] * facts["vpp"]
    offset = [[count - facts["num_layers"] // stages for count in row] for row in layout]
    routed, newer = bool(facts["num_experts"]), bool(facts["num_experts"] or facts["qk_layernorm"])
    kind = "qwen3_moe" if routed else "qwen3"
    model = {
        **({"model_type": kind, "params_dtype": "bfloat16"} if newer else {"type": "LlamaConfig"}),
        **{("num_hidden_layers" if newer else "num_layers"): facts["num_layers"]},
        **{("num_attention_heads" if newer else "num_heads"): facts["num_attention_heads"]},
        **{("num_key_value_heads" if newer else "n_kv_heads"): facts["num_query_groups"]},
        **({"head_dim": facts["kv_channels"]} if newer else {}),
        "hidden_size": facts["hidden_size"], "seq_length": facts["seq_length"], "vocab_size": facts["vocab_size"],
        "intermediate_size": facts.get("ffn_hidden_size", 6144), "offset": offset if facts["vpp"] > 1 else offset[0],
        "compute_dtype": {"bf16": "bfloat16", "fp16": "float16"}[facts["precision"]],
        "tie_word_embeddings": facts.get("tied_embeddings", False), "pp_interleave_num": facts["vpp"],
    }  # fmt: skip
    if routed:
        model |= {"num_experts": facts["num_experts"], "num_experts_per_tok": facts["top_k"]}
        model |= {"moe_intermediate_size": facts["expert_ffn_hidden_size"]}
    steps = facts["global_batch_size"] // facts["micro_batch_size"] // dp
    parallel = {
        "data_parallel": dp,
        "model_parallel": facts["tp"],
        "pipeline_stage": facts["pp"],
        "context_parallel": facts["cp"],
    }
    parallel |= {"expert_parallel": facts.get("ep", 1), "use_seq_parallel": facts["sequence_parallel"]}
    whole = facts.get("recomputed_layers", [])
    document = {
        "run_mode": "train",
        "use_legacy": not newer,
        "parallel_config": parallel | ({"micro_batch_num": steps} if facts["pp"] > 1 else {}),
        "runner_config": {
            "batch_size": facts["micro_batch_size"],
            "gradient_accumulation_steps": steps if facts["pp"] == 1 else 1,
        },
        "parallel": {
            "enable_parallel_optimizer": True,
            "parallel_optimizer_config": {"gradient_accumulation_shard": False},
            "pipeline_config": {"pipeline_interleave": facts["vpp"] > 1},
        },
        "recompute_config": {"recompute": whole == [sum(rank) for rank in zip(*layout, strict=True)] or (any(whole) and whole)},
        "model": {"model_config": model},
    }
    return yaml.safe_dump(document), ".yaml", "atlas-800t-a2"


def _torchtitan(facts: dict[str, Any]) -> tuple[str, str, str]:
    model, flavor = FLAVORS[facts["num_layers"]]
    every = facts["num_layers"] // facts["recomputed_layers"][0]
    mode = 'mode = "full"' if every == 1 else f'mode = "selective"\nselective_ac_option = "{every}"'
    text = (
        f'[model]\nname = "{model}"\nflavor = "{flavor}"\n'
        f"[training]\nlocal_batch_size = {facts['micro_batch_size']}\nseq_len = {facts['seq_length']}\n"
        f"[parallelism]\ntensor_parallel_degree = {facts['tp']}\n[activation_checkpoint]\n{mode}\n"
    )
    return text, ".toml", "h100-sxm-80gb"


def _fsdp2(facts: dict[str, Any]) -> tuple[str, str, str]:
    text = (
        f"torchrun --nproc_per_node {facts['devices']} train_fsdp2.py again.yaml --parallel.fsdp_size {facts['devices']} "
        f"--model.model_name_or_path ./{NAMED[facts['num_layers']]} "
        f"--training.per_device_train_batch_size {facts['micro_batch_size']}\n"
    )
    return text, ".sh", "atlas-800t-a2"


def _fsdp2_yaml(facts: dict[str, Any]) -> str:
    whole = facts["recomputed_layers"] != [0]
    lines = ["parallel:", f"  recompute: {whole}", "  recompute_modules:", "    - model.layers.{*}", f"  cp_size: {facts['cp']}"]
    lines += ["  cp_type: ring"] * (facts.get("cp_algo") == "ring")
    kind = "qwen3_moe" if facts["num_experts"] else ""
    return "\n".join([*lines, "model:", "  trust_remote_code: False", *[f"  model_id: {kind}"] * bool(kind),
                      "data:", f"  cutoff_len: {facts['seq_length']}", "training:", "  stage: pt"]) + "\n"  # fmt: skip


FILE_OF = {
    "megatron-lm": _megatron,
    "mindspeed-llm": _megatron,
    "mindformers": _mindformers,
    "torchtitan": _torchtitan,
    "mindspeed-llm-fsdp2": _fsdp2,
}
