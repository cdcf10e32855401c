"""Counts in messages are of one thing or of several."""

import pytest

import limelight
from limelight.base.counts import counted, there_are
from limelight.base.errors import Error


def test_one_thing_is_no_plural() -> None:
    assert [counted(each, "head") for each in (0, 1, 2)] == ["0 heads", "1 head", "2 heads"]
    assert [counted(each, "axis", "axes") for each in (1, 2)] == ["1 axis", "2 axes"]
    assert there_are(2, "heads of word") == "there are 2 heads of word"
    names = ("heads of word", "patches", "queries", "classes", "one", "glass")
    ones = ("head of word", "patch", "query", "class", "one", "glass")
    assert [there_are(1, each) for each in names] == [f"there is 1 {each}" for each in ones]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("paper", {"heads": 3}, "is 3; there is 1 head of word"),
        ("tiny", {"keys": 9}, "is 9; there is 1 key of encoder.0.self"),
        ("tiny", {"heads": 7}, "is 7; there are 2 heads of encoder.0.self"),
        ("tiny", {"seed": [1, 2]}, "2 seeds for 1 instance: "),
    ],
)
def test_messages_count_right(client: limelight.Client, model: str, options: dict, message: str) -> None:
    with pytest.raises((Error, ValueError), match=message):
        client.attend(model, "cat", **options)
