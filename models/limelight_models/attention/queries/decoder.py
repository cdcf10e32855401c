"""The basic query (H1): a decoder asks with its own state, step after step."""

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import require_axes, require_features
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.weights import AroundAttention


class Decoder(AroundAttention, nn.Module):
    """A decoder whose state is the query (Bahdanau et al. 2015, eq. 4–6 and A.1.1; survey BF §3.3.1).

    q_t = s_{t-1};  c_t = attention of q_t over F;  s_t = GRU([y_{t-1}; c_t], s_{t-1})

    Nothing of the query is made for attention: it is what the task's own model has at hand. What is put out at a step,
    and fed back as y, is the caller's; here all y are given, as in training.

    Shapes: state s_0 [batch, d_s], outputs y_0 … [batch, step, d_y], features [batch, key, d_f], mask [batch, key]
        -> states [batch, step, d_s], context vectors [batch, step, d_c], weights [batch, head, step, key(, feature)].
    Raises: ShapeError where the state or the outputs have another size than was declared.
    """

    def __init__(self, *, attention: nn.Module, d_y: int, d_c: int, d_s: int) -> None:
        super().__init__()
        self.attention, self.d_y, self.d_s = attention, d_y, d_s
        self.cell = nn.GRUCell(d_y + d_c, d_s)

    def forward(
        self, state: Tensor, outputs: Tensor, features: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        require_axes(outputs, "outputs", "batch, step, d_y")
        steps = []
        for output in outputs.unbind(1):
            found, weights = self.ask(state, features, mask)
            state = self.advance(state, output, found)
            steps.append((state.unsqueeze(1), found.unsqueeze(1), weights))
        states, contexts, rows = zip(*steps, strict=True)
        return torch.cat(states, 1), torch.cat(contexts, 1), torch.cat(rows, 2)

    def ask(
        self, state: Tensor, features: Tensor, mask: Tensor | None = None, context: Context | None = None
    ) -> tuple[Tensor, Tensor]:
        """One question: what the state [batch, d_s] finds [batch, d_c], and its weights [batch, head, 1, key]."""
        require_features(state, "state", self.d_s, self)
        found, weights = attend(self.attention, state.unsqueeze(1), features, None, over_keys(mask), context)
        return found.squeeze(1), weights

    def advance(self, state: Tensor, output: Tensor, found: Tensor) -> Tensor:
        """The next state [batch, d_s]."""
        require_features(output, "outputs", self.d_y, self)
        following: Tensor = self.cell(torch.cat([output, found], -1), state)
        return following
