"""The one place where a card is made: inputs, results and maps to what export, bundle and docs read."""

from collections.abc import Mapping, Sequence

from limelight.v1 import model_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_models.cards.card import Card
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.inputs import Input, Noise
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Result
from limelight_models.cards.taxonomy import Citation, Taxonomy


def describe(
    *,
    title: str,
    summary: str,
    inputs: Sequence[Input],
    results: Sequence[Result],
    maps: Mapping[str, Map],
    taxonomy: Taxonomy,
    outputs: Sequence[model_pb2.OutputDescription] = (),
    name: str = "",
    citation: Citation | None = None,
    noise: Sequence[Noise] = (),
    hidden: Sequence[HiddenStates] = (),
    config: object = None,
    max_characters: int = 0,
    max_pixels: int = 0,
    max_audio_seconds: float = 0,
) -> Card:
    """The card of a model; the first result says what it does. Label sets: of inputs, of results, then of maps.

    outputs: raw outputs that no result is read from.
    hidden: stacks whose hidden states are put out; their label sets are those of inputs, results or maps.
    config: has the limits that are not given, `max_characters`, `max_pixels` and `max_audio_seconds`, where the model
        has them.

    Raises: ValueError where there is neither a result nor an output, or two different label sets or files have the same
        name.
    """
    if not results and not outputs:
        raise ValueError("a model has at least one result or output")
    files: dict[str, str] = {}
    for owned in (*(each.files for each in inputs), *(each.files for each in results)):
        for file, text in owned.items():
            if files.setdefault(file, text) != text:
                raise ValueError(f"two different files are called {file}")
    written = next((each.written for each in results if each.written), None)
    generation = None if written is None else written.generation()
    description = model_pb2.ModelDescription(
        name=name,
        title=title,
        summary=summary,
        task=results[0].task if results else model_pb2.TASK_UNSPECIFIED,
        inputs=[each.describe() for each in inputs],
        # Two results can be read from one output: the first one says what it is.
        outputs=[
            *list({output.name: output for output in _outputs(results)[::-1]}.values())[::-1],
            *outputs,
        ],
        results=[each.describe() for each in results],
        maps=[each.describe(map_name) for map_name, each in maps.items()],
        label_sets=[each.describe() for each in label_sets(inputs, results, maps)],
        limits=model_pb2.Limits(
            max_characters=max_characters or getattr(config, "max_characters", 0),
            max_pixels=max_pixels or getattr(config, "max_pixels", 0),
            max_audio_seconds=max_audio_seconds or getattr(config, "max_audio_seconds", 0),
        ),
        hidden=[state for each in hidden for state in each.describe()],
        taxonomy=taxonomy.describe(),
        citation=None if citation is None else citation.describe(),
    )
    return Card(
        description=description,
        preprocessing=tuple(
            bundle_pb2.Preprocessing(input=each.name, steps=each.steps) for each in inputs if each.steps
        ),
        map_axes={map_name: each.axes for map_name, each in maps.items()},
        edges={map_name: each.edges for map_name, each in maps.items() if each.edges},
        files=files,
        tensors=tuple(tensor.binding() for each in inputs for tensor in each.tensors),
        generation=generation,
        noise=tuple(each.describe() for each in noise),
        derived_maps=tuple(map_name for map_name, each in maps.items() if each.derived),
        written=written,
    )


def _outputs(results: Sequence[Result]) -> list[model_pb2.OutputDescription]:
    return [output for each in results for output in each.outputs]


def label_sets(inputs: Sequence[Input], results: Sequence[Result], maps: Mapping[str, Map]) -> list[LabelSet]:
    """Every label set once. Raises: ValueError where two different ones have the same name."""
    found: dict[str, LabelSet] = {}
    of_inputs = [each for owner in inputs for each in owner.label_sets]
    of_results = [each for owner in results for each in owner.label_sets]
    of_maps = [each for one in maps.values() for each in one.label_sets]
    for each in (*of_inputs, *of_results, *of_maps):
        if found.setdefault(each.name, each) != each:
            raise ValueError(f"two different label sets are called {each.name}")
    return list(found.values())
