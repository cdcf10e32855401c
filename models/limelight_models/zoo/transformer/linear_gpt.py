"""A decoder with linear attention, M4 (Katharopoulos et al. 2020): what is kept of all tokens so far does not grow.

§3.4 of the paper, "Transformers are RNNs", in layers as GPT-2's. The prompt is read at once; of it go on the sums
s = Σ φ(K_j) V_jᵀ and z = Σ φ(K_j), to which each token adds its own, in as much time as the first. What weight a token
gives to those of the prompt is shown by their φ(K_j), kept for that alone; the rest of its weight is on what was put
out, of which no key is kept.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.kernel import LinearAttention, Sums
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.cards.language import Attends, State, Written, carried_states, maps_of
from limelight_models.network import Answer, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.zoo.transformer.decoder import REWRITTEN, Block, DecoderConfig, TokenLayers, continuing, texts


class Read(NamedTuple):
    """Sums over all tokens, and φ(k) of those of the prompt [batch, head, token, d]."""

    sums: Sums
    keys: Tensor


class SummedAttention(nn.Module):
    """V'_i = φ(Q_i)ᵀ s_i / φ(Q_i)ᵀ z_i;  s_i = s_{i-1} + φ(K_i) V_iᵀ, z_i = z_{i-1} + φ(K_i) (eq. 16–20).

    Shapes: features [batch, token, d_model], mask bool [batch, token] -> output as features, weights [batch, head,
        token, token]; of a step weights [batch, head, 1, token of the prompt].
    """

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.attention: Any = MultiHead(attention=LinearAttention(causal=True), d_model=d_model, heads=heads)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Of all tokens at once, and of a step, which shows a part of them."""
        own = weights_of(self.attention)
        return *own, *(replace(each, normalised=False) for each in own)

    def forward(self, features: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Read]:
        heads, (query, key, value) = self.attention, self.attention.project(features, features, None)
        context, weights = heads.attention(query, key, value, mask[:, None, None])
        return heads.join(context), weights, Read(*heads.attention.read(query, key, value, mask[:, None, None]))

    def step(self, features: Tensor, kept: Read, position: Tensor) -> tuple[Tensor, Tensor, Sums]:
        heads, (query, key, value) = self.attention, self.attention.project(features, features, None)
        context, now = heads.attention.step(query, key, value, kept.sums)
        return heads.join(context), heads.attention.shares(query, kept.keys, now), now


class LinearGptConfig(DecoderConfig):
    """Sizes."""

    def attention(self) -> SummedAttention:
        return SummedAttention(d_model=self.d_model, heads=self.heads)

    def states(self) -> list[State]:
        return carried_states(*(f"{kind}.{number}" for number in range(self.layers) for kind in Sums._fields))


class LinearGpt(TokenLayers):
    """Prompt -> text, with the weights of every output token over the prompt, and of the prompt's over themselves.

    Shapes: prompt_ids int64 [batch, token], prompt_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], maps `prompt.<layer>.self` [batch, head, token, token],
        `decoder.<layer>.prompt` [batch, head, output, token]: behind the prompt goes in the begin token, and the target
        but for its last token.
    """

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        ids, mask = tensors["prompt_ids"], tensors["prompt_mask"]
        features = self.embed(ids, torch.arange(ids.shape[1], device=ids.device))
        found = {"begun": mask.sum(1)}
        for number, layer in enumerate(self.layers):
            features, found[f"prompt.{number}.self"], read = layer(features, mask)
            found |= {f"initial_{kind}.{number}": each for kind, each in read.sums._asdict().items()}
            found[f"prompt_keys.{number}"] = read.keys
        return found

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        position = tensors["begun"] + tensors["position"]
        features, states, maps = self.embed(token, position).unsqueeze(1), dict[str, Tensor](), dict[str, Tensor]()
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Block)
            sums = Sums(*(tensors[f"{kind}.{number}"] for kind in Sums._fields))
            features, weights, now = layer.step(features, Read(sums, tensors[f"prompt_keys.{number}"]), position)
            states |= {f"next_{kind}.{number}": each for kind, each in now._asdict().items()}
            maps[f"decoder.{number}.prompt"] = weights[:, :, 0]
        return StepAnswer(self.scores(self.norm(features[:, 0])), states, maps)

    def forward(self, **tensors: Tensor) -> Answer:
        prompt, mask, target = tensors["prompt_ids"], tensors["prompt_mask"], tensors["target_ids"]
        put_in = torch.cat([torch.full_like(target[:, :1], self.config.begin), target[:, :-1]], 1)
        there = torch.cat([mask, torch.ones_like(put_in, dtype=torch.bool)], 1)
        order = (~there).long().argsort(dim=1, stable=True)  # padding to the end, as of a prompt alone
        ids, there = torch.cat([prompt, put_in], 1).gather(1, order), there.gather(1, order)
        features, maps = self.embed(ids, torch.arange(ids.shape[1], device=ids.device)), dict[str, Tensor]()
        asked = mask.sum(1, keepdim=True) + torch.arange(target.shape[1], device=ids.device)
        for number, layer in enumerate(self.layers):
            features, weights, _ = layer(features, there)
            if not weights.shape[2]:
                continue  # no map is wanted
            weights = weights[..., : prompt.shape[1]] * mask[:, None, None]
            maps[f"prompt.{number}.self"] = weights[:, :, : prompt.shape[1]] * mask[:, None, :, None]
            maps[f"decoder.{number}.prompt"] = weights.take_along_dim(asked[:, None, :, None], 2)
        return Answer({"scores": self.scores(self.norm(features.take_along_dim(asked[:, :, None], 1)))}, maps)


def card(network: LinearGpt, blueprint: Blueprint[LinearGptConfig]) -> Card:
    """Describe the model."""
    prompt, target = texts(network.config, blueprint, REWRITTEN)
    written = Written.by(network.config, target.tokenizer, position="position", states=network.config.states())
    own, read = prompt.tokens("prompt"), "Where layer {} looked in the prompt before each token."
    shown = {
        "prompt.{}.self": Attends(own, own, "What each token of the prompt comes to look at in layer {}."),
        "decoder.{}.prompt": Attends(written.steps, own, read, "cross"),
    }
    return blueprint.card(
        network,
        title="Linear Transformer, decoding",
        summary="Continues a text token by token, keeping sums over all tokens that do not grow.",
        inputs=[prompt, target],
        results=[written],
        maps=maps_of(network.layers, shown),
        taxonomy="scoring: generalised kernel, self-attentive, multi-head",
        citation="Katharopoulos, Vyas, Pappas, Fleuret (2020): Transformers are RNNs: Fast Autoregressive Transformers "
        "with Linear Attention. ICML",
    )


PRESETS = {
    "tiny": tiny(d_model=16, heads=2, d_hidden=16),
    "demo": preset(12, 64, 2e-3, d_hidden=128),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000).sized(
        d_model=256, layers=4, heads=8, d_hidden=1024, dropout=0.2
    ),
    # Its model of MNIST's pixels (§4.2.1): 8 layers of 8 heads of 32 features. What it leaves out is as usual.
    "paper": preset(250, 10, 1e-4, patience=250, vocabulary=8000).sized(
        d_model=256, layers=8, heads=8, d_hidden=1024, max_prompt=511, max_new_tokens=512, max_characters=10_000
    ),
}

LINEAR_GPT = continuing(LinearGptConfig, card, PRESETS, LinearGpt)
