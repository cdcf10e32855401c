"""Key-value-predict attention, R4 (Daniluk, Rocktäschel, Welbl & Riedel 2017): a state cut in three.

Fig. 1c of the paper: a recurrent language model looks back at its last L states. One part of a state is compared, one
is read, and one tells the next token, so that none has to serve three ends. The recurrent unit is a GRU, and not an
LSTM.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.score import Additive
from limelight_models.blocks.recurrent import pick
from limelight_models.cards.language import Attends, LabelSet, Written, carried_states, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.zoo.transformer.decoder import REWRITTEN, PromptConfig, continuing, texts


class KeyValuePredictConfig(PromptConfig):
    """Sizes. parts: of a state, 3, or 2, whose second is both read and what tells, or 1. window: L, 5 in the paper."""

    parts: int = 3
    window: int = 5
    d_embedding: int = 64
    d_state: int = 192
    dropout: float = 0.1


class KeyValuePredict(GeneratingNetwork):
    """Prompt -> text, with the weights of every output token over the last L states.

    h_t = [k_t; v_t; p_t] = GRU(x_t, h_{t-1});  e_l = wᵀ tanh(W_Y k_l + W_h k_t), l = t - L … t - 1, α = softmax(e)
    r_t = Σ_l α_l v_l;  h*_t = tanh(W_r r_t + W_x p_t);  y_t = softmax(W* h*_t + b) (§2.3)

    Shapes: prompt_ids int64 [batch, token], prompt_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], map `decoder.memory` [batch, 1, output, L], the last state
        last: behind the prompt goes in the begin token, and the target but for its last token.
    """

    deciding = ("reads",)

    def __init__(self, config: KeyValuePredictConfig) -> None:
        super().__init__()
        self.config, d = config, config.d_state // config.parts
        self.words = nn.Embedding(config.vocabulary, config.d_embedding)
        nn.init.normal_(self.words.weight, std=0.1)
        self.dropout = nn.Dropout(config.dropout)
        self.reads = nn.GRU(config.d_embedding, d * config.parts, batch_first=True)
        self.attention = Attention(score=Additive(d_q=d, d_k=d, d_w=d, bias=False))
        self.of_read, self.of_own = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.scores = nn.Linear(d, config.vocabulary)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """The last L states behind the prompt, zeros where there are fewer.

        Shapes: begun int64 [batch], tokens of the prompt, initial_window [batch, L, d_state].
        """
        count = tensors["prompt_mask"].sum(1, keepdim=True)
        states, _ = self.reads(self.words(tensors["prompt_ids"]))
        window, there = self.back(states, count)
        return {"begun": count[:, 0], "initial_window": (window * there.unsqueeze(-1)).squeeze(1)}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        window, before = tensors["window"], tensors["begun"] + tensors["position"]
        state = torch.gru_cell(self.words(token), window[:, -1], *self.reads.all_weights[0]).unsqueeze(1)
        back = torch.arange(self.config.window, 0, -1, device=token.device)
        told, weights = self.tell(state, window.unsqueeze(1), (back <= before.unsqueeze(1)).unsqueeze(1))
        following = torch.cat([window[:, 1:], state], 1)
        return StepAnswer(self.scores(told[:, 0]), {"next_window": following}, {"decoder.memory": weights[:, :, 0]})

    def forward(self, **tensors: Tensor) -> Answer:
        prompt, mask, target = tensors["prompt_ids"], tensors["prompt_mask"], tensors["target_ids"]
        put_in = torch.cat([torch.full_like(target[:, :1], self.config.begin), target[:, :-1]], 1)
        there = torch.cat([mask, torch.ones_like(put_in, dtype=torch.bool)], 1)
        order = (~there).long().argsort(dim=1, stable=True)  # padding to the end, as of a prompt alone
        ids = torch.cat([prompt, put_in], 1).gather(1, order)
        states, _ = self.reads(self.dropout(self.words(ids)))
        asked = mask.sum(1, keepdim=True) + torch.arange(target.shape[1], device=ids.device)
        told, weights = self.tell(pick(states, asked), *self.back(states, asked))
        return Answer({"scores": self.scores(self.dropout(told))}, {"decoder.memory": weights})

    def back(self, states: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """The L states in front of some places, and which of them there are.

        Shapes: states [batch, token, d_state], asked int64 [batch, place] -> [batch, place, L, d_state], bool.
        """
        places = asked.unsqueeze(-1) - torch.arange(self.config.window, 0, -1, device=asked.device)
        found = pick(states, places.clamp(min=0).flatten(1))
        return found.unflatten(1, places.shape[1:]), places >= 0

    def tell(self, state: Tensor, window: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        """h* and α. Shapes: state [batch, place, d_state], window [batch, place, L, d_state], there bool [batch, place,
        L] -> [batch, place, d], [batch, 1, place, L].
        """
        own, kept = state.chunk(self.config.parts, -1), window.chunk(self.config.parts, -1)
        keys, values = kept[0], kept[min(1, self.config.parts - 1)]
        asked, read, told = (each.flatten(0, 1).unsqueeze(1) for each in (own[0].unsqueeze(2), keys, values))
        found, weights = self.attention(asked, read, told, there.flatten(0, 1)[:, None, None])
        sizes = state.shape[:2]
        hidden = torch.tanh(self.of_read(found[:, 0, 0].unflatten(0, sizes)) + self.of_own(own[-1]))
        return hidden, weights[:, :, 0].unflatten(0, sizes).transpose(1, 2)


def card(network: KeyValuePredict, blueprint: Blueprint[KeyValuePredictConfig]) -> Card:
    """Describe the model."""
    config = network.config
    prompt, target = texts(config, blueprint, REWRITTEN)
    written = Written.by(config, target.tokenizer, position="position", states=carried_states("window"))
    names = tuple(f"{back} back" for back in range(config.window, 0, -1))
    about = "How much each of the last states counts for each token."
    shown = Attends(written.steps, LabelSet(name="window", kind="slots", names=names), about)
    return blueprint.card(
        network,
        title="Key-value-predict attention",
        summary="Continues a text token by token by a state cut in three, looking back at the last few.",
        inputs=[prompt, target],
        results=[written],
        maps=maps_of(network.attention, {"decoder.memory": shown}),
        taxonomy="additive, local, self-attentive",
        citation="Daniluk, Rocktäschel, Welbl, Riedel (2017): Frustratingly Short Attention Spans in Neural Language "
        "Modeling. ICLR",
    )


PRESETS = {
    "tiny": tiny(window=3, d_embedding=8, d_state=12),
    "demo": preset(12, 64, 3e-3),
    "full": preset(12, 64, 2e-3, patience=2, vocabulary=2000).sized(d_embedding=128, d_state=384, dropout=0.2),
    # What it leaves out is as usual.
    "paper": preset(20, 64, 1e-3, patience=2, vocabulary=77_000).sized(d_embedding=300, d_state=900),
}

KEY_VALUE_PREDICT = continuing(KeyValuePredictConfig, card, PRESETS, KeyValuePredict)
# Keys apart from what is read, which tells as well; and a state that serves all three ends.
KEY_VALUE_PREDICT_TWO, KEY_VALUE_PREDICT_ONE = (KEY_VALUE_PREDICT.changed(parts=each) for each in (2, 1))
