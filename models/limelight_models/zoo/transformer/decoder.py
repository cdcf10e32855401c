"""A decoder alone, which continues a prompt, for models that differ in its attention (Radford et al. 2019, §2.3).

What any model that continues prompts has stands here too: its limits, inputs, and recipe.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from limelight_models.attention import Attention
from limelight_models.attention.cached import CausalAttention
from limelight_models.attention.masks import Mask, causal
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import AroundAttention
from limelight_models.cards.hidden import named_states
from limelight_models.cards.labels import input_steps
from limelight_models.cards.language import Attends, State, TextInput, Written, cached_states, forced_target, maps_of
from limelight_models.data import dates, rows, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.network import Answer, GeneratingNetwork, PromptedNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, Sizes
from limelight_models.tasks.generate import Generate

PROMPT, OUTPUT = "prompt.json", "tokenizer.json"


class PromptConfig(Sizes):
    """Sizes of any. begin, end: the token put in first, and the one that ends a prompt and a sequence."""

    vocabulary: int
    begin: int
    end: int
    max_prompt: int = 128
    max_new_tokens: int = 64
    max_characters: int = 1000


class DecoderConfig(PromptConfig):
    """Sizes of layers."""

    d_model: int = 64
    layers: int = 2
    heads: int = 4
    d_hidden: int = 256
    dropout: float = 0.1
    placed: ClassVar[bool] = True  # tokens are told their places

    @property
    def places(self) -> int:
        """The most tokens put in."""
        return 1 + self.max_prompt + self.max_new_tokens

    @property
    def looks(self) -> Mask:
        """What a token attends to, by places."""
        return causal

    def attention(self) -> nn.Module:
        """Attention of a layer, called as `CausalAttention`."""
        heads = MultiHead(attention=Attention(score=ScaledDot()), d_model=self.d_model, heads=self.heads)
        return CausalAttention(heads, self.looks)

    def norm(self) -> nn.Module:
        """A norm of features."""
        return nn.LayerNorm(self.d_model)

    def last(self) -> nn.Module:
        """The norm behind all layers."""
        return self.norm()

    def act(self) -> nn.Module:
        """What stands between both maps of a layer."""
        return nn.GELU()

    def block(self) -> "Block":
        """A layer."""
        return Block(self)

    def states(self) -> list[State]:
        """What is kept of tokens, as the attention has it."""
        return cached_states(self.layers, self.heads, self.d_model)


class Block(AroundAttention, nn.Module):
    """x' = x + attention(norm(x));  x'' = x' + W₂ gelu(W₁ norm(x')), where each place looks back alone.

    Shapes: features [batch, token, d_model] -> the same, weights [batch, head, token, token].
    """

    attention: Any

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        d_model, d_hidden = config.d_model, config.d_hidden
        self.attention_norm = config.norm()
        self.attention = config.attention()
        self.hidden_norm = config.norm()
        self.hidden = nn.Sequential(nn.Linear(d_model, d_hidden), config.act(), nn.Linear(d_hidden, d_model))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor, *mask: Tensor) -> tuple[Tensor, Tensor, Any]:
        attended, weights, kept = self.attention(self.attention_norm(features), *mask)
        return self.fed(features + self.dropout(attended)), weights, kept

    def step(self, features: Tensor, kept: Any, position: Tensor) -> tuple[Tensor, Tensor, Any]:
        """One token [batch, 1, d_model], from what is kept of those before it."""
        attended, weights, new = self.attention.step(self.attention_norm(features), kept, position)
        return self.fed(features + attended), weights, new

    def fed(self, features: Tensor) -> Tensor:
        """The second half."""
        return features + self.dropout(self.hidden(self.hidden_norm(features)))


class TokenLayers(GeneratingNetwork):
    """Tokens embedded with their places, layers, and scores by the same embeddings."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.d_model)
        self.places = nn.Embedding(config.places, config.d_model) if config.placed else None
        self.layers = nn.ModuleList(config.block() for _ in range(config.layers))
        self.norm = config.last()
        self.dropout = nn.Dropout(config.dropout)
        for embedding in filter(None, (self.tokens, self.places)):
            nn.init.normal_(embedding.weight, std=0.02)

    def embed(self, token: Tensor, position: Tensor) -> Tensor:
        """[…] -> […, d_model]."""
        tokens = self.tokens(token)
        embedded: Tensor = self.dropout(tokens if self.places is None else tokens + self.places(position))
        return embedded

    def scores(self, features: Tensor) -> Tensor:
        """[…, d_model], behind the last norm -> […, token]: by the embeddings themselves."""
        return linear(features, self.tokens.weight)


class Decoder(TokenLayers, PromptedNetwork):
    """Prompt -> text, with the weights of every output token over all that was put in before it.

    Shapes: prompt_ids int64 [batch, token], prompt_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], maps `decoder.<layer>.self` [batch, head, output, input]:
        what goes in is the begin token, the prompt, and the target but for its last token.
    """

    def prefill(self, token: Tensor, position: Tensor) -> Mapping[str, Tensor]:
        features = self.embed(token, position)
        read: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            features, _, kept = layer(features)
            read |= {f"next_{name}.{number}": each for name, each in vars(kept).items()}
        return read

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        position = tensors["position"]
        features = self.embed(token, position).unsqueeze(1)
        states: dict[str, Tensor] = {}
        maps: dict[str, Tensor] = {}
        hidden = [features[:, 0]]
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Block)
            cached = layer.attention.cached
            kept = cached(*(tensors[f"{each.name}.{number}"] for each in fields(cached)))
            features, weights, new = layer.step(features, kept, position)
            hidden.append(features[:, 0])
            states |= {f"next_{name}.{number}": each for name, each in vars(new).items()}
            maps[f"decoder.{number}.self"] = weights[:, :, 0]
        hidden[-1] = self.norm(hidden[-1])
        return StepAnswer(self.scores(hidden[-1]), states, maps, named_states("decoder", hidden))

    def forward(self, **tensors: Tensor) -> Answer:
        target, mask = tensors["target_ids"], tensors["prompt_mask"]
        begin = torch.full_like(target[:, :1], self.config.begin)
        ids = torch.cat([begin, tensors["prompt_ids"], target[:, :-1]], 1)
        padding = torch.cat([torch.zeros_like(begin).bool(), ~mask, torch.zeros_like(target[:, :-1]).bool()], 1)
        # The prompt's padding goes to the end, where nothing looks back at it.
        ids = ids.gather(1, padding.long().argsort(dim=1, stable=True))
        features = self.embed(ids, torch.arange(ids.shape[1], device=ids.device))
        # The first token is put out where the prompt's last goes in.
        asked = mask.sum(1, keepdim=True) + torch.arange(target.shape[1], device=ids.device)
        maps, states = {}, [features]
        for number, layer in enumerate(self.layers):
            features, weights, _ = layer(features)
            states.append(features)
            maps[f"decoder.{number}.self"] = weights.take_along_dim(asked[:, None, :, None], 2)
        states = [each.take_along_dim(asked[:, :, None], 1) for each in (*states[:-1], self.norm(features))]
        return Answer({"scores": self.scores(states[-1]), **named_states("decoder", states)}, maps)


REWRITTEN = "What is to be rewritten."


def texts(config: PromptConfig, blueprint: Blueprint[Any], prompted: str) -> tuple[TextInput, TextInput]:
    """The prompt, and the input that forces an output. prompted: what the prompt is."""
    prompt = TextInput(
        summary=prompted,
        tokenizer=blueprint.tokenizer(PROMPT),
        max_tokens=config.max_prompt,
        prefix="prompt",
        dimension="prompt",
        special_tokens=True,
    )
    return prompt, forced_target(blueprint.tokenizer(OUTPUT), config.max_new_tokens)


def parts(network: Decoder, blueprint: Blueprint[Any], prompted: str = REWRITTEN) -> dict[str, Any]:
    """Inputs, results and maps of the card. prompted: what the prompt is."""
    config = network.config
    prompt, target = texts(config, blueprint, prompted)
    written = Written.by(config, target.tokenizer, position="position", prompt=prompt, states=config.states())
    put_in = input_steps(prompt=prompt.tokens("prompt"))
    about = "Where layer {} looked, in the prompt and in what was put out, before each token."
    shown = Attends(written.steps, put_in, about)
    return {
        "inputs": [prompt, target],
        "results": [written],
        "maps": maps_of(network.layers, {"decoder.{}.self": shown}),
        "hidden": {"decoder": config.d_model},
    }


C = TypeVar("C", bound=PromptConfig)
_REWRITE = Generate()


def continuing(
    config: type[C],
    card: Callable[[Any, Blueprint[C]], Card],
    presets: Mapping[str, Preset],
    network: Callable[[Any], GeneratingNetwork] = Decoder,
    *,
    task: Generate = _REWRITE,
    builtin: Callable[..., Dataset] = dates.dataset,
) -> Recipe[Any]:
    """A recipe by which prompts are continued.

    There is one vocabulary for what is read and what is put out: pieces of words, or characters where a preset has no
    size for them.
    """

    def prepare(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        read = tokenizers.texts_of([each.instance[name] for each in dataset.train for name in ("text", "target")])
        output = tokenizers.shared(read, vocabulary=preset.vocabulary)
        begin, end = tokenizers.special_ids(output)
        sizes = config(vocabulary=tokenizers.size(output), begin=begin, end=end, **preset.sizes)
        return Blueprint(sizes, (), {PROMPT: tokenizers.reading(output), OUTPUT: output})

    return Recipe(config, network, card, prepare, presets, task=task, data=rows.PAIRS, builtin=builtin)
