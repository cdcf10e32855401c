"""Models that generate: an encoder once, a step graph once a token, for a batch of rows that leave it as they end."""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.errors import BundleError
from bundle.maps import MapWeights, bound_maps
from bundle.rows import Row, bound_tensors, cut_output
from bundle.text import Detokenizer, TextStream
from bundle.v1 import bundle_pb2
from bundle.values import Array
from service.engine.forward import Feeds
from service.engine.jobs import Event, Job, RowEvent
from service.engine.observer import Observed, Observer, Stage
from service.engine.search import (
    BeamSearch,
    Ending,
    ForcedSearch,
    Hypothesis,
    Search,
    SingleSearch,
    greedy,
    log_softmax,
    sampler,
)
from service.engine.sessions import Session
from service.engine.states import States, check_states
from service.engine.trace import Trace, Tracer, slots_of
from service.engine.types import (
    Answer,
    FinishReason,
    GenerationSettings,
    MapKey,
    SequenceMaps,
    Step,
    Strategy,
    Timing,
)
from service.engine.writing import Writer
from service.errors import DeadlineError, InferenceError


class Generating(Observed):
    """A model that puts out tokens one by one.

    Raises: BundleError where the generation refers to inputs or outputs that the graphs lack.
    """

    def __init__(
        self,
        bundle: bundle_pb2.Bundle,
        sessions: Mapping[str, Session],
        detokenizer: Detokenizer,
        observer: Observer,
    ) -> None:
        self.generation = bundle.generation
        graphs = {each.name: each for each in bundle.graphs}
        encoder, step = graphs.get(self.generation.encoder), graphs[self.generation.step]
        check_states(self.generation, step, encoder)
        _check_generation(self.generation, step)
        carried = {self.generation.token_input, *(each.input for each in self.generation.states)}
        encoded = frozenset(encoder.outputs) if encoder else frozenset[str]()
        tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
        constant = encoded & (set(step.inputs) - carried)
        self.encoder = sessions[encoder.name] if encoder else None
        self.step = sessions[step.name]
        self.encoder_feeds = Feeds(bundle, encoder) if encoder else None
        self.step_feeds = Feeds(bundle, step, besides=constant | carried)
        self.encoder_maps = bound_maps(bundle, encoder.name, tensors) if encoder else {}
        if any(any(each.joined) for each in self.encoder_maps.values()):
            raise BundleError("instances of a generating model cannot be joined")
        self.encoder_outputs = [each for each in bundle.description.outputs if each.name in encoded]
        self.constant = tuple(constant)
        initial = {
            each.encoder_output for each in self.generation.states if each.WhichOneof("initial") == "encoder_output"
        }
        self.encoded = tuple(constant | initial | {each.name for each in self.encoder_outputs})
        self.axes = {axis.name for each in tensors.values() for axis in each.description.dimensions}
        self.tracer = Tracer(bundle, step, tensors, encoded=encoded)
        self.writer = Writer(bundle, detokenizer)
        self.graph = "+".join(each.name for each in (self.encoder, self.step) if each)
        self._model = bundle.description.name
        self._observer = observer

    def group(self, row: Row, maps: frozenset[MapKey]) -> Hashable:
        """Give what rows of one batch have in common: the optional tensors that the graphs take."""
        return (self.encoder_feeds.group(row) if self.encoder_feeds else None, self.step_feeds.group(row))

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Tell whether tokens are drawn at random: a forced target leaves nothing to draw."""
        return generation.draws and self.generation.target_tensor not in row.tensors

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Generate for all rows together; after each step, tell its tokens and the rows that ended."""
        started = time.monotonic_ns()
        decoding = _Decoding(self, jobs, started)
        yield decoding.begin()
        while decoding.rows:
            happened = decoding.leave(time.monotonic())
            if decoding.rows:
                happened += decoding.advance()
            yield happened
        self._observer.stage(self._model, Stage.BATCH, decoding.batching / 1e9)
        self._observer.stage(self._model, Stage.COMPUTE, decoding.computing / 1e9)

    def search(self, job: Job) -> Search:
        """Make the search that a row's query asks for; a target comes before any strategy."""
        settings = job.call.query.generation
        target = job.row.tensors.get(self.generation.target_tensor)
        if target is not None:
            return ForcedSearch(tuple(target.tolist()))
        most = self.generation.max_new_tokens
        limit = min(settings.max_new_tokens or most, most)
        ending = Ending(self.generation.end_token, limit, self.writer.stopped(settings.stop))
        if settings.strategy is Strategy.BEAM:
            return BeamSearch(settings, ending)
        if settings.draws:
            assert job.seed is not None
            return SingleSearch(sampler(settings, job.seed), ending)
        return SingleSearch(greedy, ending)


