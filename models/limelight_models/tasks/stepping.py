"""A generating network, step by step, in PyTorch: states, caches, and the place of every row."""

from collections.abc import Mapping

import torch
from torch import Tensor

from limelight_models.cards.results import Written
from limelight_models.network import GeneratingNetwork, PromptedNetwork, StepAnswer


class Stepping:
    """One batch on its way; rows have prompts of their own lengths.

    token: what goes in next, INT64 [batch]. states: by their input's name; a cache is [batch, head, place, size], with
    more places than are needed.
    inputs: tensors and masks, batch first, without the target.
    """

    def __init__(self, network: GeneratingNetwork, written: Written, inputs: Mapping[str, Tensor]) -> None:
        self._network, self._written = network, written
        self._constant = {**inputs, **network.encode(**inputs)}
        first = next(iter(inputs.values()))
        self._rows = torch.arange(first.shape[0], device=first.device)
        self.token = torch.full_like(self._rows, written.begin)
        self._position = torch.zeros_like(self.token)
        self.states = {each.input: self._constant[each.start] for each in written.states if each.cache is None}
        prompt = 0 if written.prompt is None else inputs[written.prompt.tensor].shape[1]
        like = next(network.parameters())
        for each in written.states:
            if each.cache is not None:
                heads, size = each.cache
                room = prompt + written.max_new_tokens + 1
                self.states[each.input] = like.new_zeros(first.shape[0], heads, room, size)
        if written.prompt is not None:
            self._read(inputs[written.prompt.tensor], inputs[written.prompt.mask])

    def step(self) -> StepAnswer:
        """Put the token in; the next one is for whoever asked to choose."""
        position = {self._written.position: self._position} if self._written.position else {}
        answer = self._network.step(self.token, **{**self._constant, **self.states, **position})
        for each in self._written.states:
            if each.cache is None:
                self.states[each.input] = answer.states[each.output]
            else:
                self.states[each.input][self._rows, :, self._position] = answer.states[each.output][:, :, 0]
        self._position = self._position + 1
        return answer

    def _read(self, prompt: Tensor, mask: Tensor) -> None:
        """Read all of the prompts but their last tokens, which the first step takes."""
        if not isinstance(self._network, PromptedNetwork):
            raise TypeError(f"{type(self._network).__name__} reads no prompt")
        tokens = torch.cat([self.token.unsqueeze(1), prompt[:, :-1]], 1)
        places = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        read = self._network.prefill(tokens, places)
        for each in self._written.states:
            self.states[each.input][:, :, : tokens.shape[1]] = read[each.output]
        self._position = mask.sum(1)
        self.token = prompt[self._rows, self._position - 1]
