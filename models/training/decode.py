"""Greedy decoding of a batch in PyTorch, by what a card says of generation."""

from collections.abc import Mapping

import torch
from torch import Tensor

from bundle.v1 import bundle_pb2
from models.network import GeneratingNetwork


def greedy(
    model: GeneratingNetwork, generation: bundle_pb2.Generation, tensors: Mapping[str, Tensor]
) -> list[tuple[int, ...]]:
    """The most likely token, again and again, until each row has put out its end token (included) or the most allowed.

    tensors: inputs and masks, batch first; the target is not read.
    """
    inputs = {name: tensor for name, tensor in tensors.items() if name != generation.target_tensor}
    encoded = dict(model.encode(**inputs))
    states = {state.input: encoded[state.encoder_output] for state in generation.states}
    batch = next(iter(inputs.values())).shape[0]
    token = torch.full((batch,), generation.begin_token)
    ended = torch.zeros(batch, dtype=torch.bool)
    steps: list[Tensor] = []
    while len(steps) < generation.max_new_tokens and not ended.all():
        answer = model.step(token, **{**inputs, **encoded, **states})
        states = {state.input: answer.states[state.output] for state in generation.states}
        token = answer.scores.argmax(-1)
        steps.append(token)
        ended |= token == generation.end_token
    return [until(row, generation.end_token) for row in torch.stack(steps, 1).tolist()]


def until(tokens: list[int], end: int) -> tuple[int, ...]:
    """The tokens up to the first `end`, that one included."""
    return tuple(tokens[: tokens.index(end) + 1] if end in tokens else tokens)
