"""The logit lens: the tokens that the head of a decoder reads from hidden states (nostalgebraist 2020)."""

from collections.abc import Mapping, Sequence

import numpy as np

from limelight_bundle.descriptions import ModelDescription
from limelight_bundle.values import Array
from limelight_service.engine.decoding.detokenization import SequenceDetokenizer
from limelight_service.engine.runtime.sessions import Session
from limelight_service.ipc.boundary import Reading

_TOGETHER = 32  # vectors, each of which becomes a score for every token of the vocabulary


class Lens:
    """Reads the most probable tokens from hidden states, by a graph of the bundle."""

    def __init__(self, session: Session, description: ModelDescription, detokenizer: SequenceDetokenizer) -> None:
        self._session, self._detokenizer = session, detokenizer
        layers = {each.stack: each.layer for each in description.hidden}
        self._last = frozenset(each.name for each in description.hidden if each.layer == layers[each.stack])

    def read(self, states: Mapping[str, Array], most: int) -> tuple[Reading, ...]:
        """Read tokens from vectors, [entry, feature] or [feature] each, `most` of every vector."""
        rows = {name: np.atleast_2d(each) for name, each in states.items()}
        vectors = np.concatenate([*rows.values()])
        # The last is behind the norm, which the graph gives to the others.
        is_last = np.repeat([name in self._last for name in rows], [len(each) for each in rows.values()])
        inputs = {"vectors": vectors, "is_last": is_last}
        feeds = {name: inputs[name] for name in self._session.inputs}  # a decoder may have no norm
        found = [
            self._session.run(
                ("tokens", "log_probabilities"),
                {name: each[place : place + _TOGETHER] for name, each in feeds.items()},
            )
            for place in range(0, len(vectors), _TOGETHER)
        ]
        ids, chances = (np.concatenate([*column])[:, :most] for column in zip(*found, strict=True))
        ends = np.cumsum([len(each) for each in rows.values()])[:-1]
        parts = zip(rows, np.split(ids, ends), np.split(chances, ends), strict=True)
        return tuple(Reading(name, part, self._texts(part.ravel().tolist()), chance) for name, part, chance in parts)

    def _texts(self, ids: Sequence[int]) -> list[str]:
        return [self._detokenizer.written(each) for each in ids]
