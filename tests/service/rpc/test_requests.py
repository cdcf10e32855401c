"""Options of a request: defaults, limits, and the field that an error names."""

import pytest

from bundle.errors import InputError
from limelight.v1 import attention_pb2 as apb
from limelight.v1 import service_pb2 as spb
from service.attention.options import Encoding, HeadReduction, Options, Selection
from service.engine.types import GenerationSettings, Strategy
from service.rpc.requests import attention_options, generation_settings, output_names


def test_nothing_said_means_everything_whole_and_exact() -> None:
    assert attention_options(apb.AttentionOptions()) == Options()


def test_every_attention_option_comes_through() -> None:
    message = apb.AttentionOptions(
        selections=[apb.MapSelection(names=["a*"], layers=[-1], heads=[0, 1], queries=[2], keys=[-3])],
        reduce_heads=apb.HEAD_REDUCTION_MAX,
        rollout=True,
        top_k=5,
        encoding=apb.ENCODING_UINT8,
    )
    expected = Selection(("a*",), (-1,), (0, 1), (2,), (-3,))
    assert attention_options(message) == Options((expected,), HeadReduction.MAX, True, 5, Encoding.UINT8)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (apb.AttentionOptions(top_k=-1), "top_k"),
        (apb.AttentionOptions(max_response_bytes=-1), "max_response_bytes"),
        (apb.AttentionOptions(encoding=77), "encoding"),  # type: ignore[arg-type]
        (apb.AttentionOptions(reduce_heads=77), "reduce_heads"),  # type: ignore[arg-type]
        (apb.AttentionOptions(selections=[apb.MapSelection()] * 65), "selections"),
        (apb.AttentionOptions(selections=[apb.MapSelection(keys=range(100_001))]), "selections"),
        (apb.AttentionOptions(selections=[apb.MapSelection(names=["*"] * 1001)]), "selections"),
    ],
)
def test_a_wrong_attention_option_is_named(message: apb.AttentionOptions, field: str) -> None:
    with pytest.raises(InputError) as caught:
        attention_options(message)
    assert caught.value.field == f"attention.{field}"


def test_generation_defaults_are_those_that_the_protocol_states() -> None:
    assert generation_settings(spb.GenerationOptions(), 30) == GenerationSettings(
        Strategy.GREEDY, 1.0, 0, 1.0, 30, (), 4, 1.0, 1
    )


def test_the_models_limit_cannot_be_raised_but_lowered() -> None:
    assert generation_settings(spb.GenerationOptions(max_new_tokens=31), 30).max_new_tokens == 30
    assert generation_settings(spb.GenerationOptions(max_new_tokens=3), 30).max_new_tokens == 3


def test_a_length_penalty_of_zero_is_not_its_default() -> None:
    assert generation_settings(spb.GenerationOptions(length_penalty=0.0), 30).length_penalty == 0.0


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (spb.GenerationOptions(strategy=9), "strategy"),  # type: ignore[arg-type]
        (spb.GenerationOptions(temperature=-0.1), "temperature"),
        (spb.GenerationOptions(temperature=float("nan")), "temperature"),
        (spb.GenerationOptions(temperature=float("inf")), "temperature"),
        (spb.GenerationOptions(top_k=-1), "top_k"),
        (spb.GenerationOptions(top_p=1.01), "top_p"),
        (spb.GenerationOptions(top_p=float("nan")), "top_p"),
        (spb.GenerationOptions(max_new_tokens=-1), "max_new_tokens"),
        (spb.GenerationOptions(stop=["a"] * 17), "stop"),
        (spb.GenerationOptions(stop=["a", ""]), "stop[1]"),
        (spb.GenerationOptions(stop=["a" * 257]), "stop[0]"),
        (spb.GenerationOptions(beams=17), "beams"),
        (spb.GenerationOptions(hypotheses=5), "hypotheses"),
        (spb.GenerationOptions(beams=2, hypotheses=3), "hypotheses"),
        (spb.GenerationOptions(length_penalty=float("nan")), "length_penalty"),
    ],
)
def test_a_wrong_generation_option_is_named(message: spb.GenerationOptions, field: str) -> None:
    with pytest.raises(InputError) as caught:
        generation_settings(message, 30)
    assert caught.value.field == f"generation.{field}"


def test_outputs_are_those_named_once_each_or_all() -> None:
    assert output_names([], ["a", "b"]) == ["a", "b"]
    assert list(output_names(["b", "b"], ["a", "b"])) == ["b"]
    with pytest.raises(InputError) as caught:
        output_names(["a", "c"], ["a", "b"])
    assert caught.value.field == "outputs[1]"
    assert "it has a, b" in caught.value.message
