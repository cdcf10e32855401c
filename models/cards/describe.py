"""Short ways to write the parts of a card that several models share."""

from collections.abc import Sequence

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2, values_pb2


def taxonomy(*columns: str | Sequence[str]) -> model_pb2.Taxonomy:
    """A row of BF Table 3, its eight columns in order."""
    names = [field.name for field in model_pb2.Taxonomy.DESCRIPTOR.fields]
    values = [[column] if isinstance(column, str) else list(column) for column in columns]
    return model_pb2.Taxonomy(**dict(zip(names, values, strict=True)))


def token_tensor(name: str, mask: str, vocabulary: int, dimensions: dict[str, int]) -> model_pb2.TensorDescription:
    """Token ids padded with 0; dimensions: name -> the most there may be."""
    return model_pb2.TensorDescription(
        name=name,
        data_type=values_pb2.DATA_TYPE_INT64,
        dimensions=[model_pb2.Dimension(name=each, maximum=most) for each, most in dimensions.items()],
        pad_value=0,
        mask=mask,
        minimum=1,
        maximum=vocabulary - 1,
    )


def logits(classes: int) -> model_pb2.OutputDescription:
    """The scores of the classes."""
    return model_pb2.OutputDescription(
        name="logits",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[model_pb2.Dimension(name="class", size=classes)],
        summary="Scores of the classes, before softmax.",
    )


def class_result(labels: Sequence[str]) -> model_pb2.ResultDescription:
    """Classes with probabilities by softmax over `logits`."""
    return model_pb2.ResultDescription(
        classes=model_pb2.ClassesDescription(output="logits", labels=labels, activation=model_pb2.ACTIVATION_SOFTMAX)
    )


def one(name: str) -> model_pb2.LabelSetDescription:
    """The label set of an axis of size 1."""
    return model_pb2.LabelSetDescription(name=name, kind=attention_pb2.LABEL_KIND_ONE)


def tokenize(tokenizer: str, tensor: str, *, special_tokens: bool = False) -> bundle_pb2.PreprocessingStep:
    """The step that applies a tokenizer file."""
    return bundle_pb2.PreprocessingStep(
        tokenize=bundle_pb2.Tokenize(tokenizer=tokenizer, tensor=tensor, special_tokens=special_tokens)
    )
