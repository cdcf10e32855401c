"""The rows of a request, translated one by one where they are preprocessed."""

from collections.abc import Mapping, Sequence

from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Array, Audio, Image, Instance, Pair, Sentences, TensorValue, Text, Value
from limelight_service.codecs.oip.contents import InputTensor
from limelight_service.codecs.oip.datatypes import BYTES, of_wire
from limelight_service.frontend.interventions import Intervention
from limelight_service.frontend.schema import ModelSchema


class TensorRows:
    """Rows of input tensors, as `limelight_service.frontend.core.InstanceSource`. seed: of every row; None for none."""

    has_interventions = False

    def __init__(self, inputs: Sequence[InputTensor], seed: int | None) -> None:
        self._inputs = inputs
        self._seed = seed
        self._rows = len(inputs[0].array)
        self.size = sum(_size(each) for each in inputs)
        self.has_tensors_only = all(each.type is not BYTES for each in inputs)

    def __len__(self) -> int:
        return self._rows

    def path(self, place: int) -> Path:
        """Give the path of a row."""
        return ("rows", place)

    def has_files(self, schema: ModelSchema) -> bool:
        """Tell whether some input is an image or a recording."""
        kinds = (model_pb2.INPUT_KIND_IMAGE, model_pb2.INPUT_KIND_AUDIO)
        files = {each.name for each in schema.description.inputs if each.kind in kinds}
        return any(each.name in files for each in self._inputs)

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """Translate one row. Raises: InputError naming the input."""
        kinds = {each.name: each.kind for each in schema.description.inputs}
        tensors = {each.name: each for given in schema.description.inputs for each in given.tensors}
        return {each.name: _value(each, place, kinds, tensors) for each in self._inputs}

    def interventions(self, place: int) -> Sequence[Intervention]:
        """Give none: the protocol has no place for them."""
        return ()

    def seed(self, place: int) -> int | None:
        """Give the seed of the call: a row draws what it draws alone."""
        return self._seed


def _size(tensor: InputTensor) -> int:
    return sum(map(len, tensor.array.flat)) if tensor.type is BYTES else tensor.array.nbytes


def _value(
    tensor: InputTensor,
    place: int,
    kinds: Mapping[str, int],
    tensors: Mapping[str, model_pb2.TensorDescription],
) -> Value:
    row = tensor.array[place, ...]  # stays an array where no axis is left
    described, kind = tensors.get(tensor.name), kinds.get(tensor.name)
    if described is not None and (tensor.type is not BYTES or kind in _OF_TENSORS):
        _check_described(tensor, described)
    if tensor.type is not BYTES:
        return TensorValue(row)
    elements = row.reshape(-1)
    match kind:
        case model_pb2.INPUT_KIND_IMAGE:
            return Image(_only(tensor, row))
        case model_pb2.INPUT_KIND_AUDIO:
            return Audio(_only(tensor, row))
        case model_pb2.INPUT_KIND_PAIR:
            if row.shape != (2,):
                raise InputError((*tensor.path, "shape"), f"is {_shape(tensor)}; a pair of texts is [rows, 2]")
            return Pair(_text(tensor, place, elements[0]), _text(tensor, place, elements[1]))
        case model_pb2.INPUT_KIND_DOCUMENT if row.ndim == 1 and len(elements) > 1:
            texts = [_text(tensor, place, each) for each in elements]
            while texts and not texts[-1]:  # fills up a document of fewer sentences than the longest
                texts.pop()
            return Sentences(tuple(texts))
    return Text(_text(tensor, place, _only(tensor, row)))


# Kinds of inputs under whose name a tensor can be sent: their own, and that of no input.
_OF_TENSORS = (None, model_pb2.INPUT_KIND_TENSOR)


def _check_described(tensor: InputTensor, described: model_pb2.TensorDescription) -> None:
    """Check type and axes in the words of this protocol; sizes and values are checked where the row is made."""
    wanted = of_wire(described.data_type)
    if tensor.type is not wanted:
        raise InputError((*tensor.path, "datatype"), f"is {tensor.type.name}; {tensor.name} takes {wanted.name}")
    axes = ["rows", *(each.name for each in described.dimensions)]
    if tensor.array.ndim != len(axes):
        raise InputError((*tensor.path, "shape"), f"is {_shape(tensor)}; {tensor.name} takes [{', '.join(axes)}]")


def _only(tensor: InputTensor, row: Array) -> bytes:
    """Give the one element of a row. Raises: InputError where there are others."""
    if row.shape not in ((), (1,)):
        raise InputError((*tensor.path, "shape"), f"is {_shape(tensor)}; {tensor.name[:64]} takes [rows] or [rows, 1]")
    element: bytes = row.reshape(-1)[0]
    return element


def _text(tensor: InputTensor, place: int, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(tensor.path, f"has in row {place} a text that is not UTF-8") from error


def _shape(tensor: InputTensor) -> list[int]:
    return list(tensor.array.shape)
