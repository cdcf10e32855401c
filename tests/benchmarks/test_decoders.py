"""The models that generation is measured with put out as many tokens for every text."""

import pytest
import torch

from benchmarks.decoders import MODELS, untrained
from limelight_bundle.values import Text


@pytest.mark.parametrize("name", MODELS)
def test_no_sequence_ends_before_it_must(name: str) -> None:
    made = untrained(name, {"d_model": 8, "layers": 2, "heads": 2, "d_hidden": 12, "max_new_tokens": 9})
    assert made.card.written is not None
    end, preprocessor = made.card.written.end, made.card.preprocessor()
    texts = {"1 May 1970": "the 3rd", "?": "never", "31.12.1999": "1999-12"}
    rows = [preprocessor.row({"text": Text(text), "target": Text(target)}) for text, target in texts.items()]
    tensors = {each: torch.as_tensor(array) for each, array in made.card.collate(rows).items()}
    scores = made.model(**tensors).outputs["scores"]
    assert not scores[..., end].any() and (scores.amax(-1) > 0).all()
