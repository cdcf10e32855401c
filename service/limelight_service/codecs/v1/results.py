"""Typed results and sequences as messages."""

from limelight.v1 import service_pb2
from limelight_bundle.wire import to_tensor
from limelight_service.frontend.results import (
    Boxes,
    Classes,
    Embedding,
    Numbers,
    Sequences,
    Spans,
    Tags,
    TokenVectors,
    TypedResult,
)
from limelight_service.ipc.boundary import FinishReason, Sequence, TopTokens

_FINISH = {
    FinishReason.END: service_pb2.FINISH_REASON_END,
    FinishReason.LENGTH: service_pb2.FINISH_REASON_LENGTH,
    FinishReason.STOP: service_pb2.FINISH_REASON_STOP,
    FinishReason.TARGET: service_pb2.FINISH_REASON_TARGET,
}


def fill_result(message: service_pb2.Result, result: TypedResult) -> None:
    """Put a typed result into its message."""
    match result:
        case Classes():
            message.classification.SetInParent()
            classes = message.classification.classes
            for label, index, probability in zip(result.names, result.indices, result.probabilities, strict=True):
                classes.add(label=label, index=index, probability=probability)
        case Tags():
            tagging = message.tagging
            tagging.label_set = result.label_set
            tagging.classes_per_entry = result.per_entry
            tagging.labels.extend(result.names)
            tagging.indices.extend(result.indices)
            tagging.probabilities.extend(result.probabilities)
            if result.entries is not None:
                tagging.selected = True
                tagging.entries.extend(result.entries[0])
                tagging.entry_ends.extend(result.entries[1])
        case Embedding():
            message.embedding.vector.CopyFrom(to_tensor(result.vector))
        case TokenVectors():
            message.token_vectors.label_set = result.label_set
            message.token_vectors.vectors.CopyFrom(to_tensor(result.vectors))
        case Numbers():
            message.regression.SetInParent()
            for each in result.numbers:
                message.regression.numbers.add(name=each.name, value=each.value, unit=each.unit)
        case Boxes():
            message.boxes.label_set = result.label_set
            message.boxes.relative = result.relative
            for box in result.boxes:
                left, top, right, bottom = box.edges
                message.boxes.boxes.add(
                    label=box.name,
                    index=box.index,
                    probability=box.probability,
                    left=left,
                    top=top,
                    right=right,
                    bottom=bottom,
                    query=box.query,
                )
        case Sequences():
            message.sequences.sequences.extend(map(sequence_message, result.sequences))
        case Spans():
            message.spans.SetInParent()
            if result.none is not None:
                message.spans.none_probability = result.none
            for span in result.spans:
                message.spans.spans.add(
                    start=span.start,
                    end=span.end,
                    probability=span.probability,
                    text=span.text,
                    part=span.part,
                    sentence=span.sentence,
                )


def sequence_message(sequence: Sequence) -> service_pb2.Sequence:
    """Put a sequence into its message."""
    return service_pb2.Sequence(
        text=sequence.text,
        token_ids=sequence.token_ids,
        log_probabilities=sequence.log_probabilities,
        score=sequence.score,
        finish_reason=_FINISH[sequence.finish_reason],
        forced_tokens=sequence.forced,
        top=top_tokens(sequence.top),
    )


def top_tokens(top: TopTokens | None) -> service_pb2.TopTokens | None:
    """Make the message of the most probable tokens of steps."""
    if top is None:
        return None
    return service_pb2.TopTokens(
        tokens_per_step=top.per_step,
        token_ids=top.token_ids,
        texts=top.texts,
        log_probabilities=top.log_probabilities,
    )
