"""GRU-gated attention, P11 (Zhang, Xiong, Xie & Su 2020): a source that is read anew before each token.

Between the encoder and the attention of RNNsearch stands a gated unit: the annotation of each source token is its old
state, and the decoder's state its input. So annotations differ from step to step, and contexts are less alike. Not
here: the paper's second unit, whose old state is the decoder's.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from limelight_models.recipes import Blueprint, Card
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.rnn_search.rnn_search import PRESETS, RnnSearch, RnnSearchConfig, parts


class GruGated(RnnSearch):
    """RNNsearch whose annotations a gated unit refines by the decoder's state.

    z = σ(W_z s_{j-1} + U_z h_i), r = σ(W_r s_{j-1} + U_r h_i);  h̄ = tanh(W s_{j-1} + r ⊙ U h_i)
    h_i^j = z ⊙ h_i + (1 - z) ⊙ h̄;  e_ji = vᵀ tanh(W_a s_{j-1} + U_a h_i^j), α_j = softmax(e_j);  c_j = Σ_i α_ji h_i^j

    Shapes: as `RnnSearch`.
    """

    deciding = ("refine",)

    def __init__(self, config: RnnSearchConfig) -> None:
        super().__init__(config)
        self.refine = nn.GRUCell(config.d_decoder, 2 * config.d_encoder)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """As RNNsearch without keys: they are of annotations that no step has refined.

        Shapes: memory [batch, source, 2 d_encoder], initial_state [batch, d_decoder].
        """
        return {name: made for name, made in super().encode(**tensors).items() if name != "keys"}

    def attend(self, embedded: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        refined = self.refined(tensors["memory"], tensors["state"])
        keys = self.prepared.prepare(refined.unsqueeze(1)).squeeze(1)
        return super().attend(embedded, {**tensors, "memory": refined, "keys": keys})

    def refined(self, memory: Tensor, state: Tensor) -> Tensor:
        """h_i^j of every h_i. Shapes: memory [batch, source, d], state [batch, d_decoder] -> [batch, source, d]."""
        asked = state.unsqueeze(1).expand(-1, memory.shape[1], -1)
        made: Tensor = self.refine(asked.flatten(0, 1), memory.flatten(0, 1))
        return made.unflatten(0, memory.shape[:2])


def card(network: GruGated, blueprint: Blueprint[RnnSearchConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="GRU-gated attention",
        summary="Rewrites a text token by token, reading the source anew before it looks at it for each one.",
        taxonomy="additive",
        citation="Zhang, Xiong, Xie, Su (2020): Neural Machine Translation With GRU-Gated Attention Model. IEEE TNNLS",
        **parts(network, blueprint),
    )


GRU_GATED = rewriting(RnnSearchConfig, GruGated, card, PRESETS)
