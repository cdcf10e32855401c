"""ONNX Runtime's time for one typical instance of each configuration, on the exported graph with its maps.

Graphs have the weights of a fresh model: time does not follow from them.
"""

import time
from collections.abc import Mapping

import numpy as np
import onnxruntime
import torch

from benchmarks.mechanism_study.configurations import Configuration
from benchmarks.mechanism_study.data import load
from export.cases import Cases, batch
from export.graph import Graph
from export.interface import BATCH
from export.together import graphs_together
from models.cards.card import Card
from models.testbed.form import Built

TYPICAL = {  # near the median lengths of the held-out parts
    "sentence": {"token": 20},
    "pair": {"first": 14, "second": 8},
    "aspect": {"left": 12, "target": 2, "right": 12},
    "document": {"sentence": 20, "word": 24},
}
RUNS, WARM = 200, 20


def latencies(configurations: list[Configuration]) -> dict[str, float]:
    """Median milliseconds of one run, by key, for configurations of one task."""
    built: dict[str, Built] = {}
    for each in configurations:
        torch.manual_seed(0)
        built[each.key] = each.make(load(each.task).texts)
    graphs: Mapping[str, Graph] = graphs_together(built)
    return {each.key: latency(graphs[each.key], built[each.key][1], TYPICAL[each.task]) for each in configurations}


def latency(graph: Graph, card: Card, sizes: Mapping[str, int]) -> float:
    """Median milliseconds for one instance of these sizes, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    tensors = batch(card, Cases(card).rows({BATCH: 1, **sizes}))
    feeds = {port.name: tensors[port.name] for port in graph.inputs}
    times = []
    for _ in range(WARM + RUNS):
        began = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - began)
    return float(np.median(times[WARM:])) * 1000
