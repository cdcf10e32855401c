"""Listen, attend and spell, K14 (Chan, Jaitly, Le & Vinyals 2016).

Figure 1 of the paper, from below: a pyramid of bidirectional LSTMs listens to frames of sound, each layer to half as
many steps as the one under it; LSTMs above it look at what was heard and spell it, letter by letter. A variant looks as
Chorowski et al. (2015) do, who see where they looked before.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from limelight_models.attention import Context
from limelight_models.attention.score import LocationAware, Score
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.recipes import Blueprint, Card, Preset, preset, tiny
from limelight_models.recipes.transcribing import transcribing
from limelight_models.zoo.speech.speller import Speller, SpellerConfig, parts


class ListenAttendSpellConfig(SpellerConfig):
    """Sizes. The paper has d_encoder 256 over 3 layers of a pyramid, d_decoder 512 twice, and sampling 0.1.

    pyramid: layers that halve the number of steps. halving: whether they do. layers: of the speller. location: whether
    attention sees where it looked before, with so many `filters` of a `width` in steps.
    """

    pyramid: int = 2
    halving: bool = True
    layers: int = 2
    location: bool = False
    filters: int = 8
    width: int = 9
    sampling: float = 0.1

    @property
    def joined(self) -> int:
        return 2**self.pyramid if self.halving else 1


class Listener(nn.Module):
    """Listen (paper §3.1): a BLSTM, and pyramidal ones over it.

    h_i^j = BLSTM(h_{i-1}^j, h_i^{j-1})                            (eq. 4)
    h_i^j = pBLSTM(h_{i-1}^j, [h_{2i}^{j-1}; h_{2i+1}^{j-1}])      (eq. 5)

    Shapes: x [batch, frame, mel], mask [batch, frame] -> h [batch, u, 2 d_encoder], mask [batch, u], u joining
        2^pyramid frames.
    """

    def __init__(self, config: ListenAttendSpellConfig) -> None:
        super().__init__()
        self.pair = 2 if config.halving else 1
        d = 2 * config.d_encoder
        self.base = BiLstm(d_in=config.mels, d_hidden=config.d_encoder)
        self.pyramid = nn.ModuleList(
            BiLstm(d_in=self.pair * d, d_hidden=config.d_encoder) for _ in range(config.pyramid)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        h = self.base(x, mask)
        for layer in self.pyramid:
            pairs, mask = h.unflatten(1, (-1, self.pair)).flatten(2), mask[:, :: self.pair]
            h = layer(self.dropout(pairs), mask)
        return h, mask


class Energy(Score):
    """e_{i,u} = ⟨φ(s_i), ψ(h_u)⟩, φ and ψ being networks of one layer (paper eq. 9).

    Shapes: query s [batch, head, query, d_q], key h [batch, head, key, d_k] -> scores [batch, head, query, key].
    """

    def __init__(self, *, d_q: int, d_k: int, d_w: int) -> None:
        super().__init__()
        self.d_q = d_q
        self.phi = nn.Sequential(nn.Linear(d_q, d_w), nn.Tanh())
        self.psi = nn.Sequential(nn.Linear(d_k, d_w), nn.Tanh())

    def prepare(self, key: Tensor) -> Tensor:
        prepared: Tensor = self.psi(key)
        return prepared

    def of_prepared(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores: Tensor = self.phi(query) @ key.transpose(-2, -1)
        return scores

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.of_prepared(query, self.prepare(key), context)


def energy(config: ListenAttendSpellConfig) -> Score:
    """Eq. 9; or e_{i,u} = wᵀ tanh(W s_i + V h_u + U f_{i,u} + b) with f_i = F * α_{i-1} (Chorowski et al. 2015)."""
    d_q, d_k, d_w = config.d_decoder, 2 * config.d_encoder, config.d_attention
    if not config.location:
        return Energy(d_q=d_q, d_k=d_k, d_w=d_w)
    return LocationAware(d_q=d_q, d_k=d_k, d_w=d_w, filters=config.filters, width=config.width)


class ListenAttendSpell(Speller):
    """P(y | x) = Π_i P(y_i | x, y_{<i}), h = Listen(x), P(y | x) = AttendAndSpell(h, y) (paper eq. 1 to 3)."""

    def __init__(self, config: ListenAttendSpellConfig) -> None:
        super().__init__(config, score=energy(config))
        d, d_context = config.d_decoder, 2 * config.d_encoder
        self.listener = Listener(config)
        sizes = (config.d_embedding + d_context, *(d for _ in range(config.layers - 1)))
        self.cells = nn.ModuleList(nn.LSTMCell(size, d) for size in sizes)
        self.hidden = nn.Linear(d + d_context, d)
        self.scores = nn.Linear(d, config.vocabulary)

    @property
    def carried(self) -> tuple[str, ...]:
        return ("context", *(f"{kind}.{layer}" for layer in range(len(self.cells)) for kind in ("state", "cell")))

    def listen(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        heard: tuple[Tensor, Tensor] = self.listener(x, mask)
        return heard

    def begin(self, h: Tensor) -> Mapping[str, Tensor]:
        zeros = h.new_zeros(h.shape[0], self.config.d_decoder)
        return dict.fromkeys(self.carried, zeros) | {"context": torch.zeros_like(h[:, 0])}

    def spell(self, y: Tensor, known: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, Tensor], Tensor]:
        """s_i = RNN(s_{i-1}, y_{i-1}, c_{i-1});  c_i = AttentionContext(s_i, h);
        P(y_i | x, y_{<i}) = CharacterDistribution(s_i, c_i), a network with one hidden layer (paper eq. 6 to 8)."""
        s, states = torch.cat([y, known["context"]], -1), dict[str, Tensor]()
        for number, cell in enumerate(self.cells):
            s, kept = cell(self.dropout(s), (known[f"state.{number}"], known[f"cell.{number}"]))
            states |= {f"state.{number}": s, f"cell.{number}": kept}
        c, weights = self.look(s, known)
        scores = self.scores(self.dropout(torch.tanh(self.hidden(torch.cat([s, c], -1)))))
        return scores, {**states, "context": c}, weights


def card(network: ListenAttendSpell, blueprint: Blueprint[ListenAttendSpellConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Listen, attend and spell",
        summary="Writes down what is said in a recording, letter by letter, looking at a part of it before each.",
        taxonomy="scoring: location-aware" if network.location else "multiplicative",
        citation="Chan, Jaitly, Le, Vinyals (2016): Listen, Attend and Spell: A Neural Network for Large Vocabulary "
        "Conversational Speech Recognition. ICASSP",
        **parts(network, blueprint),
    )


PRESETS: Mapping[str, Preset] = {
    "tiny": tiny(mels=6, window=64, hop=32, d_embedding=6, d_encoder=6, d_decoder=8, d_attention=6, pyramid=1),
    "demo": preset(10, 32, 4e-3, d_encoder=40, d_decoder=64, d_attention=48, layers=1),
    "full": preset(14, 32, 4e-3, d_encoder=64, d_decoder=96, d_attention=64, layers=1, dropout=0.2),
    # §4: 40 filters of frames 10 ms apart, at 16 kHz; stochastic gradient descent there, Adam here.
    "paper": preset(20, 32, 1e-3, weight_decay=0.0, patience=20).sized(
        window=400, hop=160, mels=40, pyramid=3, d_embedding=256, d_encoder=256, d_decoder=512, d_attention=512
    ),
}

LISTEN_ATTEND_SPELL = transcribing(ListenAttendSpellConfig, ListenAttendSpell, card, PRESETS)
# Attention that sees where it looked before each letter.
LISTEN_ATTEND_SPELL_LOCATION = LISTEN_ATTEND_SPELL.changed(location=True)
# As many layers, each of which listens to every frame.
LISTEN_ATTEND_SPELL_FLAT = LISTEN_ATTEND_SPELL.changed(halving=False)
