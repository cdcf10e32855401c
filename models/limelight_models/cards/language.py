"""The language of cards, in one import: inputs, results, label sets, and maps."""

from limelight_models.cards.inputs import (
    AudioInput,
    DocumentInput,
    GraphInput,
    ImageInput,
    LinesInput,
    Noise,
    PairInput,
    TextInput,
    Tokenizer,
    WordsInput,
    forced_target,
)  # fmt: skip
from limelight_models.cards.labels import LabelSet, input_steps, numbered, one, output_steps
from limelight_models.cards.maps import Attends, Map, MapKind, map_of, maps_of
from limelight_models.cards.results import (
    NEVER,
    Boxes,
    Classes,
    Numbers,
    Spans,
    State,
    Written,
    cached,
    cached_states,
    carried_states,
)

__all__ = [
    "NEVER", "Attends", "AudioInput", "Boxes", "Classes", "DocumentInput", "GraphInput", "ImageInput", "LabelSet",
    "LinesInput", "Map", "MapKind", "Noise", "Numbers", "PairInput", "Spans", "State", "TextInput", "Tokenizer",
    "WordsInput", "Written", "cached", "cached_states", "carried_states", "forced_target", "input_steps", "map_of",
    "maps_of", "numbered", "one", "output_steps",
]  # fmt: skip
