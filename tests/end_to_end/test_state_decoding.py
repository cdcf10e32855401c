"""A decoder whose state does not grow, through a socket: step by step it gives what all tokens at once give."""

from pathlib import Path

import numpy as np
import torch

import limelight
from limelight_bundle.values import Text
from tests.kit import small
from tests.kit.exports import export_model
from tests.kit.serving import serving

NAME = "linear-gpt"
TEXTS = ("a", "my cat sat", "birds fly low and cats sit on mats")


def test_sums_of_one_size_decode_what_all_tokens_at_once_give(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trained = small.trained(NAME)
    card, model = trained.card, trained.model.eval()
    assert card.generation is not None and not card.generation.prefill
    assert len(card.generation.states) == 4
    assert not [each.input for each in card.generation.states if each.HasField("growing_axis")]
    export_model(trained, tmp_path)
    with serving(tmp_path) as running, limelight.Client(running.server.address) as client:
        together = client.attend(NAME, [{"text": text} for text in TEXTS])
        for text, answer in zip(TEXTS, together, strict=True):
            (sequence,) = answer.prediction.sequences
            tensors = small.batch(card, [card.preprocessor().row({"text": Text(text)})])
            with torch.no_grad():
                whole = model(**{**tensors, "target_ids": torch.tensor([sequence.token_ids])})
            assert whole.outputs["scores"][0].argmax(-1).tolist() == list(sequence.token_ids)
            np.testing.assert_allclose(
                answer.prediction.outputs["scores"], whole.outputs["scores"][0], atol=1e-5, rtol=1e-4
            )
            for name, weights in whole.maps.items():
                np.testing.assert_allclose(answer[name].weights, weights[0], atol=1e-5)
            # Of each token the prompt has a part of the weight, and what was put out the rest.
            parts = answer["decoder.1.prompt"].weights.sum(-1)
            assert (parts < 1).all() and (parts > 0).all()
            streamed = list(client.generate(NAME, {"text": text}, attention=limelight.Attention()))
            tokens = [each for each in streamed if isinstance(each, limelight.GeneratedToken)]
            for place, token in enumerate(tokens):
                for row in token.maps:
                    found = answer[row.name].weights[:, place : place + 1]
                    np.testing.assert_allclose(row.weights, found, atol=1e-5)
            end = streamed[-1]
            assert isinstance(end, limelight.GenerationEnd)
            assert end.sequences[0].token_ids == sequence.token_ids
