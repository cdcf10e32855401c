"""Long short-term memory-network, K8 (Cheng, Dong & Lapata 2016): an LSTM that goes on from all that it has read.

Figure 2 of the paper: in the place of one cell there is a tape of the cells and states of all tokens before; each token
looks at them, and what it finds goes into its gates as the state and the cell of the token before do in an LSTM. A text
is put into a class by the average of its states (§5.2).
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import average, over_keys
from limelight_models.attention.score import Additive
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.attention.weights import AroundAttention
from limelight_models.cards.language import Attends, maps_of
from limelight_models.data import docstrings
from limelight_models.in_turn import Tensors, in_turn
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class LstmnConfig(TextSizes):
    """Sizes. tape: whether tokens look at all before them; without, at the one before, which is an LSTM."""

    d_embedding: int = 64
    d: int = 64
    d_w: int = 64
    tape: bool = True
    dropout: float = 0.3
    max_tokens: int = 256


class IntraAttention(AroundAttention, nn.Module):
    """A layer of an LSTMN (§3.2).

    a_i^t = vᵀ tanh(W_h h_i + W_x x_t + W_h̃ h̃_{t-1});  s^t = softmax(a^t), i < t;  [h̃_t; c̃_t] = Σ_i s_i^t [h_i; c_i]
    [i; f; o] = sigmoid(W [h̃_t; x_t]), ĉ = tanh(W_c [h̃_t; x_t]);  c_t = f ⊙ c̃_t + i ⊙ ĉ, h_t = o ⊙ tanh(c_t)

    The first token finds nothing. tape: as of the config; without, h̃_t = h_{t-1} and c̃_t = c_{t-1}.

    Shapes: x [batch, token, d_in] -> states [batch, token, d], weights [batch, 1, token, token].
    """

    def __init__(self, *, d_in: int, d: int, d_w: int, tape: bool) -> None:
        super().__init__()
        self.d, self.tape = d, tape
        self.prepared = PreparedKeys(Additive(d_q=d_in + d, d_k=d, d_w=d_w, bias=False))
        self.attention = Attention(score=self.prepared)
        self.gates = nn.Linear(d + d_in, 4 * d)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
            keys, tape, read, place = left  # W_h h_i, [h_i; c_i], h̃_{t-1}, t
            position = torch.arange(tape.shape[1], device=tape.device)
            seen = position < place if self.tape else position == place - 1
            asked = torch.cat([now, read], -1)[:, None, None]
            found, row = self.attention(asked, keys.unsqueeze(1), tape.unsqueeze(1), over_keys(seen))
            read, cell = found[:, 0, 0].chunk(2, -1)
            enter, forget, leave, new = self.gates(torch.cat([read, now], -1)).chunk(4, -1)
            cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            state = leave.sigmoid() * cell.tanh()
            here = (position == place).unsqueeze(-1)
            key = self.prepared.prepare(state[:, None, None]).squeeze(1)
            tape = torch.where(here, torch.cat([state, cell], -1).unsqueeze(1), tape)
            return (torch.where(here, key, keys), tape, read, place + 1), (state, row[:, :, 0])

        nothing = x.new_zeros(*x.shape[:2], self.d)
        start = self.prepared.prepare(nothing.unsqueeze(1)).squeeze(1)
        place = torch.zeros_like(x[:, 0, :1], dtype=torch.int64)
        states, rows = in_turn(step, (start, torch.cat([nothing, nothing], -1), nothing[:, 0], place), x)
        return states.transpose(0, 1), rows.movedim(0, 2)


class Lstmn(Network):
    """Text -> classes, with the weights of each token over those before it.

    logits = W₂ relu(W₁ h̄ + b₁) + b₂, h̄ the average of h_1 … h_n

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class], map `encoder.self`
        [batch, 1, token, token].
    """

    def __init__(self, config: LstmnConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.encoder = IntraAttention(d_in=config.d_embedding, d=d, d_w=config.d_w, tape=config.tape)
        self.dropout = nn.Dropout(config.dropout)
        self.hidden, self.classify = nn.Linear(d, d), nn.Linear(d, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        # It reads onward, so that real states know nothing of the padding behind them.
        states, weights = self.encoder(self.dropout(self.embedding(tensors["token_ids"])))
        read = self.hidden(self.dropout(average(states, mask).squeeze(1))).relu()
        both = mask.unsqueeze(-1) & mask.unsqueeze(-2)
        return Answer({"logits": self.classify(self.dropout(read))}, {"encoder.self": weights * both.unsqueeze(1)})


def card(network: Lstmn, blueprint: Blueprint[LstmnConfig]) -> Card:
    """Describe the network."""
    text = blueprint.text("A text, such as a sentence or a review.")
    looks = Attends(text.tokens(), text.tokens(), "Which of the tokens before it each token goes on from.")
    return blueprint.card(
        network,
        title="LSTMN" if network.config.tape else "LSTM, written as an LSTMN",
        summary="Classifies a text by a recurrent network that looks back at all that it has read at each token.",
        inputs=[text],
        maps=maps_of(network.encoder, {"encoder.self": looks}),
        taxonomy="additive, self-attentive",
        citation="Cheng, Dong, Lapata (2016): Long Short-Term Memory-Networks for Machine Reading. EMNLP",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d=6, d_w=5, dropout=0.0),
    "demo": preset(8, 16, 4e-3, patience=3, vocabulary=3000).sized(d_embedding=32, d=32, d_w=32, max_tokens=64),
    "full": preset(10, 32, 2e-3, patience=3, vocabulary=20_000),
    # §5.2: 300 features of words, 168 of states, for 1 layer.
    "paper": preset(20, 5, 2e-3, patience=5, weight_decay=1e-4, vocabulary=20_000).sized(
        d_embedding=300, d=168, d_w=168, dropout=0.5
    ),
}

LSTMN = classifying_texts(LstmnConfig, Lstmn, card, PRESETS, builtin=docstrings.texts)
# What the paper compares it with: an LSTM.
LSTMN_PLAIN = LSTMN.changed(tape=False)
