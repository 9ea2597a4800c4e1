"""The presets against the sizes their publishers state."""

import dataclasses
from pathlib import Path

import pytest

from app.catalogue.models.presets import known_name, model_details, model_preset, names, preset_details, resolve_model, rows
from app.catalogue.models.shape import model_from_mapping
from cost_models.shapes.parameters import num_parameters
from documents.errors import InputError

ROOT = Path(__file__).parents[5]

PROMISED = """
pangu-ultra-moe-718b pangu-pro-moe-72b pangu-ultra-135b deepseek-v3 deepseek-v2 deepseek-v2-lite qwen3-8b qwen3-32b
qwen3-30b-a3b qwen3-235b-a22b qwen2.5-72b llama-2-7b llama-2-13b llama-2-70b llama-3.1-8b llama-3.1-70b llama-3.1-405b
mixtral-8x7b mixtral-8x22b gpt3-175b megatron-22b megatron-530b megatron-1t glm4-9b
deepseek-v3.2 glm-5 glm-4.6 ling-mini-2.0 ling-flash-2.0 ling-1t openpangu-embedded-7b
kimi-k2 glm-4.5 glm-4.5-air gpt-oss-20b gpt-oss-120b qwen3-next-80b-a3b minimax-m2 seed-oss-36b
qwen3-1.7b qwen3-4b qwen3-14b qwen2.5-7b qwen2.5-14b qwen2.5-32b
nemotron-h-8b nemotron-nano-9b-v2 nemotron-3-nano-30b-a3b
""".split()

# Total, then active: half a unit of the last published digit, unless a reason stands beside it.
TOLERANCE = {
    "deepseek-v2": (0.0022, 0.024),
    "deepseek-v2-lite": (0.0032, 0.022),  # 2.4 for 2.451
    "deepseek-v3": (0.0008, 0.0014),
    "deepseek-v3.2": (0.0001, None),
    "glm-5": (0.0007, 0.0209),  # 40 for 40.83
    "glm-4.6": (0.0063, 0.0268),  # as GLM-4.5
    "ling-mini-2.0": (0.0003, 0.0021),
    "ling-flash-2.0": (0.0289, 0.0086),  # "100B" for 102.9
    "ling-1t": (0.0003, 0.0212),  # "A50B" for 51.05
    "openpangu-embedded-7b": (0.0002, None),
    "nemotron-h-8b": (0.0002, None),
    "nemotron-nano-9b-v2": (0.0003, None),
    "nemotron-3-nano-30b-a3b": (0.0008, 0.0087),
    "glm4-9b": (0.0006, None),
    "glm-4.5": (0.0063, 0.0268),  # 355 with the prediction layer
    "glm-4.5-air": (0.0081, 0.067),  # "A12B" rounds 12.80 down
    "gpt-oss-20b": (0.0003, 0.0005),
    "gpt-oss-120b": (0.0001, 0.0006),
    "gpt3-175b": (0.0029, None),
    "kimi-k2": (0.0001, 0.0081),  # 32.6 active for 32.86
    "llama-2-7b": (0.0008, None),
    "llama-2-13b": (0.0004, None),
    "llama-2-70b": (0.0001, None),
    "llama-3.1-8b": (0.0007, None),
    "llama-3.1-70b": (0.0001, None),
    "llama-3.1-405b": (0.0022, None),  # 405 for 405.85
    "megatron-22b": (0.0228, None),
    "megatron-530b": (0.001, None),
    "megatron-1t": (0.0001, None),
    "minimax-m2": (0.0058, 0.0416),  # 230 for 228.69, "A10B" for 10.42
    "mixtral-8x7b": (0.0011, 0.0039),
    "mixtral-8x22b": (0.0036, 0.0129),
    "pangu-pro-moe-72b": (0.007, 0.032),  # "A16B" rounds 16.50 down
    "pangu-ultra-135b": (0.0085, None),  # the report's width and depth give 133.9 B; it names no other parameters
    "pangu-ultra-moe-718b": (0.0016, 0.0129),  # 719.1 B without MTP: the configuration's, not the rounding
    "qwen2.5-7b": (0.0008, None),
    "qwen2.5-14b": (0.0048, None),  # 14.7 for 14.77
    "qwen2.5-32b": (0.0082, None),  # 32.5 for 32.76
    "qwen2.5-72b": (0.0007, None),
    "qwen3-1.7b": (0.0122, None),
    "qwen3-4b": (0.0057, None),
    "qwen3-8b": (0.0061, None),
    "qwen3-14b": (0.0022, None),
    "qwen3-32b": (0.0016, None),
    "qwen3-30b-a3b": (0.0017, 0.0165),  # 3.3 for 3.353
    "qwen3-235b-a22b": (0.0022, 0.0228),
    "qwen3-next-80b-a3b": (0.0041, 0.188),  # "A3B" for 3.56 with the head, 3.25 without
    "seed-oss-36b": (0.0042, None),
}


