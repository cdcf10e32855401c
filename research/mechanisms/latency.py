"""ONNX Runtime's time for one instance of each mechanism, on the exported graph of its small task model with its maps.

Graphs have the weights of a fresh model: time does not follow from them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnxruntime
import torch

from limelight_export.execution.pytorch_runner import copy_for_export
from limelight_export.execution.random_inputs import RandomInputs, collate_rows
from limelight_export.exported_graph import ExportedGraph
from limelight_export.interface import BATCH
from limelight_export.tracing.build import build_graphs
from limelight_models.cards.card import Card
from limelight_models.catalogue.parts import combine
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.form import Built
from limelight_models.catalogue.testbed.text import Texts
from limelight_models.data import tokenizers
from research.mechanisms.line import Line, latency_key
from research.mechanisms.lines import lines
from research.mechanisms.results import Results

SIZES = {
    "sentence": {"token": 64},
    "pair": {"first": 14, "second": 8},
    "aspect": {"left": 12, "target": 2, "right": 12},
}
WORDS = [" ".join(f"word{number}" for number in range(1000))]
RUNS, WARM = 200, 20


def time_graphs(results: Results) -> Iterator[tuple[str, float]]:
    """File a time for every mechanism of the study that has none; give what was filed."""
    waiting = {latency_key(each): each for each in lines() if each.latency}
    for key in (each for each in waiting if not results.known("latency", each)):
        torch.manual_seed(0)
        model, card = build(waiting[key])
        (graph,) = build_graphs(copy_for_export(model), card)
        found = latency(graph, card, SIZES[kind_of(waiting[key].latency)])
        results.add("latency", key, 0, ms=round(found, 4), onnxruntime=onnxruntime.__version__)
        yield key, found


def kind_of(latency: Sequence[str]) -> str:
    """Sentence, pair or aspect."""
    if len(latency) == 2:
        return "sentence"
    return next(each.served.task for each in MECHANISMS if each.name == latency[0] and each.served)


def build(line: Line) -> Built:
    """The mechanism in its small task model, over words that are made up."""
    texts = Texts(tokenizer=tokenizers.words(WORDS, vocabulary=1000), labels=("one", "two", "three"))
    if len(line.latency) == 2:
        return combine(*line.latency, texts)
    return next(each for each in MECHANISMS if each.name == line.latency[0] and each.served).serve(texts)


def latency(graph: ExportedGraph, card: Card, sizes: Mapping[str, int]) -> float:
    """Median milliseconds for one instance of these sizes, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    tensors = collate_rows(card, RandomInputs(card).rows({BATCH: 1, **sizes}))
    feeds = {port.name: tensors[port.name] for port in graph.inputs}
    times = []
    for _ in range(WARM + RUNS):
        began = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - began)
    return float(np.median(times[WARM:])) * 1000
