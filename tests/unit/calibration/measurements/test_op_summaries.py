"""Rates out of msprof's operator summaries, with the FLOPs worked by hand."""

import pytest

from calibration.measurements import op_summaries
from calibration.measurements.op_summaries import OpSummaryError, best_matmuls, parse_op_summary

HEADER = (
    "Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us),Block Dim,"
    "Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats"
)


def row(kind: str, time_us: str, inputs: str, outputs: str, types: str = "DT_BF16;DT_BF16", formats: str = "ND;ND") -> str:
    return (
        f'4294967295,7,2,aclnn{kind}_{kind},{kind},AI_CORE,1720000000000.5,{time_us},0.5,24,"""{inputs}""",'
        f'{types},{formats},"""{outputs}""",DT_BF16,ND'
    )


def parsed(*rows: str) -> dict[str, float]:
    return {rate.kind: rate.flops_per_s for rate in parse_op_summary([HEADER, *rows])}


@pytest.mark.parametrize(
    "inputs",
    ["4096,8192;8192,2048", "8192,4096;8192,2048", "4096,8192;2048,8192", "8192,4096;2048,8192", "4096,8192;8192,2048;2048"],
)
def test_a_matmul_counts_the_same_whatever_is_transposed(inputs: str) -> None:
    # 2 x 4096 x 2048 x 8192 = 137.44 GFLOP in 500 us = 274.88 TFLOPS
    assert parsed(row("MatMulV2", "500", inputs, "4096,2048")) == {"matmul": pytest.approx(274.877906944e12)}


def test_a_time_that_no_clock_can_tell_is_no_time() -> None:
    with pytest.raises(OpSummaryError, match="no row is a matmul"):
        parse_op_summary([HEADER, row("MatMulV2", "1e-320", "4096,8192;8192,2048", "4096,2048")])


def test_batches_multiply() -> None:
    # 6 x 2 x 128 x 64 x 256 = 25,165,824 FLOP in 10 us
    found = parsed(row("BatchMatMulV3", "10", "2,3,128,256;2,3,256,64", "2,3,128,64"))
    assert found == {"matmul": pytest.approx(25_165_824 / 10e-6)}


@pytest.mark.parametrize(
    ("inputs", "output"), [("1000,512;8,512,2048;;;8", "1000,2048"), ("512,1000;1000,2048;;;8", "8,512,2048")]
)
def test_experts_share_the_tokens(inputs: str, output: str) -> None:
    dense = row("MatMul", "1", "16,16;16,16", "16,16")
    # 2 x 1000 x 512 x 2048 = 2,097,152,000 FLOP in 20 us, forward and for the gradient of the weights
    assert parsed(dense, row("GroupedMatmul", "20", inputs, output))["grouped_matmul"] == pytest.approx(2_097_152_000 / 20e-6)


@pytest.mark.parametrize("query", ["1,32,4096,128", "1,4096,4096", "4096,1,4096"])
def test_attention_takes_its_heads_from_the_softmax_statistics(query: str) -> None:
    dense = row("MatMul", "1", "16,16;16,16", "16,16")
    # BNSD, BSH and SBH of 32 heads of 128: 4 x 32 x 4096^2 x 128 = 274.88 GFLOP in 2,000 us
    attention = row("FlashAttentionScore", "2000", f"{query};{query};{query}", f"1,32,4096,8;1,32,4096,8;;{query}")
    assert parsed(dense, attention)["attention"] == pytest.approx(137.438953472e12)


def test_the_median_of_equal_shapes_counts_and_the_fastest_is_best() -> None:
    slow = [row("MatMulV2", str(time), "4096,4096;4096,4096", "4096,4096") for time in (700, 500, 9000)]
    fast = row("MatMulV2", "100", "2048,2048;2048,2048", "2048,2048")
    rates = parse_op_summary([HEADER, *slow, fast])
    assert [rate.count for rate in rates] == [3, 1]  # the most work first
    assert rates[0].flops_per_s == pytest.approx(2 * 4096**3 / 700e-6)
    assert best_matmuls(rates)["bf16"].count == 3  # 196 TFLOPS against 172


@pytest.mark.parametrize(
    "odd",
    [
        row("MatMulV2", "N/A", "64,64;64,64", "64,64"),
        row("MatMulV2", "nan", "64,64;64,64", "64,64"),
        row("MatMulV2", "-1", "64,64;64,64", "64,64"),
        row("MatMulV2", "1", "64,65;64,64", "64,64"),
        row("MatMulV2", "1", "N/A", "N/A"),
        row("MatMulV2", "1", "64,64;64,64", "64,64", types="INT8;INT8"),
        row("MatMulV2", "1", "64,64;64,64", "64,64", types="DT_BF16;INT8"),
        row("BatchMatMul", "1", "4,4,16,16;4,4,16,16", "4,4,16,16", formats="FRACTAL_NZ;FRACTAL_NZ"),
        row("MatMulV2", "1", "64,99999999999999999999;64,64", "64,64"),
        row("Add", "1", "64,64;64,64", "64,64"),
        "1,2",
    ],
)
def test_rows_that_say_too_little_are_left_out(odd: str) -> None:
    with pytest.raises(OpSummaryError, match="no row is a matmul"):
        parse_op_summary([HEADER, odd])
    assert len(parse_op_summary([HEADER, odd, row("MatMul", "1", "16,16;16,16", "16,16")])) == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no column OP Type"),
        (["Op Name,OP Type,Task Duration(us)"], "no column Input Shapes"),
        ([HEADER, "x" * 200_000], "is not CSV"),
    ],
)
def test_other_files_are_refused(lines: list[str], said: str) -> None:
    with pytest.raises(OpSummaryError, match=said):
        parse_op_summary(lines)


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_summaries, "MAX_ROWS", 2)
    with pytest.raises(OpSummaryError, match="more than 2 rows"):
        parse_op_summary([HEADER, "", "", ""])


def test_kernel_details_of_torch_npu_are_read_too() -> None:
    lines = [
        "Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes,Input Data Types,"
        "Input Formats,Output Shapes,Output Data Types,Output Formats",
        '0,MatMulV2,MatMulV2,AI_CORE,1000,100,1,24,"""1024,1024;1024,1024""",FLOAT16;FLOAT16,ND;ND,"""1024,1024""",FLOAT16,ND',
    ]
    (rate,) = parse_op_summary(lines)
    assert (rate.precision, rate.flops_per_s) == ("fp16", pytest.approx(2 * 1024**3 / 100e-6))
