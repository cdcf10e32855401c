"""Wrong names of options are refused before anything is sent, with the name that was probably meant."""

from typing import Any

import pytest

import limelight
from tests.client.served import TEXT
from tests.kit.forwarder import Forwarder

TEXT: dict[str, Any] = TEXT


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("attend", {"map": "word"}, r"attend\(\) has no option 'map'; did you mean 'maps'\?"),
        ("attend", {"topk": 3}, r"'topk'; did you mean 'top_k'\?"),
        ("attend_stream", {"head": 3}, r"attend_stream\(\) has no option 'head'; did you mean 'heads'\?"),
        ("predict", {"max_clases": 1}, "did you mean 'max_classes'"),
        ("predict", {"time_out": 1}, "did you mean 'timeout'"),
        ("predict", {"temperature": 0.8}, r"pass generation=limelight.Generation\(temperature=…\)"),
        ("predict", {"layers": [0]}, r"predict\(\) has no option 'layers'; attend\(\) has it"),
        ("generate", {"maps": "*"}, r"pass attention=limelight.Attention\(maps=…\)"),
        ("generate", {"temprature": 1}, "did you mean 'temperature'"),
        ("predict", {"xyzzy": 1}, r"predict\(\) has no option 'xyzzy'$"),
    ],
)
def test_an_unknown_option_names_the_one_that_was_meant(
    server: Forwarder, client: limelight.Client, method: str, options: dict[str, Any], message: str
):
    with pytest.raises(TypeError, match=message):
        getattr(client, method)("tiny", {"text": TEXT}, **options)
    assert not server.requests


def test_an_unknown_argument_of_a_client_names_the_one_that_was_meant():
    for kind in (limelight.Client, limelight.AsyncClient):
        with pytest.raises(TypeError, match=r"Client\(\) has no option 'tokens'; did you mean 'token'\?"):
            kind("127.0.0.1:1", tokens="secret")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="did you mean 'timeout'"):
            kind("127.0.0.1:1", time_out=3)  # type: ignore[call-arg]


def test_a_missing_map_names_the_one_that_was_meant(client: limelight.Client):
    with pytest.raises(KeyError, match=r"did you mean 'encoder.0.self'\?"):
        client.attend("tiny", TEXT)["encoder.0.sefl"]
