"""What a model's description says, looked up once a model instead of once a request."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from bundle.maps import fixed_labels
from bundle.rows import Labels, Row
from bundle.wire import DTYPES, labels_to_wire
from limelight.v1 import attention_pb2, model_pb2
from service.attention.plan import Plan
from service.attention.size import attention_bytes
from service.engine.model import Model
from service.engine.types import GenerationSettings
from service.rpc.results import Fill, result_bytes, result_of

_FRAME = 512  # provenance, names and tags of one instance's answer
_TOKEN = 96  # an output step among the labels: its text, rarely longer, and its place


class ModelView:
    """A model as the wire sees it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.description = description = model.description
        self.maps: Sequence[model_pb2.MapDescription] = tuple(description.maps)
        self.outputs: Sequence[str] = tuple(each.name for each in description.outputs)
        self.fill: Fill = result_of(description)
        sequence = description.result.sequence
        self.steps_label = sequence.label_set
        self.max_new_tokens = sequence.max_new_tokens
        self._parents = {each.name: each.parent for each in description.label_sets}
        self._output_tensors = {each.name: each for each in description.outputs}
        target = next((each for each in description.inputs if each.name == sequence.target_input), None)
        self._target_dimension = target.tensors[0].dimensions[0].name if target else ""

    @cached_property
    def _fixed(self) -> Mapping[str, tuple[Labels, attention_pb2.LabelSet]]:
        return {name: (labels, labels_to_wire(labels)) for name, labels in fixed_labels(self.description).items()}

    def label_message(self, labels: Labels) -> attention_pb2.LabelSet:
        """Put a label set into its message; one that is the same for every instance is made once."""
        fixed = self._fixed.get(labels.name)
        return fixed[1] if fixed else labels_to_wire(labels)

    def label_names(self, plan: Plan) -> list[str]:
        """Name the label sets that the maps of a plan refer to, their parents included, each once."""
        names: dict[str, None] = {}
        for each in plan.chosen:
            for name in (each.description.query_labels, each.description.key_labels):
                while name and name not in names:
                    names[name] = None
                    name = self._parents.get(name, "")
        return list(names)

    def steps(self, row: Row, generation: GenerationSettings) -> int:
        """Bound the tokens that a generating model puts out for a row, the end token included; 0 for another model."""
        if not self.model.generates:
            return 0
        return max(generation.max_new_tokens, row.sizes.get(self._target_dimension, 0)) + 1

    def sizes(self, row: Row, steps: int) -> dict[str, int]:
        """Give the size of every label set of a row, output steps bounded by `steps`."""
        sizes = {name: labels.size for name, labels in row.labels.items()}
        if self.steps_label:
            sizes[self.steps_label] = steps
        return sizes

    def answer_bytes(self, row: Row, outputs: Sequence[str], generation: GenerationSettings) -> int:
        """Bound the bytes of a row's prediction from above, attention apart."""
        steps = self.steps(row, generation)
        total = _FRAME + result_bytes(self.description, row.sizes, [steps] * generation.hypotheses if steps else [])
        for name in outputs:
            total += self._output_bytes(self._output_tensors[name], row, steps) + len(name.encode()) + 64
        embedding = self.description.result.embedding.output
        return total + (self._output_bytes(self._output_tensors[embedding], row, steps) if embedding else 0)

    def attention_bytes(self, row: Row, steps: int, plan: Plan, labels: Mapping[str, attention_pb2.LabelSet]) -> int:
        """Bound the bytes of a row's maps and of the label sets that they refer to from above."""
        total = attention_bytes(plan, self.sizes(row, steps))
        for name in self.label_names(plan):
            total += labels[name].ByteSize() + 8 if name in labels else steps * _TOKEN + 64
        return total

    def _output_bytes(self, output: model_pb2.OutputDescription, row: Row, steps: int) -> int:
        sizes = {**row.sizes, self.steps_label: steps}
        places = (each.size or sizes.get(each.name) or each.maximum or 1 for each in output.dimensions)
        return math.prod(places) * DTYPES[output.data_type].itemsize
