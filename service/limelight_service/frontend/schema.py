"""A served model as a frontend needs it: inputs, outputs, label sets and maps, looked up once a model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from google.protobuf.message import Message

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.attention_drift import Reference
from limelight_bundle.chat.template import chat_template
from limelight_bundle.detokenizing import Detokenizer
from limelight_bundle.generation import end_tokens, generated_text, leading_tokens, read_steps, steps_to_come
from limelight_bundle.interventions import bound_interventions
from limelight_bundle.maps import ProjectedSize, edge_dimensions
from limelight_bundle.preprocess import Bounds, Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Labels, Row
from limelight_bundle.v1 import bundle_pb2
from limelight_service.attention.options import Options
from limelight_service.attention.plan import AttentionPlan, plan_attention
from limelight_service.ipc.boundary import GenerationSettings, ServedModel

_MOST_PLANS = 32


class ModelSchema:
    """One version of a model. Equal only to itself.

    served: as its engine announced it. target, target_tensor: the optional input that forces the output, and its
    tensor; empty where there is none. steps_label: the label set of output steps; empty where the model does not
    generate. growing: label sets that grow with each generated token. edge_dimensions: for each map that a graph gives
    as edges, the dimension that counts them; empty where none does. prompts: a set of tokens for each prompt that the
    description has none for, named after its tensor. probed: maps of which single rows can be computed.
    projected: sizes of the projections that maps can be computed from. references: of attention signals, by map and
    signal, those with thresholds. hidden: hidden states by name. interventions: those that the model takes, by map.
    operation: what it does, as the conventions for generative AI name it. required: inputs that are not optional.
    masks: of tensors, by name. target_input, target_tensor, target_dimension: of what forces a generated output; empty
    for none. before_target: steps in front of a target. leading: tokens in front of a prompt. chat: how it writes
    conversations; None where it does not. ends: tokens that end a sequence. prompt_tensor: of what goes in front of
    it; empty for none. detokenizer: of generated tokens; None where no text is read by their tokenizer.

    Raises: BundleError where the bundle's files are no longer what the engine loaded.
    """

    def __init__(self, served: ServedModel, bounds: Bounds) -> None:
        """Read what preprocessing needs; for any thread."""
        self.served = served
        self.name, self.version = served.name, served.version
        bundle = bundle_pb2.Bundle.FromString(served.bundle)
        folder = BundleFolder(
            Path(served.folder), bundle, served.digest, served.graph_bytes, served.stamps, served.origin
        )
        self.description = description = bundle.description
        self.preprocessor = Preprocessor(folder, bounds)
        self.chat = chat_template(folder)
        folder.check_unchanged()
        self.maps: Sequence[model_pb2.MapDescription] = tuple(description.maps)
        # Not a cache of a method, which would keep an unloaded model until the next collection of cycles.
        self._planned = lru_cache(_MOST_PLANS)(partial(plan_attention, self.maps))
        self.hidden = {each.name: each for each in description.hidden}
        self.required = tuple(each for each in description.inputs if not each.optional)
        self.outputs: Sequence[str] = tuple(each.name for each in description.outputs)
        sequence = _sequence(description)
        self.generates = bundle.HasField("generation")
        self.steps_label = sequence.label_set
        input_steps = [each for each in description.label_sets if each.kind == attention_pb2.LABEL_KIND_INPUT_STEPS]
        self.input_steps = {each.name: each for each in input_steps}
        self.growing = frozenset({self.steps_label, *self.input_steps})
        tokens = attention_pb2.LABEL_KIND_TOKENS
        counted = {"", *(each.tensor for each in description.label_sets if each.kind == tokens)}
        self.prompts = [
            model_pb2.LabelSetDescription(
                name=each.tensor, kind=tokens, input=each.input, tensor=each.tensor, dimension=each.dimension
            )
            for each in input_steps
            if each.tensor not in counted
        ]
        self._written = generated_text(bundle)
        self.max_new_tokens = sequence.max_new_tokens
        self.operation = _operation(description, generates=self.generates, reads_text=self.preprocessor.has_texts)
        self.edge_dimensions = edge_dimensions(bundle)
        self.probed = frozenset(each.map for each in bundle.maps if each.HasField("probe"))
        self.projected = {name: ProjectedSize(*sizes) for name, sizes in served.projected.items()}
        self.interventions = bound_interventions(bundle)
        self.results = tuple(description.results)
        self.masks = {each.tensor: each.mask for each in bundle.tensors if each.mask}
        self.references = {
            (each.map, each.signal): Reference(np.array(each.bins), np.array(each.thresholds))
            for each in bundle.attention_references
            if each.thresholds  # earlier exports have none: what chance does is not known of them
        }
        self._parents = {each.name: each.parent for each in description.label_sets}
        self._result_labels = self._with_parents(name for each in self.results for name in _label_sets(each))
        self._read = frozenset(name for each in self.results for name in _names(each) if name in self.outputs)
        target = next((each for each in description.inputs if each.name == sequence.target_input), None)
        self.target_input = target.name if target else ""
        self.target_tensor = bundle.generation.target_tensor
        self.target_dimension = target.tensors[0].dimensions[0].name if target else ""
        self.before_target = bundle.generation.steps_before_target
        self.leading = len(leading_tokens(bundle.generation))
        self.ends = end_tokens(bundle.generation)
        self.prompt_tensor = bundle.generation.prompt_tensor
        self.detokenizer = self._detokenizer(bundle)

    def _detokenizer(self, bundle: bundle_pb2.Bundle) -> Detokenizer | None:
        for each in bundle.preprocessing:
            for step in each.steps:
                if step.tokenize.tensor and step.tokenize.tokenizer == bundle.generation.tokenizer:
                    return self.preprocessor.encoders[step.tokenize.tensor].detokenizer
        return None

    def plan(self, options: Options) -> AttentionPlan:
        """Check attention options against the model's maps. The same options are planned once.

        Raises: InputError naming the option that cannot be met.
        """
        if options.query_groups or options.key_groups:  # such plans keep what groups found in instances
            return plan_attention(self.maps, options)
        return self._planned(options)

    def label_names(self, plan: AttentionPlan | None, others: Sequence[str] = ()) -> tuple[str, ...]:
        """Name the label sets that results and the maps of a plan refer to, and others; their parents included, each
        once.

        Sets that groups and ranges make come beside them, and have these as parents.
        """
        if plan is None and not others:
            return self._result_labels
        referred = [*self._result_labels, *others]
        for each in () if plan is None else plan.selected:
            description = each.description
            referred += [description.query_labels, description.key_labels]
            referred += [description.head_labels, description.feature_labels]
        return self._with_parents(referred)

    def steps(self, row: Row, generation: GenerationSettings) -> int:
        """Bound the tokens generated for a row, the end token included; 0 for a model that does not generate."""
        if not self.generates:
            return 0
        forced = self.before_target + row.sizes.get(self.target_dimension, 0)
        chosen = generation.max_new_tokens
        if generation.continue_target:
            chosen = min(forced + chosen, self.max_new_tokens)
        return max(chosen, forced) + 1

    def first_keys(self, name: str, row: Row) -> int:
        """Count the entries of a label set of input steps at a row's first step: the begin token and the prompt."""
        return self.leading + row.sizes.get(self.input_steps[name].dimension, 0)

    def labels_to_come(self, name: str, row: Row, steps: int) -> Labels:
        """Label a set that grows with each generated token, of so many steps, by what is known before the first."""
        written = steps_to_come(self._written, steps)
        if name == self.steps_label:
            return written
        described, kind = self.input_steps[name], attention_pb2.LABEL_KIND_INPUT_STEPS
        leading = Labels("", kind, self.leading, special=[True] * self.leading)
        if not described.tensor:
            return read_steps(name, leading, written)
        return read_steps(name, leading, _prompt(described, row), written)

    def prompt_labels(self, row: Row) -> dict[str, Labels]:
        """Label the tokens of each of `prompts`."""
        return {each.name: replace(_prompt(each, row), name=each.name) for each in self.prompts}

    def kept_outputs(self, outputs: Sequence[str]) -> frozenset[str]:
        """Name the raw outputs that an answer is made of. outputs: those that are asked for."""
        return self._read.union(outputs)

    def _with_parents(self, referred: Iterable[str]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for name in referred:
            while name and name not in names:
                names[name] = None
                name = self._parents.get(name, "")
        return tuple(names)


def _prompt(described: model_pb2.LabelSetDescription, row: Row) -> Labels:
    """Label the tokens of a prompt, by their number alone where no more is known."""
    size, inputs = row.sizes[described.dimension], (described.input,)
    unknown = Labels("", attention_pb2.LABEL_KIND_TOKENS, size, inputs=inputs)
    return row.tokens.get(described.tensor, unknown)


def _sequence(description: model_pb2.ModelDescription) -> model_pb2.SequenceDescription:
    """Find the result that is a token sequence; empty where the model does not generate."""
    for each in description.results:
        if each.HasField("sequence"):
            return each.sequence
    return model_pb2.SequenceDescription()


def _operation(description: model_pb2.ModelDescription, *, generates: bool, reads_text: bool) -> str:
    """Name what a model does as OpenTelemetry's conventions do; by its task where they have no name for it."""
    if generates:
        return "text_completion" if reads_text else "generate_content"
    if description.task == model_pb2.TASK_EMBEDDING:
        return "embeddings"
    return model_pb2.Task.Name(description.task).removeprefix("TASK_").lower()


def _label_sets(result: model_pb2.ResultDescription) -> Iterable[str]:
    """Name the label sets that a typed result refers to; an empty name says nothing."""
    match result.WhichOneof("kind"):
        case "classes":
            return result.classes.label_set, result.classes.class_label_set
        case "token_vectors":
            return (result.token_vectors.label_set,)
        case "boxes":
            return (result.boxes.label_set,)
    return ()


def _names(result: model_pb2.ResultDescription) -> Iterator[str]:
    """Give every name in the description of a result; those of outputs are among them."""
    for _, kind in result.ListFields():
        if isinstance(kind, Message):
            yield from (value for _, value in kind.ListFields() if isinstance(value, str))
