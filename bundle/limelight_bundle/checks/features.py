"""Features of the format: a reader refuses a bundle with a feature that it does not know."""

from collections.abc import Callable, Mapping

from limelight_bundle.errors import BundleError
from limelight_bundle.maps import VALUES
from limelight_bundle.v1 import bundle_pb2

_IsUsed = Callable[[bundle_pb2.Bundle], bool]


def _has_step(bundle: bundle_pb2.Bundle, name: str) -> bool:
    return any(step.WhichOneof("step") == name for each in bundle.preprocessing for step in each.steps)


# Every feature of the format, with a function that tells whether a bundle uses it.
FEATURES: Mapping[str, _IsUsed] = {
    "joined-tensors": lambda bundle: any(each.collation == bundle_pb2.COLLATION_JOIN for each in bundle.tensors),
    "graphs": lambda bundle: _has_step(bundle, "read_graph"),
    "audio": lambda bundle: _has_step(bundle, "decode_audio") or _has_step(bundle, "log_mel"),
    "fbank": lambda bundle: _has_step(bundle, "fbank"),
    "lines": lambda bundle: _has_step(bundle, "split_lines"),
    "words": lambda bundle: _has_step(bundle, "split_words"),
    "filled-texts": lambda bundle: _has_step(bundle, "fill_tokens"),
    "edge-maps": lambda bundle: any(bundle_pb2.AXIS_EDGE in each.axes for each in bundle.maps),
    "gated-maps": lambda bundle: any(each.gate for each in bundle.maps),
    "row-probes": lambda bundle: any(each.HasField("probe") for each in bundle.maps),
    "projections": lambda bundle: any(each.HasField("projections") for each in bundle.maps),
    "values": lambda bundle: any(each.quantity == VALUES for each in bundle.maps),
    "interventions": lambda bundle: any(
        each.head_scales or each.weights_inputs or each.masked_output for each in bundle.maps
    ),
    "prefill": lambda bundle: bool(bundle.generation.prefill or bundle.generation.prompt_tensor),
    "starts-with-prompt": lambda bundle: bundle.generation.starts_with_prompt,
    "end-tokens": lambda bundle: bool(bundle.generation.more_end_tokens),
    "steps-before-target": lambda bundle: bool(bundle.generation.steps_before_target),
    "single-rows": lambda bundle: bundle.single_rows,
    "positions": lambda bundle: bool(bundle.generation.positions_input or bundle.generation.lengths_input),
    "span-parts": lambda bundle: any(each.spans.part for each in bundle.description.results),
    "no-span": lambda bundle: any(each.spans.first_token_is_none for each in bundle.description.results),
    "boxes": lambda bundle: any(each.HasField("boxes") for each in bundle.description.results),
    "hidden-states": lambda bundle: bool(bundle.hidden or bundle.description.hidden),
    "lens": lambda bundle: bool(bundle.generation.lens),
    "chat-template": lambda bundle: bool(bundle.generation.chat_template or bundle.generation.chat_tokens),
    "token-vectors": lambda bundle: any(each.HasField("token_vectors") for each in bundle.description.results),
    "pointers": lambda bundle: any(each.classes.class_label_set for each in bundle.description.results),
    "selected-entries": lambda bundle: any(
        each.classes.words or each.classes.HasField("token_id") for each in bundle.description.results
    ),
}
# Features that this release implements.
KNOWN_FEATURES = frozenset(
    {
        "joined-tensors",
        "graphs",
        "audio",
        "fbank",
        "lines",
        "words",
        "filled-texts",
        "edge-maps",
        "gated-maps",
        "row-probes",
        "projections",
        "values",
        "interventions",
        "positions",
        "prefill",
        "span-parts",
        "no-span",
        "boxes",
        "hidden-states",
        "lens",
        "chat-template",
        "token-vectors",
        "pointers",
        "selected-entries",
        "starts-with-prompt",
        "end-tokens",
        "steps-before-target",
        "single-rows",
    }
)


def used_features(bundle: bundle_pb2.Bundle) -> list[str]:
    """List the features that a bundle uses; the writer lists them as required."""
    return [name for name, used in FEATURES.items() if used(bundle)]


def check_features(bundle: bundle_pb2.Bundle) -> None:
    """Check the features of a bundle.

    Raises:
        BundleError: the bundle requires a feature unknown to this release, or uses one without listing it.
    """
    for name in bundle.required_features:
        if name not in KNOWN_FEATURES:
            raise BundleError(
                f"it requires the feature {name!r}, which is unknown to this release; use a newer release"
            )
    for name in used_features(bundle):
        if name not in bundle.required_features:
            raise BundleError(f"it uses the feature {name!r} without listing it in required_features")
