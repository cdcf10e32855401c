"""Models that generate, as the engine runs them: pools of rows that join and leave at every step."""

from collections.abc import Hashable, Iterator, Mapping, Sequence

from bundle.maps import MapPart
from bundle.rows import Labels, Row
from bundle.text import Detokenizer
from bundle.v1 import bundle_pb2
from service.engine.decoder import Decoder
from service.engine.jobs import Job, RowEvent
from service.engine.observer import Observed, Observer
from service.engine.pool import Pool
from service.engine.sessions import Session
from service.engine.types import GenerationSettings, MapKey


class Generating(Observed):
    """A model that puts out tokens one by one.

    rows: the most that share a pool. Raises: BundleError where the generation refers to inputs or outputs that the
    graphs lack.
    """

    def __init__(
        self,
        bundle: bundle_pb2.Bundle,
        sessions: Mapping[str, Session],
        detokenizer: Detokenizer,
        observer: Observer,
        *,
        rows: int,
    ) -> None:
        self.decoder = Decoder(bundle, sessions, detokenizer)
        self._rows = rows
        self._model = bundle.description.name
        self._observer = observer

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> Hashable:
        """Give what rows of one pool have in common: the optional tensors that the graphs take."""
        return self.decoder.group(row)

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Tell whether tokens are drawn at random for a row."""
        return self.decoder.samples(row, generation)

    def put_in(self, row: Row) -> dict[str, Labels]:
        """Give the label sets of what goes into the model, as far as a row decides them before anything is put out."""
        return self.decoder.writer.put_in(row)

    def pool(self) -> Pool:
        """Make a pool, without rows yet."""
        return Pool(self.decoder, self._model, self._observer, most=self._rows)

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Generate for these rows alone, to the end of the last: a pool that nobody else joins."""
        pool = self.pool()
        yield pool.join(jobs, wide)
        while pool.rows:
            yield pool.step(wide)
