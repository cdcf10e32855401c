"""Universal Transformer, L5 (Dehghani et al. 2019): one layer again and again, as often as each token needs it.

Figure 2 of the paper, with the dynamic halting of its appendix C (adaptive computation time, Graves 2016): the encoder
has one layer and the decoder another. The loop has so many steps as `steps` allows. A token that has halted goes on
being transformed and attended to, as in the paper's listing 2 and the authors' code (tensor2tensor), though §2.2 says
that its state is copied: `copied` does that. Attention is as quadratic as the Transformer's, step by step.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight_models.attention.cached import KVCache
from limelight_models.attention.signals.mean import mean_where
from limelight_models.blocks.halting import Halting, Pondered
from limelight_models.blocks.transformer import places
from limelight_models.cards.language import Attends, LabelSet, Map, State, cached_states, maps_of
from limelight_models.network import Answer, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import DecoderLayer, EncoderDecoder, EncoderDecoderConfig, parts


class UniversalConfig(EncoderDecoderConfig):
    """Sizes. layers: of the block that is repeated: one. steps: how often, at most. halting: whether tokens halt.

    copied: whether those that have halted stay as they are. threshold: a token halts where its probabilities of halting
    sum to more. price: what a step of a token costs.
    """

    layers: int = 1
    steps: int = 4
    halting: bool = True
    copied: bool = False
    threshold: float = 0.99
    price: float = 0.01

    def states(self) -> list[State]:
        return cached_states(self.steps, self.heads, self.d_model)


class UniversalTransformer(EncoderDecoder):
    """Text -> text, with every weight of every step, and how much each step counts for each token.

    H_t = layer(H_{t-1} + P_t), P_t = PE(position) + PE(t) (paper eq. 4–7), H_0 the embedded tokens; the decoder reads
    what the encoder's tokens had come to when they halted.

    Shapes: as `EncoderDecoder`, a step in the place of a layer, and maps `encoder.steps` [batch, 1, source, step],
        `decoder.steps` [batch, 1, output, step]. In training target_mask as well, and the signal `ponder`, a number.
    """

    def __init__(self, config: UniversalConfig) -> None:
        super().__init__(config)
        self.steps, self.price = config.steps, config.price
        self.encoder_halting, self.decoder_halting = (
            Halting(d=config.d_model, threshold=config.threshold, halting=config.halting, copied=config.copied)
            for _ in range(2)
        )

    def embed(self, embedding: nn.Module, token: Tensor, position: Tensor) -> Tensor:
        """√d_model · E y; where a token stands goes in at every step."""
        embedded: Tensor = self.dropout(math.sqrt(self.config.d_model) * embedding(token))
        return embedded

    def entered(self, features: Tensor, position: Tensor, number: int) -> Tensor:
        """H_{t-1} + P_t of step t = number + 1: [batch, token, d_model], position [… , token]."""
        return features + places(position, features) + places(torch.full_like(position, number + 1), features)

    def read_source(self, tensors: Mapping[str, Tensor]) -> tuple[Pondered, dict[str, Tensor]]:
        """The source's tokens after the last step, and the encoder's maps."""
        ids, mask = tensors["source_ids"], tensors["source_mask"]
        position = torch.arange(ids.shape[1], device=ids.device)
        pondered = self.encoder_halting.begin(self.embed(self.source_embedding, ids, position))
        maps = dict[str, Tensor]()
        for number in range(self.steps):
            entered = self.entered(pondered.state, position, number)
            made, maps[f"encoder.{number}.self"] = self.encoder[0](entered, mask)
            pondered = self.encoder_halting(pondered, entered, made)
        return pondered, maps | {"encoder.steps": Halting.shown(pondered) * mask[:, None, :, None]}

    @property
    def writer(self) -> DecoderLayer:
        """The decoder's layer."""
        (layer,) = self.decoder
        assert isinstance(layer, DecoderLayer)
        return layer

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        pondered, maps = self.read_source(tensors)
        memory = self.writer.cross.read(pondered.result)
        return {**maps, "source_keys": memory.keys, "source_values": memory.values}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        position, memory = tensors["position"], KVCache(tensors["source_keys"], tensors["source_values"])
        features = self.embed(self.target_embedding, token, position).unsqueeze(1)
        pondered, states, maps = self.decoder_halting.begin(features), dict[str, Tensor](), dict[str, Tensor]()
        for number in range(self.steps):
            entered = self.entered(pondered.state, position.unsqueeze(1), number)
            kept = KVCache(tensors[f"keys.{number}"], tensors[f"values.{number}"])
            made, own, cross, new = self.writer.step(entered, kept, position, memory, tensors["source_mask"])
            pondered = self.decoder_halting(pondered, entered, made)
            states |= {f"next_keys.{number}": new.keys, f"next_values.{number}": new.values}
            maps |= {f"decoder.{number}.self": own[:, :, 0], f"decoder.{number}.cross": cross[:, :, 0]}
        maps["decoder.steps"] = Halting.shown(pondered)[:, :, 0]
        return StepAnswer(self.scores(pondered.result[:, 0]), states, maps)

    def forward(self, **tensors: Tensor) -> Answer:
        source, maps = self.read_source(tensors)
        memory, target = self.writer.cross.read(source.result), tensors["target_ids"]
        put_in = torch.cat([torch.full_like(target[:, :1], self.config.begin), target[:, :-1]], 1)
        position = torch.arange(put_in.shape[1], device=put_in.device)
        pondered = self.decoder_halting.begin(self.embed(self.target_embedding, put_in, position))
        for number in range(self.steps):
            entered = self.entered(pondered.state, position, number)
            made, own, cross = self.writer(entered, memory, tensors["source_mask"])
            pondered = self.decoder_halting(pondered, entered, made)
            maps |= {f"decoder.{number}.self": own, f"decoder.{number}.cross": cross}
        maps["decoder.steps"] = Halting.shown(pondered)
        signals = dict[str, Tensor]()
        if self.training and self.encoder_halting.stop is not None:
            costs = mean_where(source.cost, tensors["source_mask"]), mean_where(pondered.cost, tensors["target_mask"])
            signals = {"ponder": sum(costs, torch.zeros_like(costs[0]))}
        return Answer({"scores": self.scores(pondered.result)}, maps, signals)

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Cross-entropy, and for each term the price of the mean token's steps and remainder."""
        ponder = answer.signals.get("ponder", losses.new_zeros(()))
        return losses.sum() + self.price * len(losses) * ponder


