"""Attention via attention (E2): words say which letters inside them count."""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import average
from limelight_models.attention.levels import AttentionViaAttention
from limelight_models.attention.score import Additive
from limelight_models.attention.weights import weights_of
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map
from limelight_models.catalogue.testbed import sentence as sentences
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.letters import MOST, NAMES, Letters
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE, taxonomy
from limelight_models.catalogue.testbed.text import TEXT, TOKENS, Features, Scale, Texts
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores

LETTERS = LabelSet(name="letters", kind="slots", names=NAMES)


class LettersModel(SmallModel):
    """Top-down attention over words and the letters inside them (Zhao & Zhang 2018, §3.2).

    q = W_q mean(F^w);  what q finds among the words says, with q, which letters of the whole text count

    Shapes: token_ids int64 [batch, token], token_mask bool -> logits [batch, class],
        maps `word` [batch, 1, 1, token] and `letter` [batch, 1, token, letter].
    """

    def __init__(self, texts: Texts, module: AttentionViaAttention) -> None:
        super().__init__()
        self.features, self.letters = Features(texts), Letters(texts)
        self.ask = nn.Linear(texts.d, texts.d)
        self.module = module
        word, letter = weights_of(module)
        self.maps = {
            "word": Map(weights=word, kind="pool", queries=TEXT, keys=TOKENS, features=texts.d),
            # One distribution over all letters of the text, laid out word by word.
            "letter": Map(weights=letter, kind="pool", queries=TOKENS, keys=LETTERS, features=texts.d, part=True),
        }
        self.classify = Scores(d_in=2 * texts.d, d_out=len(texts.labels), dropout=texts.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        words = self.features(ids, mask)
        letters, spelled = self.letters(ids)
        query = self.ask(average(words, mask))
        known = (spelled & mask.unsqueeze(-1)).flatten(1, 2)
        vectors, weights = self.module(query, words, letters.flatten(1, 2), mask, known)
        maps = {"word": weights.word, "letter": weights.character.squeeze(2).unflatten(-1, (-1, MOST))}
        return Answer({"logits": self.classify(vectors.squeeze(1))}, maps)


def asking_words(s: Scale) -> AttentionViaAttention:
    """The module, by additive attention."""
    return AttentionViaAttention(
        over_words=Attention(score=Additive(d_q=s.d, d_k=s.d, d_w=s.d_w)),
        over_characters=Attention(score=Additive(d_q=2 * s.d, d_k=s.d, d_w=s.d_w)),
    )


def via() -> ServedForm:
    """Words say which of their letters count."""

    def built(title: str, texts: Texts) -> Built:
        row = taxonomy(score=ADDITIVE, levels="attention-via-attention")
        model = LettersModel(texts, asking_words(texts)).eval()
        return model, sentences.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="sentence", make=built)
