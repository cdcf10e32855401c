"""Columns that are made when they are looked at."""

from limelight.v1 import attention_pb2
from limelight_bundle.label_columns import LazyColumn


def test_a_column_is_made_once_and_only_for_who_looks() -> None:
    made = []

    def make() -> list[int]:
        made.append(1)
        return [3, 4, 5]

    column = LazyColumn(3, make)
    assert len(column) == 3 and column and not made
    assert column[0] == 3 and column[1:] == [4, 5] and list(column) == [3, 4, 5] and 4 in column
    assert column == [3, 4, 5] and column == LazyColumn(3, lambda: (3, 4, 5)) and column != [3, 4]
    assert made == [1]
    assert attention_pb2.LabelSet(starts=column).starts == [3, 4, 5]