@dataclass
class _Generated:
    """A row that still generates.

    text: of what is streamed. firsts: at each step so far, the slot of its first hypothesis.
    """

    job: Job
    number: int
    search: Search
    text: TextStream
    live: tuple[Hypothesis, ...] = (Hypothesis(),)
    ended: list[Hypothesis] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)


class _Decoding:
    """One batch on its way. A slot is a place in the step graph's batch: one live hypothesis of one row, rows in
    order.
    """

    def __init__(self, model: Generating, jobs: Sequence[Job], started: int) -> None:
        self._model = model
        self._jobs = jobs
        self._started = started
        self._maps = frozenset[MapKey]().union(*(job.call.query.maps for job in jobs))
        self._trace: Trace = model.tracer.start(self._maps)
        self._fetched = tuple(
            dict.fromkeys(
                [
                    model.generation.scores_output,
                    *(each.output for each in model.generation.states),
                    *self._trace.fetched,
                ]
            )
        )
        self.rows = [
            _Generated(job, number, model.search(job), model.writer.stream()) for number, job in enumerate(jobs)
        ]
        self.batching = self.computing = 0

    def begin(self) -> list[RowEvent]:
        """Run the encoder; tell of rows that have nothing to generate (an empty target)."""
        model, jobs = self._model, self._jobs
        before = time.monotonic_ns()
        feeds = model.encoder_feeds.batch(jobs) if model.encoder_feeds else {}
        constants = model.step_feeds.tensors(jobs)
        self.batching = time.monotonic_ns() - before
        self._encoded = self._encode(feeds)
        self._whole = constants | {name: self._encoded[name] for name in model.constant}
        self._constants = self._whole
        self._owners = np.arange(len(jobs))
        sizes = {name: max(job.row.sizes.get(name, 0) for job in jobs) for name in model.axes}
        self._states = States(model.generation.states, self._encoded, len(jobs), sizes)
        happened: list[RowEvent] = []
        for row in self.rows:
            if isinstance(row.search, ForcedSearch) and not row.search.target:
                row.live, row.ended = (), [Hypothesis(finish=FinishReason.TARGET)]
                happened.append((row.job, self._answer(row)))
        self._keep([slot for slot, row in enumerate(self.rows) if row.live])
        return happened

    def leave(self, now: float) -> list[RowEvent]:
        """Take out rows that nobody waits for any more."""
        kept: list[int] = []
        happened: list[RowEvent] = []
        slot = 0
        for row in self.rows:
            slots = range(slot, slot + len(row.live))
            slot += len(row.live)
            if row.job.abandoned or row.job.deadline <= now:
                row.live = ()
                happened.append((row.job, DeadlineError("the deadline passed before the whole answer was generated")))
            else:
                kept += slots
        if happened:
            self._keep(kept)
        return happened

    def advance(self) -> list[RowEvent]:
        """Run a step for every live hypothesis, and let each row choose."""
        model, step = self._model, len(self._trace.steps)
        tokens = [each.token if each.length else model.generation.begin_token for row in self.rows for each in row.live]
        feeds = {model.generation.token_input: np.array(tokens, np.int64), **self._states.arrays, **self._constants}
        for name, noise in model.step_feeds.noise(self._jobs, step).items():
            feeds[name] = noise[self._owners]
        before = time.monotonic_ns()
        outputs = dict(zip(self._fetched, model.step.run(self._fetched, feeds), strict=True))
        self.computing += time.monotonic_ns() - before
        self._trace.add(outputs)
        self._states.advance(outputs)
        log_probabilities = log_softmax(outputs[model.generation.scores_output])
        happened: list[RowEvent] = []
        kept: list[int] = []
        slot = 0
        for row in self.rows:
            own = log_probabilities[slot : slot + len(row.live)]
            row.firsts.append(slot)
            slot += len(row.live)
            happened += [(row.job, event) for event in self._choose(row, own, step)]
            kept += [row.firsts[-1] + each.place for each in row.live]
        self._keep(kept)
        return happened

    def _choose(self, row: _Generated, log_probabilities: Array, step: int) -> list[Event]:
        if np.isnan(log_probabilities).any():
            row.live = ()
            return [InferenceError("the model's scores are not numbers")]
        move = row.search.advance(row.live, log_probabilities)
        row.live = move.live
        row.ended += move.ended
        events: list[Event] = []
        newest = next(iter((*move.live, *move.ended)), None)
        if newest is None and not row.ended:
            return [InferenceError("the model gives no token any probability")]
        if row.job.call.tell is not None and newest is not None and newest.length == step + 1:
            maps = self._trace.step_maps(row.job.call.query.maps, row.job.row, step, row.firsts[-1] + newest.place)
            text = self._model.writer.token(newest.token)
            delta = row.text.add(newest.token)
            events.append(Step(step, newest.token, text, delta, newest.log_probability, maps))
        if not row.live:
            events.append(self._answer(row))
        return events

    def _keep(self, slots: list[int]) -> None:
        """Keep these slots of the last step, in this order, and the rows that still have one."""
        self.rows = [row for row in self.rows if row.live]
        if slots == list(range(len(self._owners))):
            return
        places = np.array(slots, np.intp)
        self._owners = self._owners[places]
        self._states.gather(places)
        self._constants = {name: array[self._owners] for name, array in self._whole.items()}

    def _encode(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        model = self._model
        if model.encoder is None:
            return {}
        maps = [name for key, bound in model.encoder_maps.items() if key in self._maps for name in bound.outputs]
        fetched = tuple(dict.fromkeys([*model.encoded, *maps]))
        before = time.monotonic_ns()
        encoded = dict(zip(fetched, model.encoder.run(fetched, feeds), strict=True))
        self.computing = time.monotonic_ns() - before
        return encoded

    def _answer(self, row: _Generated) -> Answer:
        job, model, trace = row.job, self._model, self._trace
        query = job.call.query
        best = row.search.best(row.ended)
        sequences = tuple(model.writer.sequence(each, row.search.score(each), query.generation.stop) for each in best)
        slots = [slots_of(each, row.firsts) for each in best[: query.sequences]]
        decided = [
            SequenceMaps(trace.sequence_maps(query.maps, job.row, each), model.writer.labels(sequence))
            for each, sequence in zip(slots, sequences, strict=False)
        ]
        outputs = {
            each.name: cut_output(self._encoded[each.name][row.number], each.dimensions, job.row.sizes)
            for each in model.encoder_outputs
        }
        return Answer(
            outputs=outputs | trace.sequence_outputs(job.row, slots[0]),
            maps={**self._encoder_maps(row), **decided[0].maps},
            labels={**job.row.labels, **decided[0].labels},
            graph=model.graph,
            batch_rows=len(self._jobs),
            timing=Timing(self._started - job.admitted, time.monotonic_ns() - self._started),
            seed=job.seed,
            sequences=sequences,
            other_sequences=tuple(decided[1:]),
        )

    def _encoder_maps(self, row: _Generated) -> dict[MapKey, MapWeights]:
        return {
            key: bound.rows(self._encoded, [row.job.row], [row.number])[0]
            for key, bound in self._model.encoder_maps.items()
            if key in row.job.call.query.maps
        }


def _check_generation(generation: bundle_pb2.Generation, step: bundle_pb2.OnnxGraph) -> None:
    if generation.token_input not in step.inputs or generation.scores_output not in step.outputs:
        raise BundleError(f"the graph {step.name} lacks the token input or the scores output that generation states")
    if generation.max_new_tokens < 1:
        raise BundleError("generation has no max_new_tokens")
