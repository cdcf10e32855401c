"""Sizes that graphs state as expressions, compared with the size of an axis."""

import pytest

from limelight_export.surgery.derived_sizes import equals_size


@pytest.mark.parametrize(
    ("derived", "most", "equal"),
    [
        ("n", 0, True),
        ("Min(64, n)", 0, False),
        ("Min(64, n)", 50, True),
        ("Min(n, 4*(((n + (PythonMod(-n, 4)))//4)))", 0, True),
        ("2*((n // 2))", 0, False),
        ("Max(2, n)", 0, False),
        ("n + 1", 0, False),
        ("n*m", 0, True),  # nothing is known of the other axis
        ("Other(n)", 0, True),
        ("Min()", 0, True),
        ("n//0", 0, True),
        ("a name", 0, True),
        ("+".join(["n"] * 20_000), 0, True),
        ("(" * 20_000, 0, True),
        ("9" * 5000, 0, True),
    ],
)
def test_an_expression_is_compared_or_left_alone(derived: str, most: int, equal: bool) -> None:
    assert equals_size(derived, "n", most) is equal
