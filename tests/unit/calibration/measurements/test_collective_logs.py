import pytest

from calibration.measurements.collective_logs import CollectiveLogError, parse_collective_log

HCCL = """the minbytes is 8192, maxbytes is 67108864, iters is 20, warmup_iters is 5
data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:
8192              |     764.55    |       0.00998        | success
16384             |     858.80    |       0.01777        | failed
67108864          |    2630.20    |      23.76245        | NULL
"""
NCCL = """# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid   2748 on host device  0 [0x01] NVIDIA H100
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     0.19    0.00    0.00      0     0.18    0.00    0.00      0
     1048576        262144     float     sum      -1    52.47   19.98   34.97      0    51.99   20.17   35.30      0
   134217728      33554432     float     sum      -1   1012.3  132.59  232.03      0   1011.0  132.76  232.33      0
     1048576        262144     float     sum      -1    50.10   20.93   36.63      0    51.99   20.17   35.30      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 133.5
"""
OLD_NCCL = (
    "1048576 262144 float sum 163.4 6.42 11.2 2e-07 164.4 6.38 11.16 1e-07\n2097152 524288 float sum 300.1 6.99 12.2 2e-07\n"
)


def test_hccl_test_is_read_without_failed_sizes() -> None:
    log = parse_collective_log(HCCL, "all_reduce", 8)
    assert log.message_bytes == (8192.0, 67108864.0)
    assert log.time_us == (764.55, 2630.20)


def test_nccl_tests_are_read_out_of_place_with_the_shorter_of_two_times() -> None:
    log = parse_collective_log(NCCL, "all_reduce", 8)
    assert log.message_bytes == (1048576.0, 134217728.0)
    assert log.time_us == (50.10, 1012.3)


def test_older_releases_have_no_root_column() -> None:
    assert parse_collective_log(OLD_NCCL, "all_reduce", 16).time_us == (163.4, 300.1)


def test_a_gather_counts_its_shard() -> None:
    # nccl-tests print what all eight ranks hold afterwards: 1 MiB is a shard of 128 KiB.
    assert parse_collective_log(NCCL, "all_gather", 8).message_bytes == (131072.0, 16777216.0)


@pytest.mark.parametrize(
    ("text", "op", "part"),
    [
        ("", "all_reduce", "holds 0 lines"),
        ("8192 | 1.0 | 2.0 | success", "all_reduce", "holds 1 lines"),
        ("no table here\n" * 3, "all_reduce", "a curve needs two"),
        (HCCL, "all_gather", "whether its data_size"),
        (NCCL, "broadcast", "operation 'broadcast' is none of"),
        ("\n".join(f"{8 * i} 1 float 1.0 1.0 1.0" for i in range(1, 300)), "all_to_all", "at most 200"),
    ],
)
def test_what_is_no_curve_is_refused(text: str, op: str, part: str) -> None:
    with pytest.raises(CollectiveLogError, match=part):
        parse_collective_log(text, op, 8)
