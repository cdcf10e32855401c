"""RNNsearch, J1 (Bahdanau et al. 2015): a decoder that looks back at the source for every token it puts out.

The network stands in `rnn_search`, which others train in another way.
"""

from models.blocks.fixed import FinalStates
from models.cards.card import Card
from models.cards.describe import describe
from models.cards.taxonomy import Citation, Taxonomy
from models.training.recipe import Blueprint
from models.zoo.rnn_search.rnn_search import RnnSearch, RnnSearchConfig, parts, rewriting


def card(network: RnnSearch, blueprint: Blueprint[RnnSearchConfig]) -> Card:
    """Describe the model."""
    return describe(
        title="RNNsearch",
        summary="Rewrites a text token by token, looking at the source before each one.",
        taxonomy=Taxonomy(scoring="additive"),
        citation=Citation(
            "Bahdanau, Cho, Bengio",
            "Neural Machine Translation by Jointly Learning to Align and Translate",
            2015,
            "ICLR",
        ),
        **parts(network, blueprint),
    )


BAHDANAU = rewriting(RnnSearchConfig, card)
# What attention is compared with: the same decoder, which gets the encoder's final states at every step.
BAHDANAU_LAST = BAHDANAU.with_parts(score=FinalStates())
