"""From an instance, as a caller sends it, to a row of tensors."""

from collections.abc import Mapping

from bundle.errors import InputError
from bundle.maps import fixed_labels
from bundle.preprocess.steps import InputSteps, Prepared
from bundle.preprocess.tensors import check_tensor, real_places
from bundle.reader import BundleFolder
from bundle.rows import Labels, Row, bound_tensors
from bundle.text import read_tokenizer
from bundle.v1 import bundle_pb2
from bundle.values import Array, Instance, TensorValue, Value
from bundle.wire import input_path
from limelight.v1 import attention_pb2, model_pb2


class Preprocessor:
    """Turns instances into rows as one bundle declares; safe to use from several threads.

    Raises: BundleError where a tokenizer is broken or a step does not fit its input.
    """

    def __init__(self, folder: BundleFolder) -> None:
        tokenizers = {
            step.tokenize.tokenizer: read_tokenizer(folder.file(step.tokenize.tokenizer))
            for each in folder.bundle.preprocessing
            for step in each.steps
            if step.HasField("tokenize")
        }
        self._set_up(folder.bundle, tokenizers)

    @classmethod
    def from_parts(cls, bundle: bundle_pb2.Bundle, tokenizers: Mapping[str, str]) -> "Preprocessor":
        """Make one before there is a folder: `tokenizers` holds the text of each tokenizer file by name."""
        preprocessor = cls.__new__(cls)
        preprocessor._set_up(bundle, tokenizers)
        return preprocessor

    def _set_up(self, bundle: bundle_pb2.Bundle, tokenizers: Mapping[str, str]) -> None:
        self._description = bundle.description
        self._fixed_labels = fixed_labels(bundle.description)
        steps = {each.input: each.steps for each in bundle.preprocessing}
        tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
        self._inputs = {
            each.name: InputSteps(
                each,
                steps.get(each.name, ()),
                tokenizers,
                bundle.description.limits,
                {tensor.name: tensors[tensor.name] for tensor in each.tensors},
                bundle.description.label_sets,
            )
            for each in bundle.description.inputs
        }

    def row(self, instance: Instance, *, field: str = "", truncate: bool = False) -> Row:
        """Check and convert one instance; `field` is its path in the request, such as `instances[3]`.

        Raises: InputError (or a kind of it) naming the input that is missing, unknown, of the wrong kind, or too large.
        """
        self._check_names(instance, field)
        prepared: list[Prepared] = []
        for name, steps in self._inputs.items():
            value = instance.get(name)
            if value is not None and not (isinstance(value, TensorValue) and steps.is_own_tensor):
                prepared.append(steps.run(value, field=input_path(field, name), truncate=truncate))
                continue
            sent = {each.name: instance[each.name] for each in steps.description.tensors if each.name in instance}
            if sent:
                prepared.append(_from_tensors(steps, sent, field))
            elif not steps.description.optional:
                raise InputError(input_path(field, name), f"is missing; the model takes {self._expected()}")
        return self._merge(prepared, field)

    def _check_names(self, instance: Instance, field: str) -> None:
        known = set(self._inputs) | {
            tensor.name for steps in self._inputs.values() for tensor in steps.description.tensors
        }
        for name in instance:
            if name not in known:
                raise InputError(input_path(field, name), f"is no input of the model, which takes {self._expected()}")
        for name, steps in self._inputs.items():
            for tensor in steps.description.tensors:
                if name in instance and tensor.name in instance and tensor.name != name:
                    raise InputError(
                        input_path(field, tensor.name), f"is what {name!r} is turned into; send one of them"
                    )

    def _expected(self) -> str:
        kinds = model_pb2.InputKind
        return ", ".join(
            f"{name!r} ({kinds.Name(steps.description.kind).removeprefix('INPUT_KIND_').lower()}"
            + (", optional)" if steps.description.optional else ")")
            for name, steps in self._inputs.items()
        )

    def _merge(self, prepared: list[Prepared], field: str) -> Row:
        tensors: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        labels: dict[str, Labels] = dict(self._fixed_labels)
        for each in prepared:
            tensors |= each.tensors
            labels |= each.labels
            for name, size in each.sizes.items():
                if sizes.setdefault(name, size) != size:
                    raise InputError(
                        input_path(field, each.input), f"has {size} for {name} where another input has {sizes[name]}"
                    )
        return Row(tensors, sizes, labels, any(each.truncated for each in prepared))


def _from_tensors(steps: InputSteps, sent: Mapping[str, Value], field: str) -> Prepared:
    """Check tensors that a caller sent in place of an input."""
    tensors: dict[str, Array] = {}
    sizes: dict[str, int] = {}
    for name, bound in steps.tensors.items():
        value, path = sent.get(name), input_path(field, name)
        if value is None:
            raise InputError(path, "is missing; send all tensors of an input or none")
        if not isinstance(value, TensorValue):
            raise InputError(path, "is to be a tensor")
        check_tensor(value.array, bound.description, f"{path}.tensor")
        tensors[name] = value.array
        sizes |= {each.name: size for each, size in zip(bound.description.dimensions, value.array.shape, strict=True)}
        if bound.mask:
            tensors[bound.mask] = real_places(value.array, bound.description, f"{path}.tensor")
    return Prepared(steps.description.name, tensors, sizes, _labels_of_tensors(steps, tensors))


def _labels_of_tensors(steps: InputSteps, tensors: Mapping[str, Array]) -> dict[str, Labels]:
    """Say what can be said of tensors that were sent: tokens have ids, and no places in a text."""
    labels = {}
    for each in steps.label_sets:
        array, bound = tensors[each.tensor], steps.tensors[each.tensor]
        inputs = steps.parts(each.tensor)
        mask = tensors.get(bound.mask)
        if each.kind == attention_pb2.LABEL_KIND_TOKENS and mask is not None and steps.encoder is not None:
            ids = array[mask].tolist()
            texts = [steps.encoder.token(token) for token in ids]
            parents = mask.nonzero()[0].tolist() if each.parent else []
            labels[each.name] = Labels(
                each.name,
                each.kind,
                len(ids),
                texts,
                ids=ids,
                special=steps.encoder.special(ids),
                parents=parents,
                parent=each.parent,
                inputs=inputs,
            )
        else:
            axis = [dimension.name for dimension in bound.description.dimensions].index(each.dimension)
            labels[each.name] = Labels(each.name, each.kind, array.shape[axis], parent=each.parent, inputs=inputs)
    return labels