def card(network: UniversalTransformer, blueprint: Blueprint[UniversalConfig]) -> Card:
    """Describe the model."""
    described = parts(network, blueprint)
    steps = LabelSet(name="steps", kind="hops", names=tuple(f"step {number}" for number in range(network.steps)))
    maps = dict[str, Map]()
    for stack, halting in (("encoder", network.encoder_halting), ("decoder", network.decoder_halting)):
        own = {name: each for name, each in described["maps"].items() if name.startswith(stack)}
        for number in range(network.steps):  # a step is what a layer is elsewhere
            maps |= {
                name.replace(".0.", f".{number}."): replace(
                    each, summary=each.summary.replace("layer 0", f"step {number}")
                )
                for name, each in own.items()
            }
        about = "How much each step counts in what a token has come to; nothing after it halts."
        queries = own[f"{stack}.0.self"].queries
        maps |= maps_of(halting, {f"{stack}.steps": Attends(queries, steps, about, "memory")})
    return blueprint.card(
        network,
        title="Universal Transformer",
        summary="Rewrites a text token by token, by one layer that is repeated until each token halts.",
        taxonomy="scaled multiplicative, self-attentive, basic, multi-head, multi-hop",
        citation="Dehghani, Gouws, Vinyals, Uszkoreit, Kaiser (2019): Universal Transformers. ICLR",
        **{**described, "maps": maps, "hidden": {}},  # what is read is a mixture of all steps
    )


PRESETS = {
    "tiny": tiny(d_model=8, steps=3, heads=2, d_hidden=8),
    "demo": preset(16, 64, 2e-3, steps=3),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000, d_model=128, heads=8, d_hidden=512),
    # The authors' base model, with this project's schedule of the learning rate.
    "paper": preset(20, 512, 7e-4, patience=20, weight_decay=0.0, vocabulary=32_000).sized(
        d_model=1024, steps=6, heads=16, d_hidden=4096
    ),
}

UNIVERSAL = rewriting(UniversalConfig, UniversalTransformer, card, PRESETS)
# As many steps for every token; and §2.2 to the letter.
UNIVERSAL_FIXED = UNIVERSAL.changed(halting=False)
UNIVERSAL_COPIED = UNIVERSAL.changed(copied=True)
