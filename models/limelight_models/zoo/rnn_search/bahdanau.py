"""RNNsearch, J1 (Bahdanau et al. 2015): a decoder that looks back at the source for every token it puts out.

The network stands in `rnn_search`, which others train in another way.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from limelight_models.attention.signals import CoverageVectors
from limelight_models.blocks.fixed import FinalStates
from limelight_models.recipes import Blueprint, Card
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.rnn_search.rnn_search import PRESETS, RnnSearch, RnnSearchConfig, parts

D_COVERAGE = 10  # of a coverage vector, the larger of the paper's two


class CoverageRnnSearch(RnnSearch):
    """RNNsearch that keeps a vector of each source token's coverage (Tu et al. 2016, §3.2 and 4.1).

    e_ij = vᵀ tanh(W s_{i-1} + U h_j + V C_{i-1,j});  C_ij = GRU(C_{i-1,j}, [a_ij; h_j; s_{i-1}]);  C_0j = 0
    """

    states = ("state", "coverage")

    def __init__(self, config: RnnSearchConfig) -> None:
        super().__init__(config)
        self.covered = CoverageVectors(d_c=D_COVERAGE, d_k=2 * config.d_encoder, d_q=config.d_decoder)
        self.coverage_map = nn.Linear(D_COVERAGE, config.d_attention, bias=False)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """As RNNsearch, with initial_coverage [batch, source, D_COVERAGE]."""
        encoded = super().encode(**tensors)
        memory = encoded["memory"]
        return {**encoded, "initial_coverage": memory.new_zeros(*memory.shape[:-1], D_COVERAGE)}

    def attend(self, embedded: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        keys = tensors["keys"] + self.coverage_map(tensors["coverage"])
        return super().attend(embedded, {**tensors, "keys": keys})

    def advance(
        self, embedded: Tensor, context: Tensor, weights: Tensor, tensors: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        asked = tensors["state"].unsqueeze(1)
        coverage = self.covered(tensors["coverage"], weights, tensors["memory"], asked)
        return {**super().advance(embedded, context, weights, tensors), "coverage": coverage}


def card(network: RnnSearch, blueprint: Blueprint[RnnSearchConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="RNNsearch",
        summary="Rewrites a text token by token, looking at the source before each one.",
        taxonomy="additive",
        citation="Bahdanau, Cho, Bengio (2015): Neural Machine Translation by Jointly Learning to Align and "
        "Translate. ICLR",
        **parts(network, blueprint),
    )


BAHDANAU = rewriting(RnnSearchConfig, RnnSearch, card, PRESETS)
# What attention is compared with: the same decoder, which gets the encoder's final states at every step.
BAHDANAU_LAST = BAHDANAU.with_parts(score=FinalStates())
# Where the decoder has been, beside where it could look.
BAHDANAU_COVERAGE = BAHDANAU.but(network=CoverageRnnSearch)
