"""What a model's description says, looked up once a model instead of once a request."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial

import numpy as np
from google.protobuf.message import Message

from bundle.maps import fixed_labels
from bundle.rows import Labels, Row
from bundle.wire import DTYPES, labels_to_wire
from limelight.v1 import attention_pb2, model_pb2
from service.attention.options import HeadReduction
from service.attention.plan import AttentionPlan, plan_attention
from service.attention.size import (
    AxisSizes,
    attention_bytes,
    computed_bytes,
    derived_label_bytes,
    header_bytes,
    row_bytes,
    sequence_bytes,
)
from service.engine.model import Model
from service.engine.shapes import places
from service.engine.types import GenerationSettings, Strategy
from service.engine.writing import input_steps, sequence_description
from service.rpc.requests import attention_options
from service.rpc.results import result_builders

_FRAME = 512  # provenance, names and tags of one instance's answer
_TOKEN = 96  # an output step among the labels: its text, rarely longer, its id and its place
_SEQUENCE_FRAME = 64
_MOST_PLANS, _LONGEST_PLANNED = 32, 256  # that are kept, and bytes of what is asked


class ModelView:
    """A model as the wire sees it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.description = description = model.description
        self.maps: Sequence[model_pb2.MapDescription] = tuple(description.maps)
        # Not a cache of a method, which would be a cycle.
        self._planned = lru_cache(_MOST_PLANS)(partial(_planned, self.maps))
        self.outputs: Sequence[str] = tuple(each.name for each in description.outputs)
        self.results = result_builders(description)
        sequence = sequence_description(description)
        self.steps_label = sequence.label_set
        self._input_steps = {each.name: each.dimension for each in input_steps(description)}
        self.growing = frozenset({self.steps_label, *self._input_steps})
        self.max_new_tokens = sequence.max_new_tokens
        self._parents = {each.name: each.parent for each in description.label_sets}
        self._result_labels = self._with_parents(each.label_set for each in self.results.values())
        self._output_tensors = {each.name: each for each in description.outputs}
        self._read = frozenset(name for each in description.results for name in _names(each) if name in self.outputs)
        target = next((each for each in description.inputs if each.name == sequence.target_input), None)
        self._target_dimension = target.tensors[0].dimensions[0].name if target else ""

    @cached_property
    def _fixed(self) -> Mapping[str, bytes]:
        fixed = fixed_labels(self.description).items()
        return {name: labels_to_wire(labels).SerializeToString() for name, labels in fixed}

    def plan(self, attention: attention_pb2.AttentionOptions) -> AttentionPlan:
        """Check what is asked of the model's maps. Callers ask for the same again and again: that is planned once.

        Raises: InputError naming the option that cannot be met.
        """
        groups = attention.query_groups or attention.key_groups  # which keep what they found in instances
        if groups or attention.ByteSize() > _LONGEST_PLANNED:
            return _plan(self.maps, attention)
        return self._planned(attention.SerializeToString())

    def label_bytes(self, labels: Labels) -> bytes:
        """Serialise a label set; one that is the same for every instance is serialised once."""
        placed = labels.grid is not None and labels.grid.HasField("region")
        fixed = None if placed else self._fixed.get(labels.name)
        return labels_to_wire(labels).SerializeToString() if fixed is None else fixed

    def label_names(self, plan: AttentionPlan | None) -> tuple[str, ...]:
        """Name the label sets that results and the maps of a plan refer to, their parents included, each once.

        Those that groups and ranges make come beside them: these are then their parents.
        """
        if plan is None:
            return self._result_labels
        referred = list(self._result_labels)
        for each in plan.selected:
            description = each.description
            referred += [description.query_labels, description.key_labels]
            referred += [description.head_labels, description.feature_labels]
        return self._with_parents(referred)

    def steps(self, row: Row, generation: GenerationSettings) -> int:
        """Bound the tokens that a generating model puts out for a row, the end token included; 0 for another model."""
        if not self.model.generates:
            return 0
        return max(generation.max_new_tokens, row.sizes.get(self._target_dimension, 0)) + 1

    def axis_sizes(self, row: Row, steps: int) -> AxisSizes:
        """Give what decides the size of a row's maps, output steps bounded by `steps`."""
        sizes = {name: labels.size for name, labels in row.labels.items()}
        sizes |= self._grown(row, steps)
        edges = {}
        for each in self.maps:
            dimension = self.model.edge_dimensions.get(each.name)
            if dimension is not None:
                every = sizes[each.query_labels] * sizes[each.key_labels]
                edges[each.name] = row.sizes[dimension] if dimension else every
        return AxisSizes(sizes, edges)

    def answer_bytes(self, row: Row, outputs: Sequence[str], generation: GenerationSettings, max_classes: int) -> int:
        """Bound the bytes of a row's prediction from above, label sets and attention apart."""
        steps = self.steps(row, generation)
        total = _FRAME
        of_sequences = [steps] * generation.hypotheses if steps else []
        for name, result in self.results.items():
            total += result.size(row, of_sequences, max_classes) + len(name.encode()) + 16
        for name in outputs:
            total += self._output_bytes(self._output_tensors[name], row, steps) + len(name.encode()) + 64
        return total

    def kept_outputs(self, outputs: Sequence[str]) -> frozenset[str]:
        """Name the raw outputs that an answer is made of. outputs: those asked for."""
        return self._read.union(outputs)

    def computing_bytes(
        self,
        row: Row,
        outputs: Sequence[str],
        generation: GenerationSettings,
        plan: AttentionPlan | None,
        *,
        streamed: bool = False,
    ) -> int:
        """Bound what a row's outputs and whole maps take. outputs: those asked for; of a generating model's steps no
        other is kept. streamed: what maps are made of is enough, where that is known.
        """
        steps = self.steps(row, generation)
        kept = self.kept_outputs(outputs)
        total = sum(
            self._output_bytes(each, row, steps)
            for name, each in self._output_tensors.items()
            if name in kept or not self._is_of_steps(each)
        )
        sequences = 1 if plan is None else plan.options.sequences
        if plan is not None:
            projected = self.model.projected if streamed else {}
            total += computed_bytes(plan, self.axis_sizes(row, steps), self.model.probed, projected)
        if self.model.generates:  # every beam's steps are kept, and put together for each sequence
            total *= (generation.beams if generation.strategy is Strategy.BEAM else 1) + sequences
        return total

    def rows_at_once(self, row: Row) -> int:
        """Bound how many rows like this one a batch can have."""
        policy = self.model.policy
        return max(1, min(policy.max_rows, policy.max_tokens // max(1, places(self.model.shape(row.sizes)))))

    def labels_size(self, names: Sequence[str], labels: Mapping[str, bytes], row: Row, steps: int) -> int:
        """Bound the bytes of label sets from above; `labels` are those that are serialised already."""
        grown = self._grown(row, steps)
        return sum(len(labels[name]) + 8 if name in labels else grown.get(name, steps) * _TOKEN + 64 for name in names)

    def attention_bytes(self, row: Row, steps: int, plan: AttentionPlan) -> int:
        """Bound the bytes of a row's maps, and of the label sets that groups and ranges make, from above."""
        sizes = self.axis_sizes(row, steps)
        derived = derived_label_bytes(plan, sizes)
        total = attention_bytes(plan, sizes) + derived
        others = plan.options.sequences - 1
        if others:
            tokens = sum(self._grown(row, steps).values())
            own = sequence_bytes(plan, sizes, self.steps_label) + tokens * _TOKEN + derived + _SEQUENCE_FRAME
            total += others * own
        return total

    def header_bytes(self, row: Row, steps: int, plan: AttentionPlan) -> int:
        """Bound the bytes of what is said of a row's maps before they are streamed, label sets of groups included."""
        sizes = self.axis_sizes(row, steps)
        return header_bytes(plan, sizes) + derived_label_bytes(plan, sizes)

    def chunk_bytes(self, row: Row, steps: int, plan: AttentionPlan) -> int:
        """Bound the bytes of the largest chunk that a row's maps cannot be cut below: one query, with every head where
        heads are reduced, or the map is of edges.
        """
        sizes, largest = self.axis_sizes(row, steps), 0
        reduced = plan.options.reduce_heads is not HeadReduction.NONE
        for each in plan.selected:
            together = reduced or each.description.form == model_pb2.MAP_FORM_EDGES
            keys = sizes.labels[each.description.key_labels]
            (one,) = row_bytes(plan.options, np.array([keys]), each.description.features)
            largest = max(largest, int(one) * (len(each.heads) if together else 1))
        return largest

    def _grown(self, row: Row, steps: int) -> dict[str, int]:
        """Give the sizes of the label sets that grow with what is put out."""
        sizes = {self.steps_label: steps} if self.steps_label else {}
        return sizes | {name: row.sizes.get(prompt, 0) + steps for name, prompt in self._input_steps.items()}

    def _with_parents(self, referred: Iterable[str]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for name in referred:
            while name and name not in names:
                names[name] = None
                name = self._parents.get(name, "")
        return tuple(names)

    def _is_of_steps(self, output: model_pb2.OutputDescription) -> bool:
        return self.model.generates and bool(output.dimensions) and output.dimensions[0].name == self.steps_label

    def _output_bytes(self, output: model_pb2.OutputDescription, row: Row, steps: int) -> int:
        sizes = {**row.sizes, self.steps_label: steps}
        axes = (each.size or sizes.get(each.name) or each.maximum or 1 for each in output.dimensions)
        return math.prod(axes) * DTYPES[output.data_type].itemsize


def _plan(maps: Sequence[model_pb2.MapDescription], attention: attention_pb2.AttentionOptions) -> AttentionPlan:
    return plan_attention(maps, attention_options(attention))


def _planned(maps: Sequence[model_pb2.MapDescription], attention: bytes) -> AttentionPlan:
    return _plan(maps, attention_pb2.AttentionOptions.FromString(attention))


def _names(result: model_pb2.ResultDescription) -> Iterator[str]:
    """Give every name in the description of a result; those of outputs are among them."""
    for _, kind in result.ListFields():
        if isinstance(kind, Message):
            yield from (value for _, value in kind.ListFields() if isinstance(value, str))
