"""GPT-2, L2 (Radford et al. 2019): a decoder alone, which continues a prompt.

§2.3: the decoder of Vaswani et al. 2017 without its encoder, norms in front of each part and one at the end.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from limelight_models.attention import Attention
from limelight_models.attention.cached import CausalAttention, KVCache
from limelight_models.attention.masks import Mask, causal
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import AroundAttention
from limelight_models.cards.hidden import named_states
from limelight_models.cards.labels import input_steps
from limelight_models.cards.language import Attends, TextInput, Written, cached_states, forced_target, maps_of
from limelight_models.data import dates, rows, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.network import Answer, PromptedNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, Preset, Sizes, described, preset, tiny
from limelight_models.tasks.generate import Generate

PROMPT, OUTPUT = "prompt.json", "tokenizer.json"


class GptConfig(Sizes):
    """Sizes. The paper's smallest has d_model 768, 12 layers, 12 heads, d_hidden 3072 and 1024 places.

    begin, end: the token put in first, and the one that ends a prompt and a sequence.
    """

    vocabulary: int
    begin: int
    end: int
    d_model: int = 64
    layers: int = 2
    heads: int = 4
    d_hidden: int = 256
    dropout: float = 0.1
    max_prompt: int = 128
    max_new_tokens: int = 64
    max_characters: int = 1000

    @property
    def places(self) -> int:
        """The most tokens put in."""
        return 1 + self.max_prompt + self.max_new_tokens

    @property
    def looks(self) -> Mask:
        """What a token attends to, by places."""
        return causal

    def norm(self) -> nn.Module:
        """A norm of features."""
        return nn.LayerNorm(self.d_model)

    def last(self) -> nn.Module:
        """The norm behind all layers."""
        return self.norm()

    def act(self) -> nn.Module:
        """What stands between both maps of a block."""
        return nn.GELU()

    def block(self) -> "Block":
        """One of the layers."""
        return Block(self)


C = TypeVar("C", bound=GptConfig)


class Block(AroundAttention, nn.Module):
    """x' = x + attention(norm(x));  x'' = x' + W₂ gelu(W₁ norm(x')), where each place looks back alone.

    Shapes: features [batch, token, d_model] -> the same, weights [batch, head, token, token].
    """

    attention: CausalAttention

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        d_model, d_hidden = config.d_model, config.d_hidden
        self.attention_norm = config.norm()
        heads = MultiHead(attention=Attention(score=ScaledDot()), d_model=d_model, heads=config.heads)
        self.attention = CausalAttention(heads, config.looks)
        self.hidden_norm = config.norm()
        self.hidden = nn.Sequential(nn.Linear(d_model, d_hidden), config.act(), nn.Linear(d_hidden, d_model))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, KVCache]:
        attended, weights, kept = self.attention(self.attention_norm(features))
        return self.fed(features + self.dropout(attended)), weights, kept

    def step(self, features: Tensor, kept: KVCache, position: Tensor) -> tuple[Tensor, Tensor, KVCache]:
        """One token [batch, 1, d_model], from what is kept of those before it."""
        attended, weights, new = self.attention.step(self.attention_norm(features), kept, position)
        return self.fed(features + attended), weights, new

    def fed(self, features: Tensor) -> Tensor:
        """The second half."""
        return features + self.dropout(self.hidden(self.hidden_norm(features)))


class Gpt(PromptedNetwork):
    """Prompt -> text, with the weights of every output token over all that was put in before it.

    Shapes: prompt_ids int64 [batch, token], prompt_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], maps `decoder.<layer>.self` [batch, head, output, input]:
        what goes in is the begin token, the prompt, and the target but for its last token.
    """

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.d_model)
        self.places = nn.Embedding(config.places, config.d_model)
        self.layers = nn.ModuleList(config.block() for _ in range(config.layers))
        self.norm = config.last()
        self.dropout = nn.Dropout(config.dropout)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def embed(self, token: Tensor, position: Tensor) -> Tensor:
        """[…] -> […, d_model]."""
        embedded: Tensor = self.dropout(self.tokens(token) + self.places(position))
        return embedded

    def scores(self, features: Tensor) -> Tensor:
        """[…, d_model], behind the last norm -> […, token]: by the embeddings themselves."""
        return linear(features, self.tokens.weight)

    def prefill(self, token: Tensor, position: Tensor) -> Mapping[str, Tensor]:
        features = self.embed(token, position)
        read: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            features, _, kept = layer(features)
            read |= {f"next_keys.{number}": kept.keys, f"next_values.{number}": kept.values}
        return read

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        position = tensors["position"]
        features = self.embed(token, position).unsqueeze(1)
        states: dict[str, Tensor] = {}
        maps: dict[str, Tensor] = {}
        hidden = [features[:, 0]]
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Block)
            kept = KVCache(tensors[f"keys.{number}"], tensors[f"values.{number}"])
            features, weights, new = layer.step(features, kept, position)
            hidden.append(features[:, 0])
            states |= {f"next_keys.{number}": new.keys, f"next_values.{number}": new.values}
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


def parts(network: Gpt, blueprint: Blueprint[Any], prompted: str) -> dict[str, Any]:
    """Inputs, results and maps of the card. prompted: what the prompt is."""
    config = network.config
    prompt = TextInput(
        summary=prompted,
        tokenizer=blueprint.tokenizer(PROMPT),
        max_tokens=config.max_prompt,
        prefix="prompt",
        dimension="prompt",
        special_tokens=True,
    )
    target = forced_target(blueprint.tokenizer(OUTPUT), config.max_new_tokens)
    states = cached_states(config.layers, config.heads, config.d_model)
    written = Written.by(config, target.tokenizer, position="position", prompt=prompt, states=states)
    put_in = input_steps(prompt=prompt.tokens("prompt"))
    about = "Where layer {} looked, in the prompt and in what was put out, before each token."
    shown = Attends(written.steps, put_in, about)
    maps = maps_of(network.layers, {"decoder.{}.self": shown})
    return {"inputs": [prompt, target], "results": [written], "maps": maps, "hidden": {"decoder": config.d_model}}


def card(network: Gpt, blueprint: Blueprint[GptConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="GPT-2",
        summary="Continues a text token by token, looking back at all of it before each one.",
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Radford, Wu, Child, Luan, Amodei, Sutskever (2019): Language Models are Unsupervised Multitask "
        "Learners. OpenAI",
        **parts(network, blueprint, "What is to be rewritten."),
    )


def choices(config: type[C]) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """One vocabulary for what is read and what is put out: pieces of words, or characters where the preset has none."""

    def prepare(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        texts = tokenizers.texts_of([each.instance[name] for each in dataset.train for name in ("text", "target")])
        if preset.vocabulary:
            output = tokenizers.pieces(texts, vocabulary=preset.vocabulary, output=True)
        else:
            output = tokenizers.characters(texts, lower=False, output=True)
        begin, end = tokenizers.special_ids(output)
        made = config(vocabulary=tokenizers.size(output), begin=begin, end=end, **preset.sizes)
        return Blueprint(made, (), {PROMPT: tokenizers.reading(output), OUTPUT: output})

    return prepare


PRESETS = {
    "tiny": tiny(d_model=16, heads=2, d_hidden=16),
    "demo": preset(12, 64, 2e-3, d_hidden=128),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000).sized(
        d_model=256, layers=4, heads=8, d_hidden=1024, dropout=0.2
    ),
    # The smallest (Table 2), with 1024 places, half of them for the prompt. The paper says nothing of its rate: that of
    # the first GPT (Radford et al. 2018, §4.1).
    "paper": preset(20, 512, 2.5e-4, patience=20, vocabulary=50_257).sized(
        d_model=768, layers=12, heads=12, d_hidden=3072, max_prompt=511, max_new_tokens=512, max_characters=10_000
    ),
}

# The recipe of a model that continues a prompt, taught by pairs of prompts and what follows.
continuing = partial(described, choices=choices, data=rows.PAIRS)

GPT = continuing(GptConfig, Gpt, card, PRESETS, task=Generate(), builtin=dates.dataset)
