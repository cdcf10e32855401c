"""Rows that share every step of a generation: each joins, chooses and leaves by itself."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.text import TextStream
from bundle.values import Array
from service.engine.decoder import Begun, Decoder
from service.engine.finite import not_finite
from service.engine.jobs import Event, Job, RowEvent
from service.engine.observer import Observer, Stage
from service.engine.search import Floats, ForcedSearch, Hypothesis, Search, log_softmax
from service.engine.slots import GROWN, Slots
from service.engine.trace import Trace
from service.engine.types import Answer, FinishReason, SequenceMaps, Step, Timing
from service.errors import DeadlineError, InferenceError


@dataclass(eq=False)
class Generated:
    """A row that still generates.

    text: of what is streamed. slots: of its live hypotheses, in their order. queued: nanoseconds until it joined.
    computed: nanoseconds of the steps that it had a part in, its join included: whole ones, as for a batch, and without
    the waiting between them. company: the most rows that shared one with it.
    """

    begun: Begun
    search: Search
    text: TextStream
    trace: Trace
    queued: int
    live: tuple[Hypothesis, ...] = (Hypothesis(),)
    ended: list[Hypothesis] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    steps: int = 0
    computed: int = 0
    company: int = 1
    told: bool = False

    @property
    def places(self) -> slice | list[int]:
        """Its slots, as an index."""
        return slice(self.slots[0], self.slots[0] + 1) if len(self.slots) == 1 else self.slots

    @property
    def job(self) -> Job:
        return self.begun.job


class Together:
    """Rows that share every step."""

    def __init__(self, decoder: Decoder, model: str, observer: Observer) -> None:
        self._decoder = decoder
        self._model = model
        self._observer = observer
        self.clear()

    def clear(self) -> None:
        """Forget every row."""
        self.rows: list[Generated] = []
        self._began = 0
        self._slots = Slots(self._decoder.kept, self._decoder.step.mirror())
        self._fetched: tuple[str, ...] = ()

    def join(self, jobs: Sequence[Job], wide: bool) -> list[RowEvent]:
        """Encode rows and give each a slot; tell of those that have nothing to generate (an empty target), or whose
        encoding is not finite.
        """
        if not jobs:
            return []
        self._began, decoder = time.monotonic_ns(), self._decoder
        arrays, begun = decoder.encode(jobs, wide=wide)
        encoded = self._took(Stage.COMPUTE, self._began)
        rows = [
            Generated(
                each,
                decoder.search(each.job),
                decoder.writer.stream(),
                decoder.tracer.start(each.job.row, each.job.call.query),
                self._began - each.job.admitted,
            )
            for each in begun
        ]
        first = self._slots.count
        for place, row in enumerate(rows):
            row.slots = [first + place]
        lengths = [each.entries for each in begun]
        longest = max(int(self._slots.lengths.max(initial=0)), *lengths)
        self._slots.add(arrays, lengths, self._needed([*self.rows, *rows], longest))
        self.rows += rows
        self._took(Stage.BATCH, encoded)
        happened: list[RowEvent] = []
        for row in rows:
            if row.begun.problem:
                row.live = ()
                happened.append((row.job, self._not_finite(row, row.begun.problem)))
            elif isinstance(row.search, ForcedSearch) and not row.search.target:
                row.live, row.ended = (), [Hypothesis(finish=FinishReason.TARGET)]
                happened.append((row.job, self._answer(row)))
        self._count(row for row in rows if row.live)
        self._settle(changed=True)
        return happened

    def leave(self, now: float) -> list[RowEvent]:
        """Take out rows that nobody waits for any more."""
        over = [row for row in self.rows if is_over(row.job, now)]
        for row in over:
            row.live = ()
        if over:
            self._settle()
        return [(row.job, CutError(row.steps)) for row in over]

    def step(self, wide: bool) -> list[RowEvent]:
        """Run a step for every live hypothesis, and let each row choose."""
        self._began, decoder, slots = time.monotonic_ns(), self._decoder, self._slots
        if GROWN in slots.sizes and slots.lengths.max() >= slots.sizes[GROWN]:
            slots.fit({GROWN: int(slots.lengths.max()) + 1})
        feeds = self._feeds()
        before = time.monotonic_ns()
        outputs = dict(zip(self._fetched, decoder.step.run(self._fetched, feeds, wide=wide), strict=True))
        self._took(Stage.COMPUTE, before)
        log_probabilities = log_softmax(outputs[decoder.generation.scores_output])
        happened: list[RowEvent] = []
        rows = list(self.rows)
        entries = (slots.lengths + 1).tolist()
        for row in rows:
            row.company = max(row.company, len(rows))
            row.trace.add(outputs, row.places, entries[row.slots[0]])
        slots.write(outputs)
        broken = set(np.flatnonzero(np.isnan(log_probabilities).any(axis=1)).tolist())
        for row in sorted(rows, key=lambda row: row.steps):  # nothing is waited for as much as a first token
            scores = decoder.generation.scores_output
            spoilt = not broken.isdisjoint(row.slots)
            problem = f"output {scores}" if spoilt else row.trace.problem(decoder.finite, scores)
            if problem:
                row.live = ()
                happened.append((row.job, self._not_finite(row, problem)))
                continue
            events = self._choose(row, log_probabilities[row.places])
            happened += [(row.job, event) for event in events]
        self._count(row for row in rows if row.live)
        self._branch()
        return happened

    def _feeds(self) -> dict[str, Array]:
        decoder, slots = self._decoder, self._slots
        generation = decoder.generation
        tokens = np.empty(slots.count, np.int64)
        for row in self.rows:
            for slot, each in zip(row.slots, row.live, strict=True):
                tokens[slot] = each.token if each.length else row.begun.token
        feeds = {generation.token_input: tokens, **slots.feeds()}
        for name in filter(None, (generation.positions_input, generation.lengths_input)):
            feeds[name] = slots.lengths
        for tensor in decoder.noise.tensors:
            axes = (axis.size or slots.sizes[axis.name] for axis in tensor.description.dimensions)
            feeds[tensor.name] = np.zeros((slots.count, *axes), decoder.noise.dtype(tensor))
        for row in self.rows if decoder.noise.tensors else ():
            for name, drawn in decoder.noise.draw(row.job.row, row.job.seed, step=row.steps).items():
                inside = feeds[name][:, *map(slice, drawn.shape)]
                inside[row.slots] = drawn
        return feeds

    def _choose(self, row: Generated, log_probabilities: Floats) -> list[Event]:
        step, decoder = row.steps, self._decoder
        move = row.search.advance(row.live, log_probabilities)
        row.steps += 1
        row.live = move.live
        row.ended += move.ended
        events: list[Event] = []
        newest = next(iter((*move.live, *move.ended)), None)
        if newest is None and not row.ended:
            return [InferenceError("the model gives no token any probability")]
        if row.job.call.tell is not None and newest is not None and newest.length == step + 1:
            row.told = True
            maps = row.trace.step_maps(step, newest.place)
            text, delta = decoder.writer.token(newest.token), row.text.add(newest.token)
            events.append(Step(step, newest.token, text, delta, newest.log_probability, maps))
        if not row.live:
            events.append(self._answer(row))
        return events

    def _branch(self) -> None:
        """After a step: the first continuation of a hypothesis keeps its slot, each further one gets a copy of it."""
        free: list[int] = []
        copies: list[tuple[int, int]] = []
        split: list[tuple[Generated, int]] = []
        for row in self.rows:
            if len(row.slots) == len(row.live) == 1:
                continue
            before, row.slots = row.slots, [row.slots[each.place] for each in row.live]
            free += set(before).difference(row.slots)
            split += [(row, place) for place, slot in enumerate(row.slots) if slot in row.slots[:place]]
        count = self._slots.count
        for row, place in split:
            target = free.pop() if free else count
            count = max(count, target + 1)
            copies.append((row.slots[place], target))
            row.slots[place] = target
        if copies:
            self._slots.rearrange(copies, count)
        self._settle(free)

    def _settle(self, free: Iterable[int] = (), *, changed: bool = False) -> None:
        """Let go of rows without a live hypothesis; the last slots fill the holes."""
        live = [row for row in self.rows if row.live]
        free = [*free, *(slot for row in self.rows if not row.live for slot in row.slots)]
        changed = changed or len(live) < len(self.rows)
        self.rows = live
        if changed:
            self._watch()
        if free:
            self._fill(sorted(free))
            self._slots.fit(self._needed(live, int(self._slots.lengths.max(initial=0))))

    def _fill(self, holes: list[int]) -> None:
        """Move the last slots into the holes."""
        count = self._slots.count - len(holes)
        owners = {slot: (row, place) for row in self.rows for place, slot in enumerate(row.slots) if slot >= count}
        moves = list(zip(owners, [hole for hole in holes if hole < count], strict=True))
        for source, target in moves:
            row, place = owners[source]
            row.slots[place] = target
        self._slots.rearrange(moves, count)

    def _needed(self, rows: Sequence[Generated], length: int) -> dict[str, int]:
        """Give the sizes that the axes need for these rows, and for one more entry than `length`."""
        names = rows[0].begun.sizes if rows else ()
        needed = {name: max(row.begun.sizes[name] for row in rows) for name in names}
        return needed | {GROWN: length + 1} if GROWN in needed else needed

    def _watch(self) -> None:
        """Settle which outputs of the step graph are fetched."""
        traced = (name for row in self.rows for name in row.trace.fetched)
        self._fetched = tuple(dict.fromkeys([*self._decoder.carried, *traced]))

    def _answer(self, row: Generated) -> Answer:
        job, decoder, begun = row.job, self._decoder, row.begun
        query = job.call.query
        best = row.search.best(row.ended)
        stop = query.generation.stop
        sequences = tuple(decoder.writer.sequence(each, row.search.score(each), stop) for each in best)
        decided = [
            SequenceMaps(row.trace.sequence_maps(each), decoder.writer.labels(job.row, sequence))
            for each, sequence in zip(best[: query.sequences], sequences, strict=False)
        ]
        return Answer(
            outputs={**begun.outputs, **row.trace.sequence_outputs(best[0])},
            maps={**begun.maps, **decided[0].maps},
            labels={**job.row.labels, **decided[0].labels},
            graph=decoder.graph,
            batch_rows=row.company,
            timing=Timing(row.queued, row.computed + time.monotonic_ns() - self._began),
            seed=job.seed,
            sequences=sequences,
            other_sequences=tuple(decided[1:]),
        )

    def _not_finite(self, row: Generated, problem: str) -> InferenceError:
        self._observer.not_finite(self._model)
        return not_finite(problem, row.job.index, len(row.job.call.query.rows))

    def _count(self, rows: Iterable[Generated]) -> None:
        """Let rows that go on have computed since this join or step began."""
        took = time.monotonic_ns() - self._began
        for row in rows:
            row.computed += took

    def _took(self, stage: Stage, started: int) -> int:
        now = time.monotonic_ns()
        self._observer.stage(self._model, stage, (now - started) / 1e9)
        return now


def is_over(job: Job, now: float) -> bool:
    return job.abandoned or job.deadline <= now


class CutError(DeadlineError):
    """The deadline passed, or the caller left, before the whole answer was generated. steps: that the row took."""

    def __init__(self, steps: int) -> None:
        super().__init__("the deadline passed before the whole answer was generated")
        self.steps = steps
