import pytest

from calibration.records.origin import CODE_HOSTS, PUBLISHED_RULE, origin_of


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://github.com/Ascend/MindSpeed-LLM (mirror of gitee.com/ascend/ModelLink)", "ascend/mindspeed-llm"),
        ("https://gitcode.com/Ascend/MindSpeed-LLM/blob/master/README.md", "ascend/mindspeed-llm"),
        ("https://github.com/bigscience-workshop/bigscience.git", "bigscience-workshop/bigscience"),
        ("https://arxiv.org/abs/2104.04473", "arxiv.org/abs/2104.04473"),
        ("www.mindspore.cn/docs/a.html", "mindspore.cn/docs/a.html"),
        ("https://[bad", "https://[bad"),
        ("   ", ""),
    ],
)
def test_a_publication_is_a_repository_or_a_page(url: str, place: str) -> None:
    assert origin_of({"url": url}, None).publication == place


def test_two_documents_of_one_repository_are_two_publications() -> None:
    url = f"https://{CODE_HOSTS[0]}/a/b"
    tables, tests = (origin_of({"url": url, "title": title}, None).publication for title in ("Some  Table", "CI baselines"))
    assert (tables, tests) == ("a/b | some table", "a/b | ci baselines")


@pytest.mark.parametrize(
    ("date", "year"),
    [
        ("2024-07-01", 2024.5),
        ("2024-07-16", 2024.5403),  # fifteen of a month's 31 days, a twelfth of a year: 0.0403
        ("2024-07", 2024.5),
        ("2022", 2022.0),
        ("as of 2021-11 (v2)", 2021.8333),
        ("2024-13", 2024.0),  # no such month
    ],
)
def test_a_date_is_a_day_a_month_or_a_year(date: str, year: float) -> None:
    assert origin_of({"date": date}, 2019.0).published == year


def test_without_a_date_the_software_tells_and_else_nothing() -> None:
    assert origin_of({"date": None}, 2023.5).published == 2023.5
    assert origin_of("no section", None).published is None
    assert origin_of({"date": "12024", "url": 3}, None).published is None
    assert [name for name, _ in PUBLISHED_RULE] == ["source.date", "software"]
