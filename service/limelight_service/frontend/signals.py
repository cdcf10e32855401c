"""Attention as a signal: of a share of calls, one row is run again with whole maps, and numbers of them are counted.

The caller's answer waits for none of it. One row is looked at at a time, and none while rows wait.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.attention_drift import Reference, decayed
from limelight_bundle.attention_signals import BINS, SIGNALS, counts, is_observable, signals
from limelight_bundle.errors import LimelightError
from limelight_bundle.maps import MapWeights
from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_service.admission.memory import MemoryBudget
from limelight_service.attention.options import Options, Selection
from limelight_service.frontend.call import Ending
from limelight_service.ipc.boundary import GenerationSettings, InferenceRequest, MapResult, RowResult
from limelight_service.ipc.client import as_it_is
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.traces import Attribute, Trace

if TYPE_CHECKING:
    from limelight_service.frontend.models import Model, Models

logger = logging.getLogger(__name__)

_MOST_BYTES = 2**26  # of the maps of a row: of more, one is looked at, or none where that is as large
_PATIENCE = 10.0  # seconds that a row may take

_Key = tuple[str, int]


@dataclass
class Watched:
    """A version that is watched. Used by one thread at a time.

    references, observed: by map and signal, the latter counts to which old rows add less and less. rows: by map.
    """

    maps: Mapping[str, model_pb2.MapDescription]
    references: Mapping[tuple[str, str], Reference]
    observed: dict[tuple[str, str], Array] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, found: Mapping[str, Array]) -> None:
        """Count the signals of one map of a row."""
        self.rows[name] += 1
        for signal, values in found.items():
            before = self.observed.get((name, signal), np.zeros(BINS))
            self.observed[name, signal] = decayed(before, counts(values))

    def drift(self, name: str) -> float | None:
        """Give the largest drift of a map's signals (see `Reference`); None without one, or after too few rows."""
        pairs = [(name, signal) for signal in SIGNALS if (name, signal) in self.references]
        known = [each for each in pairs if each in self.observed]
        found = [self.references[each].drift(self.observed[each], self.rows[name]) for each in known]
        return max((each for each in found if each is not None), default=None)


class AttentionSignals:
    """Looks at the attention of a share of calls. For one event loop.

    share: from 0 to 1. memory: of what calls hold; where little is left, calls come first.
    """

    def __init__(self, share: float, models: "Models", metrics: Metrics, memory: MemoryBudget) -> None:
        self._share = share
        self._models = models
        self._memory = memory
        self._metrics = metrics
        self._watched: dict[_Key, Watched] = {}
        self._looking: asyncio.Task[None] | None = None

    def offer(
        self, model: "Model", row: Row, seed: int | None, generation: GenerationSettings, trace: Trace | None
    ) -> None:
        """Look at a row that was answered, where the share says so and nothing else waits.

        Args:
            trace: gets a span with the means of the signals; None where the call is not traced.
        """
        if random.random() >= self._share or self._looking is not None:
            return
        schema = model.schema
        key = schema.name, schema.version
        if model.engine().wait(*key).seconds:
            return
        if key not in self._watched:
            maps = {each.name: each for each in schema.maps if is_observable(each)}
            self._watched[key] = Watched(maps, schema.references)
        watched = self._watched[key]
        attention, size = _options(model, row, generation, tuple(watched.maps))
        if attention is None or self._memory.held + size > self._memory.limit:
            return
        held = Ending()
        try:
            _, release = self._models.take(*key)  # an unload waits for the release
        except LimelightError:
            return
        held.callback(release)
        held.callback(self._memory.take(size).release)
        request = InferenceRequest(
            model=schema.name,
            version=schema.version,
            rows=(row,),
            seeds=(seed,),
            outputs=schema.kept_outputs(()),
            attention=attention,
            generation=generation,
            deadline=time.monotonic() + _PATIENCE,
        )
        self._looking = asyncio.create_task(self._look(model, watched, request, trace))
        self._looking.add_done_callback(lambda _: held.close())

    def gone(self, name: str, version: int) -> None:
        """Forget a version that is gone."""
        self._watched.pop((name, version), None)
        if not any(each == name for each, _ in self._watched):
            self._metrics.attention_gone(name)

    def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self, model: "Model", watched: Watched, request: InferenceRequest, trace: Trace | None) -> None:
        began = time.monotonic_ns()
        try:
            (result,) = await model.engine().answer(request, as_it_is)
            attributes = await asyncio.to_thread(self._observe, watched, request, result)
        except LimelightError as error:  # a deadline, or a server that stops: there are other rows
            logger.debug("attention was not looked at: %s", error.message)
            return
        except Exception:
            logger.exception("attention of %s could not be looked at", request.model)
            return
        finally:
            self._looking = None
        if trace is not None:
            trace.stage("attention", began, time.monotonic_ns() - began, attributes)

    def _observe(self, watched: Watched, request: InferenceRequest, result: RowResult) -> dict[str, Attribute]:
        """Count the signals of a row's maps; gives their means."""
        name, (row,) = request.model, request.rows
        means: dict[str, Attribute] = {}
        for each in result.maps:
            found = signals(_weights(each), watched.maps[each.name], row.labels)
            watched.add(each.name, found)
            for signal, values in found.items():
                self._metrics.attention_signal(name, each.name, signal, counts(values).tolist(), float(values.sum()))
                means[f"limelight.attention.{each.name}.{signal}"] = float(values.mean())
            if (drift := watched.drift(each.name)) is not None:
                self._metrics.attention_drift(name, each.name, drift)
        return means


def _options(
    model: "Model", row: Row, generation: GenerationSettings, names: tuple[str, ...]
) -> tuple[Options | None, int]:
    """Select all of these maps, or one of them by chance where all are too large; None where that is too large too.

    Gives the bytes that they take as well: as they are computed, and as they are sent.
    """
    for chosen in (names, (random.choice(names),)) if names else ():
        options = Options(selections=(Selection(names=chosen),))
        size = model.sizes.attention(row, generation, model.schema.plan(options))
        if size <= _MOST_BYTES:
            return options, 2 * size
    return None, 0


def _weights(result: MapResult) -> MapWeights:
    return MapWeights(result.weights, result.query_index, result.key_index)
