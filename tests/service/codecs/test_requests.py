"""Options of a request: defaults, limits, and the field that an error names."""

import pytest

from limelight.v1 import attention_pb2 as apb
from limelight.v1 import service_pb2 as spb
from limelight_bundle.errors import InputError
from limelight_service.attention.options import (
    Encoding,
    Group,
    Grouping,
    GroupReduction,
    HeadReduction,
    Options,
    Pooling,
    PoolReduction,
    Selection,
    Span,
)
from limelight_service.codecs.messages import attention_options, generation_settings
from limelight_service.frontend.validation import output_names
from limelight_service.ipc.boundary import GenerationSettings, Strategy


def grouped(*groups: apb.Group, **fields: int) -> apb.AttentionOptions:
    return apb.AttentionOptions(key_groups=[apb.Grouping(groups=groups, **fields)])  # type: ignore[arg-type]


def test_nothing_said_means_everything_whole_and_exact() -> None:
    assert attention_options(apb.AttentionOptions()) == Options()


def test_every_attention_option_comes_through() -> None:
    message = apb.AttentionOptions(
        selections=[apb.MapSelection(names=["a*"], layers=[-1], heads=[0, 1], queries=[2], keys=[-3])],
        reduce_heads=apb.HEAD_REDUCTION_MAX,
        rollout=True,
        top_k=5,
        encoding=apb.ENCODING_UINT8,
        quantity=apb.QUANTITY_NORMS,
        sequences=3,
        pool=apb.Pool(size=9, reduction=apb.POOL_REDUCTION_MEAN),
        key_groups=[
            apb.Grouping(
                label_set="tokens",
                groups=[
                    apb.Group(
                        name="g",
                        indices=[1, -1],
                        ranges=[apb.IndexRange(start=2, end=-1)],
                        spans=[apb.TextSpan(start=1, end=4, sentence=0), apb.TextSpan(end=2, part="first")],
                        inputs=["text"],
                    )
                ],
            )
        ],
        query_groups=[apb.Grouping(groups=[apb.Group(indices=[0])])],
    )
    group = Group("g", (1, -1), ((2, -1),), (Span(1, 4, 0), Span(0, 2, None, "first")), ("text",))
    assert attention_options(message) == Options(
        selections=(Selection(("a*",), (-1,), (0, 1), (2,), (-3,)),),
        quantity=apb.QUANTITY_NORMS,
        reduce_heads=HeadReduction.MAX,
        rollout=True,
        query_groups=(Grouping(("attention", "query_groups", 0), (Group("", (0,)),), GroupReduction.MEAN),),
        key_groups=(Grouping(("attention", "key_groups", 0), (group,), GroupReduction.SUM, "tokens"),),
        pool=Pooling(9, PoolReduction.MEAN),
        top_k=5,
        encoding=Encoding.UINT8,
        sequences=3,
    )


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
        (apb.AttentionOptions(selections=[apb.MapSelection(names=["a", "*" * 257])]), "selections[0].names[1]"),
        (apb.AttentionOptions(quantity=77), "quantity"),  # type: ignore[arg-type]
        (apb.AttentionOptions(sequences=-1), "sequences"),
        (apb.AttentionOptions(pool=apb.Pool()), "pool.size"),
        (apb.AttentionOptions(pool=apb.Pool(size=4097)), "pool.size"),
        (apb.AttentionOptions(pool=apb.Pool(size=2, reduction=9)), "pool.reduction"),  # type: ignore[arg-type]
        (apb.AttentionOptions(key_groups=[apb.Grouping()]), "key_groups[0].groups"),
        (grouped(apb.Group(name="nothing")), "key_groups[0].groups[0]"),
        (grouped(*[apb.Group(indices=[0])] * 1025), "key_groups[0].groups"),
        (grouped(apb.Group(indices=range(100_001))), "key_groups"),
        (grouped(apb.Group(inputs=["text"] * 4097)), "key_groups"),
        (grouped(apb.Group(indices=[0]), reduction=9), "key_groups[0].reduction"),
        (apb.AttentionOptions(query_groups=[apb.Grouping(groups=[apb.Group(indices=[0])])] * 65), "query_groups"),
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


def test_a_temperature_and_a_top_p_of_zero_are_greedy_and_not_their_default() -> None:
    sampling = {"strategy": spb.STRATEGY_SAMPLE}
    assert generation_settings(spb.GenerationOptions(**sampling), 30).draws
    for name in ("temperature", "top_p"):
        settings = generation_settings(spb.GenerationOptions(**sampling, **{name: 0.0}), 30)
        assert getattr(settings, name) == 0.0 and not settings.draws


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
    assert output_names(None, ["a", "b"]) == ["a", "b"]
    assert list(output_names([], ["a", "b"])) == []
    assert list(output_names(["b", "b"], ["a", "b"])) == ["b"]
    with pytest.raises(InputError) as caught:
        output_names(["a", "c"], ["a", "b"])
    assert caught.value.field == "outputs[1]"
    assert "it has a, b" in caught.value.message
