"""A speller, for models that listen otherwise: a recurrent network that looks at what was heard before each letter."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, Context
from limelight_models.attention.score import Score
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.blocks.frames import heard
from limelight_models.cards.language import Attends, carried_states, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint
from limelight_models.recipes.transcribing import SpeechConfig


class SpellerConfig(SpeechConfig):
    """Sizes that all of them have. d_encoder: of either direction. sampling: share of letters that go in as the
    speller itself would put them out in training.
    """

    d_embedding: int = 32
    d_encoder: int = 64
    d_decoder: int = 96
    d_attention: int = 64
    dropout: float = 0.1
    sampling: float = 0.0


class Speller(GeneratingNetwork):
    """Sound -> letters, with the weights of every letter over what was heard.

    score: of the decoder's state [d_decoder] and what was heard [2 d_encoder].

    Shapes: features float32 [batch, mel, frame], target_ids int64 [batch, output] ending with the end token
        -> scores [batch, output, letter], map `decoder.cross` [batch, head = 1, output, joined frame].
    """

    def __init__(self, config: SpellerConfig, *, score: Score) -> None:
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.dropout)
        self.letters = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        self.prepared = PreparedKeys(score)
        self.attention = Attention(score=self.prepared)
        self.location = "previous_weights" in score.context_fields

    @property
    @abstractmethod
    def carried(self) -> tuple[str, ...]:
        """Names of the states that `spell` leaves for the next step."""

    @property
    def states(self) -> tuple[str, ...]:
        """The same, and where a score that is location-aware has looked."""
        return (*self.carried, *(["aligned"] if self.location else []))

    @abstractmethod
    def listen(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What is heard. Shapes: x [batch, frame, mel], mask [batch, frame] -> h [batch, u, 2 d_encoder], its mask."""

    @abstractmethod
    def begin(self, h: Tensor) -> Mapping[str, Tensor]:
        """The states before the first step."""

    @abstractmethod
    def spell(self, y: Tensor, known: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, Tensor], Tensor]:
        """One letter. Shapes: y [batch, d_embedding], of the last one -> scores [batch, letter], the states behind it,
        weights [batch, 1, 1, u]. known: what `encode` gave, and the states before it.
        """

    def look(self, s: Tensor, known: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """c = Σ_u α_u h_u, α = softmax(e(s, h_u)): the context [batch, 2 d_encoder], weights [batch, 1, 1, u]."""
        before = known["aligned"][:, None, None] if self.location else None
        context, weights = self.attention(
            s[:, None, None],
            known["keys"].unsqueeze(1),
            known["heard"].unsqueeze(1),
            known["heard_mask"][:, None, None],
            Context(previous_weights=before),
        )
        return context[:, 0, 0], weights

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Shapes: heard [batch, u, 2 d_encoder], heard_mask [batch, u], keys [batch, u, d_k], initial_…"""
        h, mask = self.listen(*heard(tensors["features"]))
        keys = self.prepared.prepare(h.unsqueeze(1)).squeeze(1)
        started = {**self.begin(h), **({"aligned": torch.zeros_like(h[..., 0])} if self.location else {})}
        initial = {f"initial_{name}": state for name, state in started.items()}
        return {"heard": h, "heard_mask": mask, "keys": keys, **initial}

    def advance(self, token: Tensor, known: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, Tensor], Tensor]:
        """As `spell`, from the last letter itself [batch], with the weights among the states that are wanted."""
        scores, states, weights = self.spell(self.dropout(self.letters(token)), known)
        return scores, {**states, **({"aligned": weights[:, 0, 0]} if self.location else {})}, weights

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        scores, states, weights = self.advance(token, tensors)
        following = {f"next_{name}": state for name, state in states.items()}
        return StepAnswer(scores, following, {"decoder.cross": weights[:, :, 0]})

    def forward(self, **tensors: Tensor) -> Answer:
        return self.spelled(self.encode(**tensors), tensors["target_ids"])

    def spelled(self, known: Mapping[str, Tensor], target: Tensor) -> Answer:
        """The answer with the target forced [batch, output]. known: what `encode` gave."""
        states: Mapping[str, Tensor] = {name: known[f"initial_{name}"] for name in self.states}
        token, rows, scores = torch.full_like(target[:, 0], self.config.begin), [], []
        for letter in target.unbind(1):
            found, states, weights = self.advance(token, {**known, **states})
            scores.append(found)
            rows.append(weights)
            token = self.sampled(letter, found) if self.training and self.config.sampling else letter
        return Answer({"scores": torch.stack(scores, 1)}, {"decoder.cross": torch.cat(rows, 2)})

    def sampled(self, letter: Tensor, scores: Tensor) -> Tensor:
        """The letter, or now and then one drawn from what the speller would have put out (Bengio et al. 2015)."""
        drawn = torch.multinomial(scores.detach().softmax(-1), 1)[:, 0]
        own = torch.rand_like(scores[:, 0]) < self.config.sampling
        return torch.where(own, drawn, letter)


def parts(network: Speller, blueprint: Blueprint[Any]) -> dict[str, Any]:
    """Parts of all of their cards: inputs, the result, and the map."""
    config = network.config
    audio, target = config.audio(), config.target(blueprint.files)
    written = config.written(blueprint.files, states=carried_states(*network.states))
    about = "Where the decoder looked in the recording before it put out each letter."
    cross = Attends(written.steps, audio.joined_frames(config.joined), about, features=2 * config.d_encoder)
    return {
        "inputs": [audio, target],
        "results": [written],
        "maps": maps_of(network.attention, {"decoder.cross": cross}),
    }
