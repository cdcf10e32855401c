"""Continuous batching: rows that share decode steps, and join and leave between two of them."""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from limelight_bundle.detokenizing import Detokenizer, TextStream
from limelight_bundle.interventions import bound_interventions, intervened_bindings
from limelight_bundle.maps import MapPart
from limelight_bundle.rows import Labels, Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.decoding.changes import RowAtStep
from limelight_service.engine.decoding.decoder import Decoder, Prefilled
from limelight_service.engine.decoding.kv_cache import GROWN, KVCache
from limelight_service.engine.decoding.lens import Lens
from limelight_service.engine.decoding.search import Floats, ForcedSearch, Hypothesis, Search, SingleSearch, log_softmax
from limelight_service.engine.decoding.trace import Trace
from limelight_service.engine.jobs import CutError, Event, Job, RowEvent, failure
from limelight_service.engine.model import PATIENCE
from limelight_service.engine.runtime.finite import not_finite
from limelight_service.engine.runtime.intervened import Interventions
from limelight_service.engine.runtime.sessions import Session
from limelight_service.engine.types import Answer, FinishReason, GenerationSettings, MapKey, SequenceMaps, Step, Timing
from limelight_service.errors import InferenceError, OverrunError
from limelight_service.observability.observer import Observed, Observer, Stage

# One row may be so many tokens ahead of its reader, n rows the n²th part of it: each hand-over between a worker and the
# loop costs about as much as a step, and many rows share it. So many more, and a reader counts as far behind.
_AHEAD = 64
_SLACK = 4


@dataclass(eq=False)
class GeneratingRow:
    """A row that still generates.

    Attributes:
        text: of the streamed tokens.
        queued: nanoseconds until it joined.
        live: its hypotheses. slots: of those in the KV cache, in their order. ended: hypotheses that have ended.
        computed: nanoseconds of its steps, the join included: whole ones, as for a batch, without the waiting between.
        batch_rows: the most rows that shared a step with it.
        streamed: a token of it was handed to its call.
        first: nanoseconds from its admission to its first token.
    """

    prefilled: Prefilled
    search: Search
    text: TextStream
    trace: Trace
    queued: int
    live: tuple[Hypothesis, ...] = (Hypothesis(),)
    ended: list[Hypothesis] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    steps: int = 0
    computed: int = 0
    batch_rows: int = 1
    streamed: bool = False
    first: int = 0

    @property
    def places(self) -> slice | list[int]:
        """Its slots, as an index."""
        return slice(self.slots[0], self.slots[0] + 1) if len(self.slots) == 1 else self.slots

    @property
    def at_step(self) -> RowAtStep:
        """The row at its next step."""
        return RowAtStep(self.job.row, self.steps, self.slots, self.prefilled.entries + self.steps + 1)

    @property
    def forced(self) -> int:
        """Number of its first tokens that are not chosen freely."""
        return self.search.forced if isinstance(self.search, ForcedSearch) else 0

    @property
    def job(self) -> Job:
        """The row as it was admitted."""
        return self.prefilled.job


