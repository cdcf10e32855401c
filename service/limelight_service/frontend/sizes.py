"""The size of an answer, known before anything runs: one place for every call and every limit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.errors import TooLargeError
from limelight_bundle.hidden import hidden_outputs
from limelight_bundle.rows import Labels, Row
from limelight_bundle.wire import DTYPES
from limelight_service.attention.options import HeadReduction
from limelight_service.attention.plan import AttentionPlan
from limelight_service.attention.size import (
    AxisSizes,
    attention_bytes,
    computed_bytes,
    derived_label_bytes,
    fitting,
    header_bytes,
    row_bytes,
    sequence_bytes,
)
from limelight_service.frontend.options import Wanted
from limelight_service.frontend.results import ResultBuilder
from limelight_service.frontend.schema import ModelSchema
from limelight_service.ipc.boundary import GenerationSettings, Strategy

_FRAME = 512  # provenance, names and tags of one instance's answer
_TOKEN = 96  # an output step among the labels: its text, rarely longer, its id and its place
_TOP_TOKEN = 48  # one of the most probable tokens of a step: its text, rarely longer, its id and its log-probability
_SEQUENCE_FRAME = 64
_READ = 10 + 4 + 64  # a token that is read from a vector: its id, its probability, its text, rarely longer
_MOST_READ = 1024  # vectors of an instance, each of which becomes a score for every token of the vocabulary
_HIDDEN_FRAME = 96  # tags, label set and shape of a hidden state
_MOST_BOUNDS = 1024  # that are kept for equal options: of so many different sizes
_MOST_MEASURED = 4096  # maps of all instances, to find what would fit: a dozen ways, each of some microseconds a map


@dataclass(frozen=True)
class RowBounds:
    """Bounds of what one row takes, in bytes.

    attention: its maps in the answer, and the label sets that groups and ranges make. prediction: the rest of its
    answer, label sets apart. computing: what an engine holds until the maps are reduced. a_worker: of a worker that is
    full of such rows.
    """

    attention: int
    prediction: int
    computing: int
    a_worker: int


@dataclass(frozen=True)
class Measured:
    """One instance. labels: bytes of its label sets by name, as far as they are known."""

    row: Row
    labels: Mapping[str, int]
    bounds: RowBounds


class AnswerSizes:
    """Bounds the answers of one model from above, in bytes."""

    def __init__(self, schema: ModelSchema, builders: Mapping[str, ResultBuilder]) -> None:
        self._schema = schema
        self._builders = builders
        self._outputs = {each.name: each for each in schema.description.outputs}
        self._hidden = {each.name: each for each in hidden_outputs(schema.description)}
        self._by_sizes = all(each.by_sizes for each in builders.values())

    def bounds(self, row: Row, wanted: Wanted, *, streamed: bool) -> RowBounds:
        """Bound what a row takes; of rows of the same sizes once.

        streamed: maps come from their projections, where the model has them.
        """
        attention = wanted.attention
        if not self._by_sizes or attention.query_groups or attention.key_groups:
            return self._bounds(row, wanted, streamed=streamed)
        labels = tuple([each.size for each in row.labels.values()])
        key = (streamed, *row.sizes.values(), None, *labels)
        found: RowBounds | None = wanted.bounds.get(key)
        if found is None:
            if len(wanted.bounds) >= _MOST_BOUNDS:
                wanted.bounds.clear()
            found = wanted.bounds[key] = self._bounds(row, wanted, streamed=streamed)
        return found

    def _bounds(self, row: Row, wanted: Wanted, *, streamed: bool) -> RowBounds:
        plan = wanted.plan
        attention = 0 if plan is None else self.attention(row, wanted.generation, plan)
        computing = self.computing(row, wanted, streamed=streamed) + (0 if streamed else attention)
        return RowBounds(attention, self._prediction(row, wanted), computing, computing * self.rows_at_once(row))

    def attention(self, row: Row, generation: GenerationSettings, plan: AttentionPlan) -> int:
        """Bound a row's maps, and the label sets that groups and ranges make."""
        steps = self._schema.steps(row, generation)
        sizes = self._axis_sizes(row, steps)
        derived = derived_label_bytes(plan, sizes)
        total = attention_bytes(plan, sizes) + derived
        others = plan.options.sequences - 1
        if others:
            tokens = sum(self._grown(row, steps).values())
            of_sequence = sequence_bytes(plan, sizes, self._schema.steps_label)
            total += others * (of_sequence + tokens * _TOKEN + derived + _SEQUENCE_FRAME)
        return total

    def widest(self, rows: Sequence[Measured], wanted: Wanted) -> Measured:
        """Bound what each row takes where all are filled up to the largest along every axis, and edges are dense."""
        labels: dict[str, Labels] = {}
        sizes: dict[str, int] = {}
        encoded: dict[str, int] = {}
        for each in rows:
            for name, of in each.row.labels.items():
                labels[name] = max(labels.get(name, of), of, key=lambda one: one.size)
            for name, size in each.row.sizes.items():
                sizes[name] = max(sizes.get(name, 0), size)
            for name, size in each.labels.items():
                encoded[name] = max(encoded.get(name, 0), size)
        row = Row({}, sizes, labels)
        attention = 0
        if wanted.plan is not None:
            axes = self._axis_sizes(row, self._schema.steps(row, wanted.generation))
            every = {
                each.name: axes.labels[each.query_labels] * axes.labels[each.key_labels] for each in self._schema.maps
            }
            attention = attention_bytes(wanted.plan, replace(axes, edges=every))
        bounds = replace(self.bounds(row, wanted, streamed=False), attention=attention)
        return Measured(row, encoded, bounds)

    def computing(self, row: Row, wanted: Wanted, *, streamed: bool) -> int:
        """Bound what an engine holds of a row while it computes: outputs and whole maps.

        streamed: maps come from their projections, where the model has them.
        """
        schema, generation, plan = self._schema, wanted.generation, wanted.plan
        steps = schema.steps(row, generation)
        total = sum(
            self._output(each, row, steps)
            for name, each in self._outputs.items()
            if name in wanted.kept_outputs or not self._is_of_steps(each)
        )
        if wanted.hidden is not None:
            total += sum(self._output(self._hidden[name], row, steps) for name in wanted.hidden.names)
        sequences = 1 if plan is None else plan.options.sequences
        if plan is not None:
            projected = schema.projected if streamed else {}
            total += computed_bytes(plan, self._axis_sizes(row, steps), schema.probed, projected)
        if schema.generates:  # every beam's steps are kept, and put together for each sequence
            total *= (generation.beams if generation.strategy is Strategy.BEAM else 1) + sequences
        return total

    def rows_at_once(self, row: Row) -> int:
        """Bound how many rows like this one a batch can have."""
        served = self._schema.served
        return max(1, min(served.max_rows, served.max_tokens // max(1, *row.sizes.values(), 1)))

    def checked(self, rows: Sequence[Measured], wanted: Wanted) -> int:
        """Bound the whole answer.

        Raises: TooLargeError where it is more than the call allows, with a selection that would fit.
        """
        predictions = sum([each.bounds.prediction for each in rows])

        def measure(plan: AttentionPlan | None) -> int:
            names = wanted.labels if plan is wanted.plan else self._schema.label_names(plan)
            total = predictions
            for each in rows:
                total += self._labels(names, each, wanted.generation) if names else 0
                if plan is wanted.plan:
                    total += each.bounds.attention
                elif plan is not None:
                    total += self.attention(each.row, wanted.generation, plan)
            return total

        size = measure(wanted.plan)
        if size <= wanted.limit:
            return size
        if wanted.plan is None or predictions > wanted.limit:
            lower = "lower max_new_tokens or hypotheses" if self._schema.generates else "set max_classes"
            advice = f"send fewer instances, name fewer outputs, or {lower}"
            raise TooLargeError(
                "instances", f"need an answer of {size} bytes; at most {wanted.limit} are allowed: {advice}"
            )
        advice = ""
        if len(rows) * len(wanted.plan.selected) <= _MOST_MEASURED:
            advice = fitting(self._schema.maps, wanted.attention, wanted.limit, measure)
        advice = advice or "send fewer instances, or name fewer maps"
        if self._schema.generates:
            advice += "; or lower max_new_tokens"
        raise TooLargeError(
            "attention", f"needs an answer of {size} bytes; at most {wanted.limit} are allowed: {advice}"
        )

    def checked_stream(self, rows: Sequence[Measured], wanted: Wanted, plan: AttentionPlan, most: int) -> int:
        """Bound the largest first message of a stream of maps. most: bytes of attention in the whole stream.

        Raises: TooLargeError where the stream, a message or a single query is larger than allowed.
        """
        total = sum(each.bounds.attention for each in rows)
        if total > most:
            raise TooLargeError(
                "attention", f"needs a stream of {total} bytes; at most {most} are allowed: name fewer maps"
            )
        largest = 0
        for each in rows:
            steps = self._schema.steps(each.row, wanted.generation)
            sizes = self._axis_sizes(each.row, steps)
            size = each.bounds.prediction + self._labels(wanted.labels, each, wanted.generation)
            largest = max(largest, size + header_bytes(plan, sizes) + derived_label_bytes(plan, sizes))
            if (chunk := _least_chunk(plan, sizes)) > wanted.limit:
                raise TooLargeError("attention.max_response_bytes", f"is {wanted.limit}; one query takes {chunk} bytes")
        if largest > wanted.limit:
            advice = "name fewer outputs, or set max_classes"
            raise TooLargeError(
                "instances", f"need a message of {largest} bytes; at most {wanted.limit} are allowed: {advice}"
            )
        return largest

    def _prediction(self, row: Row, wanted: Wanted) -> int:
        """Bound a row's prediction, label sets and attention apart."""
        steps = self._schema.steps(row, wanted.generation)
        total = _FRAME
        of_sequences = [steps] * wanted.generation.hypotheses if steps else []
        for name, builder in self._builders.items():
            total += builder.size(row, of_sequences, wanted.max_classes) + len(name.encode()) + 16
        for name in wanted.outputs:
            total += self._output(self._outputs[name], row, steps) + len(name.encode()) + 64
        total += sum(of_sequences) * wanted.generation.top_logprobs * _TOP_TOKEN
        return total + self._hidden_states(row, wanted, steps)

    def _hidden_states(self, row: Row, wanted: Wanted, steps: int) -> int:
        """Bound the hidden states of a row's prediction. Raises: InputError for an entry that the row lacks."""
        asked, total, read = wanted.hidden, 0, 0
        for name in () if asked is None else asked.names:
            assert asked is not None
            each = self._schema.hidden[name]
            entries = self._output(self._hidden[name], row, steps) // (4 * each.size)
            if each.label_set in row.labels:  # else the run decides
                asked.places(entries, each.label_set)
            of_row = asked.top_tokens * _READ or each.size * 4
            total += asked.rows(entries) * of_row + 10 * len(asked.positions) + 3 * len(name) + _HIDDEN_FRAME
            read += asked.rows(entries) if asked.top_tokens else 0
        if read > _MOST_READ:
            much = f"reads {read} vectors of an instance; at most {_MOST_READ} are allowed"
            raise TooLargeError("hidden.top_tokens", f"{much}: name fewer layers or positions, or pool")
        return total

    def _labels(self, names: Sequence[str], measured: Measured, generation: GenerationSettings) -> int:
        """Bound label sets; of those that the run decides, by the steps."""
        steps = self._schema.steps(measured.row, generation)
        grown, known = self._grown(measured.row, steps), measured.labels
        total = sum(known[name] + 8 if name in known else grown.get(name, steps) * _TOKEN + 64 for name in names)
        for each in filter(None, map(self._schema.input_steps.get, names)):  # a token may be a long piece of a prompt
            if each.tensor in measured.row.tokens:
                total += sum([len(text.encode()) for text in measured.row.tokens[each.tensor].texts])
        return total

    def _axis_sizes(self, row: Row, steps: int) -> AxisSizes:
        sizes = {"": 1, **{name: labels.size for name, labels in row.labels.items()}}
        sizes |= self._grown(row, steps)
        edges = {}
        for each in self._schema.maps:
            dimension = self._schema.edge_dimensions.get(each.name)
            if dimension is not None:
                every = sizes[each.query_labels] * sizes[each.key_labels]
                edges[each.name] = row.sizes[dimension] if dimension else every
        return AxisSizes(sizes, edges)

    def _grown(self, row: Row, steps: int) -> dict[str, int]:
        """Give the sizes of the label sets that grow with each generated token."""
        schema = self._schema
        sizes = {schema.steps_label: steps} if schema.steps_label else {}
        return sizes | {name: row.sizes.get(each.dimension, 0) + steps for name, each in schema.input_steps.items()}

    def _is_of_steps(self, output: model_pb2.OutputDescription) -> bool:
        schema = self._schema
        return schema.generates and bool(output.dimensions) and output.dimensions[0].name == schema.steps_label

    def _output(self, output: model_pb2.OutputDescription, row: Row, steps: int) -> int:
        sizes = {**row.sizes, self._schema.steps_label: steps}
        axes = (each.size or sizes.get(each.name) or each.maximum or 1 for each in output.dimensions)
        return math.prod(axes) * DTYPES[output.data_type].itemsize


def check_computed(largest: int, most: int, *, streamed: bool) -> None:
    """Check what an engine holds of one instance while its maps are computed, by what all calls together may hold.

    Raises: TooLargeError.
    """
    if largest > most:
        advice = "name fewer maps, heads or queries" + ("" if streamed else ", or use AttendStream")
        raise TooLargeError(
            "attention", f"takes {largest} bytes while it is computed; at most {most} are allowed: {advice}"
        )


def check_given(size: int, most: int) -> None:
    """Check the bytes of the maps that interventions replace, of all instances. Raises: TooLargeError."""
    if size > most:
        raise TooLargeError(
            "instances", f"replace {size} bytes of maps; at most {most} are allowed: send fewer, or change fewer maps"
        )


def _least_chunk(plan: AttentionPlan, sizes: AxisSizes) -> int:
    """Bound the largest chunk that maps cannot be cut below: one query, with every head where heads are reduced, or
    the map is of edges.
    """
    largest, reduced = 0, plan.options.reduce_heads is not HeadReduction.NONE
    for each in plan.selected:
        together = reduced or each.description.form == model_pb2.MAP_FORM_EDGES
        keys = sizes.labels[each.description.key_labels]
        (one,) = row_bytes(plan.options, np.array([keys]), each.description.features)
        largest = max(largest, int(one) * (len(each.heads) if together else 1))
    return largest