def test_every_promised_name_is_there() -> None:
    assert set(names()) == set(PROMISED)
    assert set(TOLERANCE) == set(PROMISED)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("qwen3-1.7b", 1_720_574_976),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-14b", 14_768_307_200),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-14b", 14_770_033_664),
        ("qwen2.5-32b", 32_763_876_352),
        ("deepseek-v3.2", 671_877_929_216),
        ("glm-5", 743_911_199_232),
        ("glm-4.6", 352_797_814_784),
        ("openpangu-embedded-7b", 8_030_887_936),  # of Llama's class with biases
        ("ling-mini-2.0", 16_255_638_528),  # of the publisher's classes, as the next two
        ("ling-flash-2.0", 102_889_697_280),
        ("ling-1t", 999_705_309_184),
        ("nemotron-h-8b", 8_100_852_736),
        ("nemotron-nano-9b-v2", 8_888_227_328),
        ("nemotron-3-nano-30b-a3b", 31_577_937_344),
    ],
)
def test_a_preset_has_the_parameters_that_transformers_builds(name: str, parameters: int) -> None:
    """Transformers 5.24, classes of the same types and sizes on the meta device, tied tables counted once."""
    assert num_parameters(model_preset(name).model).total == parameters


@pytest.mark.parametrize("name", PROMISED)
def test_dimensions_give_the_published_size(name: str) -> None:
    preset = model_preset(name)
    counts = num_parameters(preset.model)
    total, active = TOLERANCE[name]
    assert counts.total == pytest.approx(preset.published.parameters, rel=total)
    assert (preset.published.active_parameters is None) == (active is None)
    if active is not None:
        embedding = counts.embedding if preset.published.active_includes_embedding else 0
        assert counts.active + embedding == pytest.approx(preset.published.active_parameters, rel=active)


def test_llama_2_7b_by_hand() -> None:
    # 32 layers: attention 4 x 4096^2 = 67,108,864; MLP 3 x 4096 x 11008 = 135,266,304; two norms 8,192: 202,383,360 each.
    # Embedding and head: 2 x 32000 x 4096 = 262,144,000; last norm 4,096.
    assert num_parameters(model_preset("llama-2-7b").model).total == 32 * 202_383_360 + 262_144_000 + 4_096


@pytest.mark.parametrize("name", PROMISED)
def test_every_preset_is_complete(name: str) -> None:
    preset = model_preset(name)
    assert preset.model.name == name
    assert preset.title
    assert preset.source.text
    assert set(preset.default_training.sources) >= {"seq_length", "global_batch_size", "precision"}
    assert all(source.text for source in preset.default_training.sources.values())
    fields = (*dataclasses.fields(preset.model), *dataclasses.fields(preset.model.constants))
    known = {field.name for field in fields} | {"expert_ffn_hidden_size"}
    assert set(preset.unconfirmed) <= known
    assert len(preset.model.moe_layers()) == preset.model.num_layers


@pytest.mark.parametrize("name", PROMISED)
def test_every_preset_states_its_constants_or_names_what_is_not_published(name: str) -> None:
    preset = model_preset(name)
    constants = preset.model.constants
    assert constants.activation is not None
    assert constants.normalization is not None
    for field in ("norm_epsilon", "rotary_base", "max_position_embeddings"):
        needed = field != "rotary_base" or not (preset.model.learned_positions or preset.model.no_positions)
        assert not needed or (getattr(constants, field) is None) == (field in preset.unconfirmed), field
    router = dataclasses.asdict(constants.router)
    assert (None in router.values()) == (preset.model.moe is None)


def test_published_batches() -> None:
    batches = {name: model_preset(name).default_training.global_batch_size for name in names()}
    assert [batches[f"megatron-{size}"] for size in ("22b", "530b", "1t")] == [4, 280, 512]  # Korthikanti et al., Table 3
    assert batches["deepseek-v3"] == 15360
    assert batches["llama-3.1-405b"] * 8192 == 2**24  # "16M tokens"


def test_pangu_ultra_moe_differs_from_deepseek_v3_as_its_configuration_does() -> None:
    pangu, deepseek = model_preset("pangu-ultra-moe-718b").model, model_preset("deepseek-v3").model
    assert (pangu.hidden_size, pangu.vocab_size, pangu.sandwich_norm) == (7680, 153600, True)
    assert pangu.mla == deepseek.mla
    assert pangu.moe_layers() == deepseek.moe_layers()
    assert sum(pangu.moe_layers()) == 58


