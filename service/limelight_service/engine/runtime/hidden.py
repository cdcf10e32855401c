"""Hidden states of a batch: the outputs of a graph that its rows request, and the gates that open for them."""

from collections.abc import Sequence

import numpy as np

from limelight_bundle.descriptions import OutputDescription
from limelight_bundle.hidden import hidden_gates, hidden_outputs
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.jobs import Job

_OPEN = np.array(True)


class GraphHidden:
    """The hidden states that one graph puts out."""

    def __init__(self, bundle: bundle_pb2.Bundle, graph: str) -> None:
        self._gates = hidden_gates(bundle, graph)
        self.outputs = [each for each in hidden_outputs(bundle.description) if each.name in self._gates]

    def wanted(self, jobs: Sequence[Job]) -> list[OutputDescription]:
        """Return those that some row of a batch requests: a gate opens for all rows."""
        if not self.outputs:
            return []
        names = {name for job in jobs for name in job.call.query.outputs or ()}
        return [each for each in self.outputs if each.name in names]

    def feeds(self, wanted: Sequence[OutputDescription]) -> dict[str, Array]:
        """Give the inputs that open the gates of some."""
        return {self._gates[each.name]: _OPEN for each in wanted if self._gates[each.name]}
