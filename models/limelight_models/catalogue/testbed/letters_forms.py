"""Attention via attention (E2): a decoder asks words, which say which letters inside them count."""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import average
from limelight_models.attention.levels import AttentionViaAttention
from limelight_models.attention.score import Additive
from limelight_models.attention.weights import weights_of
from limelight_models.cards.labels import LabelSet, numbered
from limelight_models.cards.maps import Map
from limelight_models.catalogue.testbed import sentence as sentences
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.letters import MOST, NAMES, Letters
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE, taxonomy
from limelight_models.catalogue.testbed.text import TOKENS, Features, Scale, Texts
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores

LETTERS = LabelSet(name="letters", kind="slots", names=NAMES)
ANSWERS = 3


class LettersModel(SmallModel):
    """Top-down attention over words and the letters inside them, asked by a decoder (Zhao & Zhang 2018, §3.2).

    s_0 = tanh(W_0 mean(F^w));  c_t = [c^w; c^c]: what s_{t-1} finds among the words says, with it, which letters of the
    whole text count;  s_t = GRU([y_{t-1}; c_t], s_{t-1});  o_t = W_o s_t, of which the last counts;
    y_t = Σ_c softmax(o_t)_c E_c is fed back, where the paper's decoder reads the character that it put out;  y_0 is
    trained

    Shapes: token_ids int64 [batch, token], token_mask bool -> logits [batch, class],
        maps `word` [batch, 1, answer, token] and of the last answer `letter` [batch, 1, token, letter].
    """

    def __init__(self, texts: Texts, module: AttentionViaAttention) -> None:
        super().__init__()
        self.features, self.letters, self.module = Features(texts), Letters(texts), module
        word, letter = weights_of(module)
        answers = numbered("answers", "output_steps", "answer", ANSWERS)
        self.maps = {
            "word": Map(weights=word, kind="pool", queries=answers, keys=TOKENS, features=texts.d),
            # One distribution over all letters of the text, laid out word by word.
            "letter": Map(weights=letter, kind="pool", queries=TOKENS, keys=LETTERS, features=texts.d, part=True),
        }
        self.begin, self.cell = nn.Linear(texts.d, texts.d), nn.GRUCell(3 * texts.d, texts.d)
        self.first_output = nn.Parameter(0.1 * torch.randn(texts.d))
        self.classify = Scores(d_in=texts.d, d_out=len(texts.labels), dropout=texts.dropout)
        self.fed_back = nn.Linear(len(texts.labels), texts.d, bias=False)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        words = self.features(ids, mask)
        letters, spelled = self.letters(ids)
        known = (spelled & mask.unsqueeze(-1)).flatten(1, 2)
        state = self.begin(average(words, mask).squeeze(1)).tanh()
        output, rows = self.first_output.expand(ids.shape[0], -1), []
        for _ in range(ANSWERS):
            found, weights = self.module(state.unsqueeze(1), words, letters.flatten(1, 2), mask, known)
            state = self.cell(torch.cat([output, found.squeeze(1)], -1), state)
            scores = self.classify(state)
            output = self.fed_back(scores.softmax(-1))
            rows.append(weights)
        last = rows[-1].character.squeeze(2).unflatten(-1, (-1, MOST))
        return Answer({"logits": scores}, {"word": torch.cat([each.word for each in rows], 2), "letter": last})


def asking_words(s: Scale) -> AttentionViaAttention:
    """The module, by additive attention."""
    return AttentionViaAttention(
        over_words=Attention(score=Additive(d_q=s.d, d_k=s.d, d_w=s.d_w)),
        over_characters=Attention(score=Additive(d_q=2 * s.d, d_k=s.d, d_w=s.d_w)),
    )


def via() -> ServedForm:
    """A decoder's state asks words, which say which of their letters count."""

    def built(title: str, texts: Texts) -> Built:
        row = taxonomy(score=ADDITIVE, levels="attention-via-attention", query="basic")
        model = LettersModel(texts, asking_words(texts)).eval()
        return model, sentences.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="sentence", make=built)
