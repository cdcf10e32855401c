"""The model that serving is measured with is described as every other is."""

import numpy as np
import torch

from benchmarks.encoder import Encoder, EncoderConfig, card
from bundle.values import TensorValue
from export.execution.pytorch_runner import run_model


def test_the_encoder_answers_as_its_card_says() -> None:
    torch.manual_seed(0)
    model = Encoder(EncoderConfig(layers=2, width=8, heads=2, inner=12)).eval()
    described = card(model)
    rows = [described.preprocessor().row({"token_ids": TensorValue(np.array(ids))}) for ids in ([5, 7, 9], [4])]
    found = run_model(model, described, described.collate(rows))
    assert found["logits"].shape == (2, 2)
    for layer in range(2):
        weights = found[f"encoder.{layer}.self"]
        assert weights.shape == (2, 2, 3, 3)
        np.testing.assert_allclose(weights[1, :, 0], [[1, 0, 0]] * 2, atol=1e-6)  # a row alone sees itself only
