"""Finished sentences are found among the templates, with their values, and in parts where they were put together."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.language.translating import MAX_LENGTH, MAX_TRIED, Translator, translator, translator_of

CATALOGUE = {
    "{0}: {1} is not allowed; give {2}": "{0}：不允许 {1}；请给出{2}",
    "an integer from {0} to {1}": "{0} 至 {1} 的整数",
    "{0} takes {1} of the step": "{0}占单步的 {1}",
    ", then {0}": "，其次是{0}",
    "the pipeline bubble": "流水线空泡",
    "expert communication": "专家通信",
    "{0} of {1}": "{1} 中的 {0}",
    "{0} GiB stay free": "余量 {0} GiB",
    "{0} fit in {1} device{2}": "{1} 个设备容纳 {0}",
    "No plan exists": "不存在方案",
    "{0} strategies, {1}{2} fit": "{0} 个策略，{1}能容纳 {2} 个",
    "{0} ruled out,": "排除 {0} 个，",
}


@pytest.fixture(scope="module")
def chinese() -> Translator:
    return translator_of(CATALOGUE)


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("No plan exists.", "不存在方案。"),
        ("no plan exists", "不存在方案"),
        ("search.tp: 'x' is not allowed; give an integer from 1 to 8.", "search.tp：不允许 'x'；请给出 1 至 8 的整数。"),
        ("The pipeline bubble takes 40 % of the step.", "流水线空泡占单步的 40%。"),
        (
            "The pipeline bubble takes 40 % of the step, then expert communication (20 %) and the pipeline bubble (9 %); "
            "3 GiB stay free.",
            "流水线空泡占单步的 40%，其次是专家通信（20%）和流水线空泡（9%）；余量 3 GiB。",
        ),
        ("2 fit in 8 devices", "8 个设备容纳 2"),
        ("9 strategies, 4 fit", "9 个策略，能容纳 4 个"),
        ("9 strategies, 3 ruled out, 4 fit", "9 个策略，排除 3 个，能容纳 4 个"),
        ("No plan exists. 3 GiB stay free.", "不存在方案。余量 3 GiB。"),
        ("a sentence of ours that nobody translated", "a sentence of ours that nobody translated"),
        ("'a and b' or 'c'", "'a and b' 或 'c'"),
        ("[1, 2]", "[1, 2]"),
        ("tp 4, pp 2", "tp 4, pp 2"),
        ("", ""),
    ],
)
def test_sentences_are_read_as_they_were_made(chinese: Translator, english: str, expected: str) -> None:
    assert chinese(english) == expected


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        (
            "strategy.layer_layout = the default (not given): a layer moved from virtual stage 1 to 2 of 4 would make the step "
            "1.7 % slower, peak -6.6 GiB",
            "strategy.layer_layout = 默认值（未给出）：改为把一层从第 1 个虚拟阶段移到第 2 个（共 4 个）"
            "会使单步慢 1.7%，峰值 -6.6 GiB",
        ),
        (
            "The baseline is 0.7% faster than plan 1: it saves 1.5 s on optimizer. It also needs 64.1 GiB of device memory, "
            "6.5 GiB too much: the limit is 60.3 GiB, of which 2.7 GiB are kept free to be 90 % sure.",
            "基线比方案 1 快 0.7%：其中减少优化器 1.5 s。它还需要 64.1 GiB 显存，超出 6.5 GiB：上限为 60.3 GiB，"
            "其中 2.7 GiB 为达到 90% 的把握而预留。",
        ),
        (
            "training.precision = bf16 from the preset (assumed: not stated in the paper; weights were released in half "
            "precision): fp16 would make the step 1.4 % faster, peak -3.2 GiB",
            "training.precision = bf16，来自预置（假设：论文未说明；发布的权重为半精度）："
            "改为 fp16 会使单步快 1.4%，峰值 -3.2 GiB",
        ),
        (
            "device_days is 468.4 device-days, but at most 50.0 device-days is allowed.",
            "device_days 为 468.4 设备天，而只允许至多 50.0 设备天。",
        ),
        (
            "mc2 over tp 8 excludes experts (256) (mindspeed_mc2); moe_comm_overlap over ep 64 needs moe_dispatcher alltoall "
            "(it is two_level), and excludes overlap_grad_reduce (mindspeed_fb_overlap).",
            "tp 8 上的 mc2 与专家（256 个）互斥（mindspeed_mc2）；ep 64 上的 moe_comm_overlap 需要 moe_dispatcher alltoall"
            "（其值为 two_level），且与 overlap_grad_reduce 互斥（mindspeed_fb_overlap）。",
        ),
        ("model.ffn_hidden_size: None is not stated, read as 57344.", "model.ffn_hidden_size: None 没有给出，读作 57344。"),
    ],
)
def test_sentences_made_of_several_are_read_in_their_order(english: str, expected: str) -> None:
    assert translator("zh")(english) == expected


def test_the_longest_sentence_of_a_job_is_read_whole_though_nothing_is_remembered() -> None:
    """It has some 4,700 parts, of which each is looked at."""
    degrees = "1.28 at EP8, 1.53 at EP16, 1.98 at EP32, 2.84 at EP64"
    sentence = (
        f"training.router_balance = auxiliary-loss (usual of the model: the fullest expert rank has {degrees} x the mean in "
        "time, and in memory, in 90% of the steps, 1.24, 1.41, 1.71, 2.25; spread of the inference of trained models over "
        "domains of data: DeepSeek-V2-Lite, OLMoE): forced would make the step 23.9 % faster, peak +0.0 GiB"
    )
    translate = translator("zh")
    translate.known.clear()
    assert "（该模型的通常情况：最满的专家 rank 在时间上为平均值的" in translate(sentence)
    assert sentence in translate.known


def test_a_source_is_translated_where_all_of_it_is_understood_and_is_a_name_otherwise() -> None:
    translate = translator("zh")
    assert translate.remark("the paper does not say") == "论文未说明"
    assert (
        translate.remark("38,800 USD a device of x (inferred, y) over 4 years, 80% used")
        == "x 每设备 38,800 USD（推算，y），使用 4 年，利用率 80%"
    )
    for name in ("inferred", "msmodeling; mindstudio", "arXiv 2307.09288, Table 1", 'README.md row "BloomZ 7B1 1x8"'):
        assert translate.remark(name) == name


def test_lines_are_translated_each_with_the_blanks_before_it(chinese: Translator) -> None:
    assert chinese("  No plan exists.\n\n    tp=4\n") == "  不存在方案。\n\n    tp=4\n"


@given(value=st.text("abcdefg_0123456789.中文'[]", min_size=1, max_size=40))
def test_values_stay_as_they_are(chinese: Translator, value: str) -> None:
    assert chinese(f"search.tp: {value!r} is not allowed; give an integer from 1 to 8.") == (
        f"search.tp：不允许 {value!r}；请给出 1 至 8 的整数。"
    )


@given(text=st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    assert isinstance(translator("zh")(text), str)


@pytest.mark.parametrize(
    "piece", ["tp 8 x cp 1 x ", "(a; b: ", "is not allowed; give ", "and the plan, ", "of the step, then ", "a, b and c; d. E "]
)
def test_a_text_made_to_be_ambiguous_is_read_in_few_parts(piece: str) -> None:
    """The parts that were looked at are remembered; without a bound they would double with each word."""
    translator("zh").known.clear()
    translator("zh")(piece * (MAX_LENGTH // len(piece)))
    assert len(translator("zh").known) < 3 * MAX_LENGTH


def test_a_line_that_would_take_long_is_left_and_not_remembered() -> None:
    words = ["the", "plan", "(", ")", ";", ":", "and", "or", ",", "step", "is", "of", "needs", "fits.", "model", "'", "device"]
    hostile = " ".join(Random(1).choices(words, k=420))
    translate = translator("zh")
    translate.known.clear()
    translate(hostile)
    assert hostile not in translate.known
    assert len(translate.known) <= MAX_TRIED
    assert translate("No plan exists.") != "No plan exists."


def test_what_is_longer_than_any_sentence_is_none(chinese: Translator) -> None:
    assert chinese("No plan exists." + " " * MAX_LENGTH) == "No plan exists." + " " * MAX_LENGTH
