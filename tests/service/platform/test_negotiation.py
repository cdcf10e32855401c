"""What a caller takes is read as RFC 9110 has it, whatever stands in the field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_service.platform.negotiation import chosen, ranges, takes_coding

JSON, BYTES = "application/json", "application/octet-stream"


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        ("", JSON),
        (" , ,", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (BYTES, BYTES),
        ("Application/Octet-Stream", BYTES),
        (f"{BYTES};q=0.9, {JSON};q=0.8", BYTES),
        (f"{JSON};q=0.8, {BYTES};q=0.9", BYTES),
        (f"{JSON}, {BYTES}", JSON),  # as gladly: the first
        (f"{BYTES}, {JSON}", BYTES),
        (f"*/*, {BYTES}", BYTES),  # as gladly: the one that is named
        (f"{BYTES};q=0", None),
        (f"{BYTES};Q=0.0, */*", JSON),
        (f"{BYTES} ; q = 0.000 ,*/*;q=0.1", JSON),
        (f"*/*;q=0, {BYTES}", BYTES),
        (f"application/*;q=0.5, {JSON};q=0.1", BYTES),
        (f"*/*;q=0.9, application/*;q=0.2, {BYTES};q=0.3", BYTES),
        (f'{BYTES};a="x, {JSON};q=1";q=0.2, {JSON};q=0.1', BYTES),
        (f'{BYTES};a="\\",{JSON}";q=0.1, {JSON};q=0.2', JSON),
        (f"{JSON};charset=utf-8", JSON),
        (f"{BYTES};q=2", JSON),  # an element that is none
        (f"{BYTES};q=", JSON),
        ("text/html", None),
        ("application/octet", None),
        (f"x{BYTES}", None),
    ],
)
def test_the_media_type_is_the_one_that_is_taken_most_gladly(accept: str, found: str | None) -> None:
    best = chosen(accept, (JSON, BYTES))
    assert (best.name if best else None) == found


@pytest.mark.parametrize(
    ("field", "taken"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP;q=0.5", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("br, *;q=0.1", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("identity", False),
        ("identity;q=1, gzip;q=0.5", False),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("identity;q=0, gzip;q=0.1", True),
        ("gzipped", False),
    ],
)
def test_a_coding_is_taken_unless_it_is_refused_or_none_is_taken_more_gladly(field: str, taken: bool) -> None:
    assert takes_coding(field, "gzip") is taken


NAMES = st.sampled_from([JSON, BYTES, "application/*", "*/*", "text/plain", "Application/JSON"])
QUALITIES = st.sampled_from(["", ";q=1", ";q=0", ";Q=0.5", "; q=0.25", ";a=b;q=0.7", ';a=",;q=0";q=0.3'])


@given(st.lists(st.tuples(NAMES, QUALITIES), min_size=1, max_size=5))
def test_nothing_is_chosen_that_is_refused_or_less_wanted(elements: list[tuple[str, str]]) -> None:
    """An oracle of its own: the closest element of a type has its quality, and the greatest quality is chosen."""

    def quality(name: str) -> float:
        for closest in (name, f"{name.partition('/')[0]}/*", "*/*"):
            given = [text for each, text in elements if each.lower() == closest]
            if plain := [text for text in given if "a=" not in text] or given:
                return max(float(each.rpartition("=")[2] or 1.0) for each in plain)
        return 0.0

    best = chosen(", ".join(map("".join, elements)), (JSON, BYTES))
    most = max(quality(JSON), quality(BYTES))
    assert (best is None) if not most else (best is not None and quality(best.name) == best.quality == most)


@given(st.text(alphabet='abq=;,"\\/*01. ', max_size=60))
def test_any_field_is_read(field: str) -> None:
    assert all(0 <= each.quality <= 1 and each.name for each in ranges(field))
    chosen(field, (JSON, BYTES))
    takes_coding(field, "gzip")


def test_reading_takes_one_pass_and_ends() -> None:
    """Fields that never close what they open, as large as a head may be."""
    for field in ('"\\' * 16_000, "a" * 32_000, ",a" * 16_000, ";" * 32_000, 'a;b="' + "\\" * 31_999):
        assert len([*ranges(field)]) <= 64
