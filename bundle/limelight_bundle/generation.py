"""The first and last tokens of generated sequences."""

from limelight_bundle.v1 import bundle_pb2


def leading_tokens(generation: bundle_pb2.Generation) -> tuple[int, ...]:
    """Give the tokens that stand in front of a prompt, or of the first output token."""
    return () if generation.starts_with_prompt else (generation.begin_token,)


def end_tokens(generation: bundle_pb2.Generation) -> frozenset[int]:
    """Give the tokens that end a sequence."""
    return frozenset({generation.end_token, *generation.more_end_tokens})
