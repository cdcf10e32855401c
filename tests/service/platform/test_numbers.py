"""Numbers in messages: each can be told from its limit."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as some

from limelight_service.configuration import SettingsError, load_settings
from limelight_service.platform.numbers import shown


@given(some.floats(allow_nan=False))
def test_two_numbers_are_never_written_alike(value: float) -> None:
    assert float(shown(value)) == value or struct.pack("<f", float(shown(value))) == struct.pack("<f", value)


@given(some.floats(width=32, allow_nan=False))
def test_a_number_in_single_precision_is_short_and_exact(value: float) -> None:
    assert len(shown(value)) <= 17 and struct.unpack("<f", struct.pack("<f", float(shown(value))))[0] == value


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (2.0**31 - 1, "2147483647"), (0.05, "0.05"), (2**60, "1152921504606846976")]
)
def test_plain_numbers_stay_plain(value: float, text: str) -> None:
    assert shown(value) == text


def test_limits_of_settings_are_written_in_full() -> None:
    with pytest.raises(SettingsError, match="2147483648; it may be from 1024 to 2147483647"):
        load_settings({"max_request_bytes": 2**31}, environment={})
