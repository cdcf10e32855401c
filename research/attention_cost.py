"""Time and memory of every mechanism at 128, 512 and 2,048 keys, forward only, on one thread.

    python -m research.attention_cost            # measures, then writes the table of docs/attention-cost.md
    python -m research.attention_cost --table    # only writes the table

One query (a decoder's step, a pooled text) and, where that many queries make sense, as many queries as keys. Memory is
the peak of what tensors took beyond their inputs, as PyTorch's allocator reports it: it does not depend on the machine.
Time is processor time, the best of a few runs. What would take more than LIMIT bytes is not run, and says so.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.records import read, write
from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import Additive, ScaledDot
from limelight_models.catalogue.parts import attention
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.taxonomy import SCALED, SOFT
from limelight_models.catalogue.testbed.text import Texts
from research.replication.tables import with_tables, written

RESULTS = Path(__file__).parent / "records" / "attention_cost.json.xz"
PAGE = Path(__file__).parents[1] / "docs" / "attention-cost.md"
KEYS = (128, 512, 2048)
SIZE = 32
LIMIT = 2 * 2**30


class Unseen(nn.Module):
    """Attention for somebody who does not ask for weights."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, *inputs: Any) -> Tensor:
        return self.attention.context_vectors(*inputs)


COLUMNS = {"score": "score", "align": "alignment"}


def mechanisms(texts: Texts) -> dict[str, nn.Module]:
    """Scores with softmax, alignments with scaled dot products, and what is there to save memory."""
    d = texts.d
    made: dict[str, nn.Module] = {}
    for each in MECHANISMS:
        if each.column in COLUMNS and each.served and each.served.attention:
            made[f"{COLUMNS[each.column]}: {each.name}"] = each.served.attention(texts)
    made["score: positive random features"] = attention("positive random features", SOFT, texts)
    for name in ("hard, straight-through", "tanh"):
        made[f"alignment: {name}"] = attention(SCALED, name, texts)
    made["multi-head (4 × scaled)"] = MultiHead(attention=Attention(score=ScaledDot()), d_model=d, heads=4)
    made["scaled, weights not asked for"] = Unseen(Attention(score=ScaledDot()))
    made["random features, weights not asked for"] = Unseen(attention("random features", "kernel ratio", texts))
    made["additive, 64 queries at a time"] = Attention(score=Additive(d_q=d, d_k=d, d_w=d, chunk=64))
    return made


def inputs(queries: int, keys: int, *, heads: bool) -> tuple[Tensor, Tensor, None, Tensor, Context]:
    """Random query and key, a mask that allows everything, and all that a context may hold."""
    generator = torch.Generator().manual_seed(0)
    head = () if heads else (1,)
    query, key = (torch.randn(1, *head, n, SIZE, generator=generator) for n in (queries, keys))
    pairs = torch.rand(1, 1, queries, keys, generator=generator)
    context = Context(
        previous_weights=pairs / pairs.sum(-1, keepdim=True),
        coverage=pairs,
        upper_bounds=pairs,
        distances=(torch.arange(queries)[:, None] - torch.arange(keys)).abs()[None, None].float(),
    )
    return query, key, None, torch.ones(1, 1, 1, keys, dtype=torch.bool), context


def cost(module: nn.Module, queries: int, keys: int) -> dict[str, float]:
    """Milliseconds and peak bytes of one forward pass."""
    arguments = inputs(queries, keys, heads=isinstance(module, MultiHead))
    with torch.no_grad():
        times = []
        while len(times) < 2 or (sum(times) < 0.2 and len(times) < 20):
            began = time.process_time()
            module(*arguments)
            times.append(time.process_time() - began)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            module(*arguments)
    return {"ms": round(min(times) * 1000, 3), "bytes": peak(profiler)}


def peak(profiler: profile) -> int:
    """The most bytes that were allocated at once."""
    held = most = 0
    for event in profiler.profiler.kineto_results.events():  # in order of time
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def measure(texts: Texts) -> dict[str, Any]:
    """Every mechanism at every size, smallest first, so that what would not fit is foreseen."""
    results: dict[str, Any] = {"torch": torch.__version__, "d": SIZE, "limit_bytes": LIMIT, "rows": []}
    for name, module in mechanisms(texts).items():
        for many in (False, True):
            found: list[dict[str, float]] = []
            for keys in KEYS:
                row: dict[str, Any] = {"name": name, "queries": keys if many else 1, "keys": keys}
                if expected(found) > LIMIT:
                    row["left_out_bytes"] = int(expected(found))
                else:
                    found.append(cost(module.eval(), row["queries"], keys))
                    row |= found[-1]
                results["rows"].append(row)
            print(name, "square" if many else "one query", [each["ms"] for each in found], flush=True)
    return results


def expected(found: list[dict[str, float]]) -> float:
    """Bytes at the next size, if memory goes on growing as between the last two; 0 before there are two."""
    if len(found) < 2:
        return 0
    return found[-1]["bytes"] ** 2 / max(found[-2]["bytes"], 1)


def table(results: dict[str, Any]) -> list[str]:
    """Write the table, sorted as the catalogue is."""
    rows: dict[str, dict[tuple[bool, int], dict[str, Any]]] = {}
    for row in results["rows"]:
        rows.setdefault(row["name"], {})[row["queries"] > 1, row["keys"]] = row
    heads = ("mechanism", *(f"{n:,}" for n in KEYS), *(f"{n:,}²" for n in KEYS))
    columns = [(many, keys) for many in (False, True) for keys in KEYS]
    return written(heads, ([name, *(cell(cells[column]) for column in columns)] for name, cells in rows.items()))


def cell(row: dict[str, Any]) -> str:
    """One cell: milliseconds and megabytes, or why not."""
    if "ms" not in row:
        return f"({row['left_out_bytes'] / 2**30:.0f} GB)"
    return f"{short(row['ms'])} ms, {short(row['bytes'] / 2**20)} MB"


def short(value: float) -> str:
    """Three digits that count, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="only write the table from the results")
    torch.set_num_threads(1)
    if not parser.parse_args().table:
        texts = Texts(tokenizer="", labels=(), d=SIZE, max_tokens=max(KEYS))
        write(RESULTS, measure(texts))
    found = with_tables(PAGE.read_text(encoding="utf-8"), {"cost": table(read(RESULTS))})
    PAGE.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