class DecodeBatch:
    """Rows that share every decode step. A failure of the runtime is raised."""

    def __init__(self, model: str, observer: Observer, decoder: Decoder) -> None:
        self._decoder = decoder
        self._model = model
        self._observer = observer
        self.clear()

    def of(self, decoder: Decoder) -> "DecodeBatch":
        """Give one of a decoder: this, or another without rows."""
        return self if decoder is self._decoder else DecodeBatch(self._model, self._observer, decoder)

    def clear(self) -> None:
        """Forget every row."""
        self.rows: list[GeneratingRow] = []
        self._began = 0
        self._cache = KVCache(self._decoder.cached, self._decoder.step.device_cache())
        self._fetched: tuple[str, ...] = ()

    def join(self, jobs: Sequence[Job], wide: bool) -> list[RowEvent]:
        """Encode and prefill rows and give each a slot.

        Returns:
            Events of rows that have nothing to generate (an empty target), whose encoding is not finite, or whose
            interventions are refused.
        """
        if not jobs:
            return []
        if self._decoder.single_rows and len(jobs) > 1:
            return [event for job in jobs for event in self.join([job], wide)]
        self._began, decoder = time.monotonic_ns(), self._decoder
        arrays, prefilled = decoder.prefill(jobs, wide=wide)
        encoded = self._took(Stage.COMPUTE, self._began)
        rows = [
            GeneratingRow(
                each,
                decoder.search(each.job),
                decoder.detokenizer.stream(),
                decoder.tracer.start(each.job.row, each.job.call.query),
                self._began - each.job.admitted,
            )
            for each in prefilled
        ]
        first = self._cache.count
        for place, row in enumerate(rows):
            row.slots = [first + place]
        lengths = [each.entries for each in prefilled]
        longest = max(int(self._cache.lengths.max(initial=0)), *lengths)
        self._cache.add(arrays, lengths, self._needed([*self.rows, *rows], longest))
        self.rows += rows
        self._took(Stage.BATCH, encoded)
        events: list[RowEvent] = []
        for row in rows:
            if row.prefilled.refused:
                row.live = ()
                events.append((row.job, row.prefilled.refused))
            elif row.prefilled.problem:
                row.live = ()
                events.append((row.job, self._not_finite(row, row.prefilled.problem)))
            elif isinstance(row.search, ForcedSearch) and not row.search.target:
                row.live, row.ended = (), [Hypothesis(finish=FinishReason.TARGET)]
                events.append((row.job, self._answer(row)))
        self._count(row for row in rows if row.live)
        self._settle(changed=True)
        return events

    def leave(self, now: float) -> list[RowEvent]:
        """Take out rows that nobody waits for any more."""
        over = [row for row in self.rows if is_over(row.job, now)]
        for row in over:
            row.live = ()
        if over:
            self._settle()
        return [(row.job, CutError(row.steps)) for row in over]

    def step(self, wide: bool) -> list[RowEvent]:
        """Run a decode step for every live hypothesis, and let each row choose."""
        self._began, decoder, cache = time.monotonic_ns(), self._decoder, self._cache
        if GROWN in cache.sizes and cache.lengths.max() >= cache.sizes[GROWN]:
            cache.fit({GROWN: int(cache.lengths.max()) + 1})
        feeds = self._feeds()
        before = time.monotonic_ns()
        fetched = (*self._fetched, *decoder.step_interventions.checked(feeds))
        outputs = dict(zip(fetched, decoder.step.run(fetched, feeds, wide=wide), strict=True))
        self._took(Stage.COMPUTE, before)
        log_probabilities = log_softmax(outputs[decoder.generation.scores_output])
        events: list[RowEvent] = []
        rows = list(self.rows)
        entries = (cache.lengths + 1).tolist()
        for row in rows:
            row.batch_rows = max(row.batch_rows, len(rows))
            row.trace.add(outputs, row.places, entries[row.slots[0]])
        cache.write(outputs)
        broken = set(np.flatnonzero(np.isnan(log_probabilities).any(axis=1)).tolist())
        for row in sorted(rows, key=lambda row: row.steps):  # a first token is waited for most
            if refused := decoder.step_interventions.problem(outputs, row.places, row.job):
                row.live = ()
                events.append((row.job, refused))
                continue
            scores = decoder.generation.scores_output
            spoilt = not broken.isdisjoint(row.slots)
            problem = f"output {scores}" if spoilt else row.trace.problem(decoder.finite, scores)
            if problem:
                row.live = ()
                events.append((row.job, self._not_finite(row, problem)))
                continue
            events += [(row.job, event) for event in self._choose(row, log_probabilities[row.places])]
        self._count(row for row in rows if row.live)
        self._branch()
        return events

    def _feeds(self) -> dict[str, Array]:
        decoder, cache = self._decoder, self._cache
        generation = decoder.generation
        tokens = np.empty(cache.count, np.int64)
        for row in self.rows:
            for slot, each in zip(row.slots, row.live, strict=True):
                tokens[slot] = each.token if each.length else row.prefilled.token
        feeds = {generation.token_input: tokens, **cache.feeds()}
        for name in filter(None, (generation.positions_input, generation.lengths_input)):
            feeds[name] = cache.lengths
        for tensor in decoder.noise.tensors:
            axes = (axis.size or cache.sizes[axis.name] for axis in tensor.description.dimensions)
            feeds[tensor.name] = np.zeros((cache.count, *axes), decoder.noise.dtype(tensor))
        for row in self.rows if decoder.noise.tensors else ():
            for name, drawn in decoder.noise.draw(row.job.row, row.job.seed, step=row.steps).items():
                inside = feeds[name][:, *map(slice, drawn.shape)]
                inside[row.slots] = drawn
        if decoder.step_changes:
            feeds |= decoder.step_changes.feeds([row.at_step for row in self.rows], cache.count)
        return feeds

    def _choose(self, row: GeneratingRow, log_probabilities: Floats) -> list[Event]:
        step, decoder = row.steps, self._decoder
        settings = row.job.call.query.generation
        if settings.top_logprobs:
            row.trace.add_likeliest(log_probabilities, settings.top_logprobs)
        move = row.search.advance(row.live, log_probabilities)
        row.steps += 1
        row.first = row.first or time.monotonic_ns() - row.job.admitted
        row.live = move.live
        row.ended += move.ended
        events: list[Event] = []
        newest = next(iter((*move.live, *move.ended)), None)
        if newest is None and not row.ended:
            return [InferenceError("the model gives no token any probability")]
        if row.job.call.tell is not None and newest is not None and newest.length == step + 1:
            row.streamed = True
            maps = row.trace.step_maps(step, newest.place)
            delta = row.text.add(newest.token, last=_is_last(row.search, newest))
            text = decoder.detokenizer.token(newest.token)
            top = decoder.detokenizer.top(row.trace.likeliest_at(step, newest.place))
            forced = step < row.forced
            events.append(Step(step, newest.token, text, delta, newest.log_probability, maps, forced, top))
        if not row.live:
            events.append(self._answer(row))
        return events

    def _branch(self) -> None:
        """After a step: the first continuation of a hypothesis keeps its slot, each further one gets a copy of it."""
        free: list[int] = []
        copies: list[tuple[int, int]] = []
        split: list[tuple[GeneratingRow, int]] = []
        for row in self.rows:
            if len(row.slots) == len(row.live) == 1:
                continue
            before, row.slots = row.slots, [row.slots[each.place] for each in row.live]
            free += set(before).difference(row.slots)
            split += [(row, place) for place, slot in enumerate(row.slots) if slot in row.slots[:place]]
        count = self._cache.count
        for row, place in split:
            target = free.pop() if free else count
            count = max(count, target + 1)
            copies.append((row.slots[place], target))
            row.slots[place] = target
        if copies:
            self._cache.rearrange(copies, count)
        self._settle(free)

    def _settle(self, free: Iterable[int] = (), *, changed: bool = False) -> None:
        """Drop rows without a live hypothesis; the last slots fill the holes."""
        live = [row for row in self.rows if row.live]
        free = [*free, *(slot for row in self.rows if not row.live for slot in row.slots)]
        changed = changed or len(live) < len(self.rows)
        self.rows = live
        if changed:
            self._watch()
        if free:
            self._fill(sorted(free))
            self._cache.fit(self._needed(live, int(self._cache.lengths.max(initial=0))))

    def _fill(self, holes: list[int]) -> None:
        """Move the last slots into the holes."""
        count = self._cache.count - len(holes)
        owners = {slot: (row, place) for row in self.rows for place, slot in enumerate(row.slots) if slot >= count}
        moves = list(zip(owners, [hole for hole in holes if hole < count], strict=True))
        for source, target in moves:
            row, place = owners[source]
            row.slots[place] = target
        self._cache.rearrange(moves, count)

    def _needed(self, rows: Sequence[GeneratingRow], length: int) -> dict[str, int]:
        """Give the sizes that the axes need for these rows, and for one more entry than `length`."""
        names = rows[0].prefilled.sizes if rows else ()
        needed = {name: max(row.prefilled.sizes[name] for row in rows) for name in names}
        return needed | {GROWN: length + 1} if GROWN in needed else needed

    def _watch(self) -> None:
        """Settle which outputs of the step graph are fetched."""
        traced = (name for row in self.rows for name in row.trace.fetched)
        self._fetched = tuple(dict.fromkeys([*self._decoder.carried, *traced]))

    def _answer(self, row: GeneratingRow) -> Answer:
        job, decoder, prefilled = row.job, self._decoder, row.prefilled
        query = job.call.query
        best = row.search.best(row.ended)
        stop, continued, detokenizer = query.generation.stop, decoder.continued(job), decoder.detokenizer
        sequences = tuple(
            detokenizer.sequence(
                each,
                row.search.score(each),
                stop=stop,
                target=continued,
                forced=row.forced,
                top=detokenizer.top(row.trace.likeliest_of(each)),
            )
            for each in best
        )
        decided = [
            SequenceMaps(row.trace.sequence_maps(each), decoder.detokenizer.labels(job.row, sequence))
            for each, sequence in zip(best[: query.sequences], sequences, strict=False)
        ]
        now = time.monotonic_ns()
        others = now - job.admitted - row.first if row.first else 0
        return Answer(
            outputs={**prefilled.outputs, **row.trace.sequence_outputs(best[0])},
            maps={**prefilled.maps, **decided[0].maps},
            projected=prefilled.projected,
            labels={**job.row.labels, **decided[0].labels},
            graph=decoder.graph,
            batch_rows=row.batch_rows,
            timing=Timing(row.queued, row.computed + now - self._began, job.admitted, row.first, others),
            seed=job.seed,
            sequences=sequences,
            other_sequences=tuple(decided[1:]),
        )

    def _not_finite(self, row: GeneratingRow, problem: str) -> InferenceError:
        self._observer.not_finite(self._model)
        return not_finite(problem, row.job.index, len(row.job.call.query.rows))

    def _count(self, rows: Iterable[GeneratingRow]) -> None:
        """Let rows that go on have computed since this join or step began."""
        took = time.monotonic_ns() - self._began
        for row in rows:
            row.computed += took

    def _took(self, stage: Stage, started: int) -> int:
        now = time.monotonic_ns()
        self._observer.stage(self._model, stage, (now - started) / 1e9)
        return now


