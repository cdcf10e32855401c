"""The size of an answer, and of what an engine holds for it, is known before anything runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.errors import TooLargeError
from limelight_bundle.values import Text
from limelight_service.attention.options import Encoding, HeadReduction, Options, Selection
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import Wanted
from limelight_service.frontend.sizes import Measured
from limelight_service.hosting.hosted import HostedModel
from limelight_service.ipc.boundary import GenerationSettings, InferenceRequest, Strategy
from tests.service.engine.conftest import run_together

SENTENCE = "the cat sat on a mat"
LONGEST = " ".join(["cat"] * 30)
_GREEDY = GenerationSettings()


def wanted_of(
    model: Model, attention: Options | None, generation: GenerationSettings = _GREEDY, limit: int = 10**9
) -> Wanted:
    plan = None if attention is None else model.schema.plan(attention)
    labels = model.schema.label_names(plan)
    kept = model.schema.kept_outputs(())
    return Wanted((), generation, 0, plan, attention or Options(), labels, limit, kept)


@given(
    name=st.sampled_from(["tiny", "paper", "echo"]),
    sentence=st.sampled_from(["cat", SENTENCE, LONGEST]),
    encoding=st.sampled_from(list(Encoding)),
    narrow=st.booleans(),
    beams=st.booleans(),
)
def test_bytes_that_a_row_holds_while_it_is_computed_are_known_before(
    hosted: dict[str, HostedModel],
    models: dict[str, Model],
    name: str,
    sentence: str,
    encoding: Encoding,
    narrow: bool,
    beams: bool,
) -> None:
    model, engines = models[name], hosted[name]
    few = (Selection(heads=(0,), queries=(0,)),)
    options = Options(few if narrow else (), encoding=encoding, reduce_heads=HeadReduction.MEAN, sequences=1 + beams)
    if not model.schema.generates:
        options, beams = Options(options.selections, encoding=encoding), False
    strategy = Strategy.BEAM if beams else Strategy.GREEDY
    generation = GenerationSettings(strategy, max_new_tokens=8, beams=2, hypotheses=2 if beams else 1)
    wanted = wanted_of(model, options, generation)
    row = model.schema.preprocessor.row({"text": Text(sentence)}, field=("instances", 0))
    outputs = model.schema.kept_outputs(())
    request = InferenceRequest(name, 1, (row,), (None,), outputs, options, generation)
    (answer,) = run_together(engines.model, engines.query(request, engines.plan(options)))
    computed = [*answer.maps.values(), *(one for other in answer.other_sequences for one in other.maps.values())]
    size = sum(each.weights.nbytes for each in computed) + sum(each.nbytes for each in answer.outputs.values())
    computing = model.sizes.computing(row, wanted, streamed=False)
    assert size <= computing
    if not model.schema.generates and not narrow and encoding is Encoding.FLOAT32:
        encoded = model.sizes.attention(row, generation, model.schema.plan(options))
        assert computing + encoded <= 2.2 * size + 2000  # the maps, their encoded copies, and small fields


def test_an_answer_that_is_larger_than_allowed_is_refused_with_a_selection_that_would_fit(
    models: dict[str, Model],
) -> None:
    model = models["tiny"]
    row = model.schema.preprocessor.row({"text": Text(LONGEST)}, field=("instances", 0))
    whole = wanted_of(model, Options())
    assert whole.plan is not None
    labels = dict.fromkeys(whole.labels, 64)
    measured = [Measured(row, labels, model.sizes.bounds(row, whole, streamed=False))]
    size = model.sizes.checked(measured, whole)
    with pytest.raises(TooLargeError, match=f"needs an answer of {size} bytes; at most {size - 1} are allowed: .+"):
        model.sizes.checked(measured, wanted_of(model, Options(), limit=size - 1))
    with pytest.raises(TooLargeError, match="send fewer instances, name fewer outputs, or set max_classes"):
        model.sizes.checked(measured, wanted_of(model, None, limit=10))
