"""How the rows of a model are batched."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Batching policy of a model.

    Attributes:
        max_rows, max_tokens: of a batch as it is laid out, padding included; a row larger than max_tokens runs alone.
        max_padding: the largest share of these places that may be padding (0: only equal shapes share a batch).
        concurrent: batches of the model that may run at the same time.
        spread: workers that share the model's rows: a batch takes at most its part of the rows that wait and run, so
            that the others get theirs. One that took all rows beside a single one would leave single rows to the others
            ever after (8 callers of 6 layers x 384, 32 tokens: 6 % fewer answers a second).
        staged: of its batches, one computes; the next is put together meanwhile.
        window: how many of the oldest rows a batch is chosen from.
    """

    max_rows: int
    max_tokens: int
    max_padding: float
    concurrent: int
    spread: int
    staged: bool = False
    window: int = 128