class ContinuousBatch:
    """The rows of one model and one group that generate at the same time. For one worker at a time.

    Where the runtime fails on a batch, no row is to blame yet: each goes on alone, from its start. A row that fails
    alone, or has handed out tokens already, gets the error; so do all where a run took too long, for each might take as
    long again. A panic of a library, which is no `Exception`, is a failure like any other.
    """

    def __init__(
        self, choose: Callable[[Row], Decoder], default: Decoder, model: str, observer: Observer, *, most: int
    ) -> None:
        """Make one without rows. choose: the decoder of a row, the same for every row of a group; often `default`."""
        self._choose = choose
        self._make = partial(DecodeBatch, model, observer)
        self._most = most
        self._shared = self._make(default)
        self._alone: list[DecodeBatch] = []
        self._stepped = 0.0
        self.pace = 0.0

    @property
    def rows(self) -> int:
        """Rows that still generate."""
        return len(self._shared.rows) + len(self._alone)

    @property
    def jobs(self) -> list[Job]:
        """Give the rows that still generate."""
        return [row.job for each in [self._shared, *self._alone] for row in each.rows]

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a step: most rows could send another token, or stream none.

        Rows far ahead of their readers would take turns from the loop that sends their tokens, and leave early, so that
        few share the steps of the others. A reader that does not keep up holds others back for a moment only, and not
        at all once it is far behind.

        Args:
            now: on the clock of `time.monotonic`.
        """
        unsent = [row.job.call.unsent for each in [self._shared, *self._alone] for row in each.rows]
        ahead = _AHEAD // max(1, len(unsent)) ** 2
        ready = sum(each <= ahead for each in unsent)
        keeping_up = sum(each <= ahead + _SLACK for each in unsent)
        return ready > 0 and (2 * ready >= keeping_up or now - self._stepped >= PATIENCE)

    @property
    def room(self) -> int:
        """Rows that may still join."""
        return max(0, self._most - self.rows)

    def join(self, jobs: Sequence[Job], wide: bool = False) -> list[RowEvent]:
        """Let rows begin, all of the group of those here; they take part from the next step on.

        Args:
            wide: with every core.

        Returns:
            Events of rows that have ended already, or that nobody waits for any more.
        """
        if not self.rows:
            self._stepped = time.monotonic()
        events = self._shared.leave(time.monotonic())
        waiting = [job for job in jobs if not is_over(job, time.monotonic())]
        events += [(job, CutError(0)) for job in jobs if job not in waiting]
        if waiting and not self._shared.rows:
            self._shared = self._shared.of(self._choose(waiting[0].row))
        try:
            return events + self._shared.join(waiting, wide)
        except BaseException as error:
            if len(waiting) == 1 or isinstance(error, OverrunError):
                return [*events, *((job, failure(error)) for job in waiting)]
            return events + self._begin_alone(waiting, wide)

    def step(self, wide: bool = False) -> list[RowEvent]:
        """Generate a token of every row. Returns tokens, answers, and errors of rows that nobody waits for any more."""
        events: list[RowEvent] = []
        again: list[Job] = []
        now = time.monotonic()
        for each in [self._shared, *self._alone]:
            events += each.leave(now)
            if not each.rows:
                continue
            before = list(each.rows)
            try:
                events += each.step(wide)
            except BaseException as error:
                again_alone = len(before) > 1 and not isinstance(error, OverrunError)
                unstreamed = [row.job for row in before if not row.streamed] if again_alone else []
                events += [(row.job, failure(error)) for row in before if row.job not in unstreamed]
                again += unstreamed
                each.clear()
        self._alone = [each for each in self._alone if each.rows]
        waited = min(now - self._stepped, PATIENCE)  # a reader who stops holds up rows of his own batch, and no others
        self._stepped = time.monotonic()
        self.pace = waited + (self._stepped - now)
        return events + self._begin_alone(again, wide)

    def _begin_alone(self, jobs: Sequence[Job], wide: bool) -> list[RowEvent]:
        events: list[RowEvent] = []
        for job in jobs:
            apart = self._make(self._choose(job.row))
            try:
                events += apart.join([job], wide)
            except BaseException as error:
                events.append((job, failure(error)))
            else:
                self._alone += [apart] if apart.rows else []
        return events


class Generation(Observed):
    """A model that generates tokens one by one."""

    def __init__(
        self,
        bundle: bundle_pb2.Bundle,
        sessions: Mapping[str, Session],
        detokenizer: Detokenizer,
        observer: Observer,
        *,
        rows: int,
    ) -> None:
        """Bind the graphs of a bundle.

        Args:
            rows: the most that share a continuous batch.

        Raises:
            BundleError: the generation refers to inputs or outputs that the graphs lack.
        """
        self.decoder = self._intervened = Decoder(bundle, sessions, detokenizer)
        self._interventions = Interventions(bound_interventions(bundle).values())
        if self._interventions:
            changed = intervened_bindings(bundle)
            self._intervened = Decoder(changed, sessions, detokenizer, bound_interventions(changed).values())
        self._rows = rows
        self._model = bundle.description.name
        self._observer = observer
        lens = sessions.get(bundle.generation.lens)
        self.lens = Lens(lens, bundle.description, self.decoder.detokenizer) if lens else None

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> Hashable:
        """Give the key that the rows of one continuous batch share: their optional tensors, and their graphs."""
        return self.decoder.group(row), self._interventions.are_in(row)

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Tell whether tokens are drawn at random for a row."""
        return self.decoder.samples(row, generation)

    def input_labels(self, row: Row) -> dict[str, Labels]:
        """Give the label sets of a row's input steps before anything is generated."""
        return self.decoder.detokenizer.input_labels(row)

    def continuous_batch(self) -> ContinuousBatch:
        """Make a continuous batch, without rows yet."""
        return ContinuousBatch(self._choose, self.decoder, self._model, self._observer, most=self._rows)

    def _choose(self, row: Row) -> Decoder:
        return self._intervened if self._interventions.are_in(row) else self.decoder

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Generate for these rows alone, to the end of the last."""
        batch = self.continuous_batch()
        yield batch.join(jobs, wide)
        while batch.rows:
            yield batch.step(wide)


def _is_last(search: Search, hypothesis: Hypothesis) -> bool:
    """Tell whether no text follows the hypothesis's newest token; one with a stop text is cut before it."""
    if hypothesis.finish is not None:
        return hypothesis.finish is not FinishReason.STOP
    if isinstance(search, ForcedSearch) and search.behind is not None:
        search = search.behind
    return isinstance(search, SingleSearch) and hypothesis.length >= search.ending.limit


def is_over(job: Job, now: float) -> bool:
    """Tell whether nobody waits for a row any more. now: on the clock of `time.monotonic`."""
    return job.abandoned or job.deadline <= now