def test_unpublished_training_is_marked() -> None:
    training = model_preset("pangu-ultra-moe-718b").default_training
    assert (training.seq_length, training.global_batch_size) == (8192, 6144)
    assert training.sources["global_batch_size"].basis == "assumed"
    assert training.why("global_batch_size").startswith("from the preset (assumed: ")
    assert training.why("train_tokens").startswith("from the preset (vendor: ")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("deepseek-v33", "the nearest is deepseek-v3"),
        ("Qwen/Qwen3-9B", "the nearest is qwen3-8b"),
        ("qwen3-30b", "the nearest is qwen3-30b-a3b"),
        ("pangu", "the nearest are openpangu-embedded-7b, pangu-pro-moe-72b, pangu-ultra-135b, pangu-ultra-moe-718b"),
        ("zz", "there are deepseek-v2"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(given: str, hint: str) -> None:
    with pytest.raises(InputError, match="is not a preset") as caught:
        model_preset(given)
    assert hint in str(caught.value)
    assert repr(given) in str(caught.value)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Qwen3-8B", "qwen3-8b"),
        ("moonshotai/Kimi-K2-Base", "kimi-k2"),  # of the preset's own source
        ("deepseek-ai/deepseek-v3.2-exp", "deepseek-v3.2"),
        ("inclusionAI/Ling-1T", "ling-1t"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("deepseek_v3", "deepseek-v3"),
        ("meta-llama/Llama-3.1-70B", "llama-3.1-70b"),
    ],
)
def test_a_preset_is_found_in_any_case_and_behind_an_organisation(given: str, name: str) -> None:
    assert known_name(given) == name
    assert model_preset(given) == model_preset(name)


def test_a_file_comes_before_a_preset_behind_an_organisation(tmp_path: Path) -> None:
    assert resolve_model("Qwen/Qwen3-8B", folder=tmp_path)[1] == model_preset("qwen3-8b")
    (tmp_path / "Qwen").mkdir()
    (tmp_path / "Qwen" / "Qwen3-8B").write_text("{}")
    with pytest.raises(InputError, match="model_type"):
        resolve_model("Qwen/Qwen3-8B", folder=tmp_path)


def test_rows_and_details_are_plain() -> None:
    by_name = {row["name"]: row for row in rows()}
    assert len(by_name) == len(PROMISED)
    assert by_name["deepseek-v3"]["num_experts"] == 256
    assert by_name["llama-2-7b"]["num_experts"] is None
    details = preset_details("qwen3-8b")
    assert details["default_training"]["train_tokens"]["value"] == 36e12
    assert details["num_parameters"]["total"] == num_parameters(model_preset("qwen3-8b").model).total


@pytest.mark.parametrize("name", PROMISED)
def test_details_describe_the_model_completely(name: str) -> None:
    model = model_preset(name).model
    assert model_from_mapping(model_details(model)["model"]) == model


def test_a_job_names_a_preset_a_file_or_gives_a_mapping(tmp_path: Path) -> None:
    model, preset = resolve_model("llama-2-7b")
    assert preset is not None
    assert model is preset.model
    mapping = model_details(model)["model"]
    assert resolve_model(mapping) == (model, None)
    config = ROOT / "tests" / "fixtures" / "huggingface" / "llama-2-7b.json"
    imported, preset = resolve_model(config.name, folder=config.parent)
    assert preset is None
    assert imported == dataclasses.replace(model, name="llama-2-7b")


def test_files_are_only_read_where_a_folder_is_given(tmp_path: Path) -> None:
    secret = tmp_path / "config.json"
    secret.write_text("{}")
    with pytest.raises(InputError, match="is not a preset"):
        resolve_model(str(secret))
    with pytest.raises(InputError, match="model_type: missing"):
        resolve_model(str(secret), folder=tmp_path)


def table_rows(heading: str) -> dict[str, list[str]]:
    """The cells of one table in docs/models.md by preset."""
    section = (ROOT / "docs" / "models.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_the_documentation_lists_every_preset_as_it_is() -> None:
    dimensions, sources = table_rows("Dimensions"), table_rows("Sources of the dimensions")
    sizes, trainings = table_rows("Sizes"), table_rows("Default training")
    assert set(dimensions) == set(sources) == set(sizes) == set(trainings) == set(PROMISED)
    for name in PROMISED:
        preset = model_preset(name)
        model, training = preset.model, preset.default_training
        heads = f"{model.num_attention_heads} / {model.num_query_groups} x {model.kv_channels}"
        layers, hidden, attention, _, experts, vocabulary, _ = dimensions[name]
        assert layers.split()[0] == str(model.num_layers)
        assert (hidden, attention.removeprefix("MLA, "), vocabulary) == (str(model.hidden_size), heads, str(model.vocab_size))
        assert experts.split(",")[0] == (f"{model.moe.num_experts} x {model.moe.expert_ffn_hidden_size}" if model.moe else "-")
        assert sources[name][0] == preset.source.basis
        assert preset.source.text in sources[name][1]
        assert sizes[name][0] == f"{num_parameters(model).total / 1e9:.4g} B"
        assert trainings[name][1] == f"{training.global_batch_size} ({training.sources['global_batch_size'].basis})"
