"""Opens the models of bundles: sessions over their graphs, and the code that runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from limelight_bundle.detokenizing import Detokenizer
from limelight_bundle.errors import BundleError
from limelight_bundle.maps import ProjectedSize, edge_dimensions
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import bound_tensors
from limelight_bundle.tokenizer_files import read_tokenizer
from limelight_bundle.v1 import bundle_pb2
from limelight_service.engine.decoding.continuous_batch import Generation
from limelight_service.engine.model import Model, Runner, no_labels
from limelight_service.engine.policy import Policy
from limelight_service.engine.runtime.chunks import Chunks, chunk_policy, chunk_shape
from limelight_service.engine.runtime.description_checks import check_stated
from limelight_service.engine.runtime.forward import Forward
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.runtime.sessions import Session, Stated, open_sessions
from limelight_service.engine.shapes import shape_of
from limelight_service.engine.watch import RunLimit
from limelight_service.ipc.boundary import GraphStatus
from limelight_service.observability.observer import Observer
from limelight_service.settings import Settings


def open_model(
    folder: BundleFolder, provider: Provider, settings: Settings, observer: Observer, *, saved: Path | None = None
) -> Model:
    """Load the graphs of a bundle that was read and checked.

    Args:
        saved: a folder with one of the graphs as the runtime has packed them, which is made where there is none.

    Raises:
        BundleError: the bundle does not fit together.
        ProviderError: the runtime does not give the provider.
    """
    bundle, policy = folder.bundle, policy_for(folder.bundle, provider, settings)
    overran = partial(observer.overran, bundle.description.name)
    limits = {graph.name: RunLimit(settings.max_run_seconds, overran) for graph in bundle.graphs}
    sessions = open_sessions(folder, provider, limits, saved and saved / "graphs")
    stated = {name: each.stated() for name, each in sessions.items()}
    check_stated(bundle, stated)
    description, runner = bundle.description, _runner(folder, sessions, observer, policy)
    model = Model(
        name=description.name,
        version=description.version,
        digest=folder.digest,
        provider=provider.name,
        description=description,
        graphs=tuple(GraphStatus(each.name, provider.name, each.nodes) for each in sessions.values()),
        noisy=bool(bundle.noise),
        edge_dimensions=edge_dimensions(bundle),
        probed=frozenset(each.map for each in bundle.maps if each.HasField("probe")),
        projected=_projected(bundle, stated),
        policy=policy,
        shape=shape_of(bound_tensors(description.inputs, bundle.tensors).values(), bundle.graphs[0].packed),
        runner=runner,
        wide=any(each.is_wide for each in sessions.values()),
        continuous_batch=runner.continuous_batch if isinstance(runner, Generation) else None,
        input_labels=runner.input_labels if isinstance(runner, Generation) else no_labels,
        limits=tuple(limits.values()),
        read_tokens=runner.lens.read if isinstance(runner, Generation) and runner.lens else None,
        shrink=partial(_shrink, tuple(sessions.values())),
    )
    chunks = replace(
        model,
        noisy=False,
        policy=chunk_policy(provider.workers),
        shape=chunk_shape,
        runner=Chunks(model.name, observer),
        wide=False,
        continuous_batch=None,
        input_labels=no_labels,
        limits=(),
        shrink=lambda: None,
    )
    return replace(model, chunks=chunks)


def policy_for(bundle: bundle_pb2.Bundle, provider: Provider, settings: Settings) -> Policy:
    """Choose how a model's rows are batched.

    On a CPU only rows of nearly one length share a batch: padding costs as much as real tokens, and a batch wins
    little. Generation is the exception, since every step is small: rows of any length share its steps. So is a graph
    that packs tokens: rows of different lengths share a batch up to where attention, which is padded, costs what the
    rest wins. On a GPU a batch costs hardly more than a row, and the session runs one batch at a time, so all rows
    that wait go together. A model of single rows has batches of one, except for the steps of a generation.
    """
    generates = bundle.HasField("generation")
    if provider.is_cuda:
        rows, tokens, padding = 64, 32_768, 0.5
    elif generates:
        rows, tokens, padding = 16, 4096, 0.5
    elif bundle.graphs[0].packed:
        rows, tokens, padding = 8, 384, 0.5
    else:
        rows, tokens, padding = 8, 2048, 0.05
    return Policy(
        max_rows=1 if bundle.single_rows and not generates else settings.max_batch_rows or rows,
        max_tokens=settings.max_batch_tokens or tokens,
        max_padding=padding,
        # Two continuous batches would share a device's one stream, each step of them half as large.
        concurrent=1 if generates and provider.staged else provider.concurrent,
        spread=1 if provider.staged else provider.concurrent,
        staged=provider.staged,
    )


def _projected(bundle: bundle_pb2.Bundle, stated: Mapping[str, Mapping[str, Stated]]) -> dict[str, ProjectedSize]:
    """Give the sizes of the projections of maps. Raises: BundleError where a graph does not state them."""
    found = {}
    for each in bundle.maps:
        if each.HasField("projections"):
            projections, graph = each.projections, stated[each.graph]
            shape = graph[projections.query_output].shape
            bias = graph[projections.bias_output].shape if projections.bias_output else (1,) * 4
            if len(shape) != 4 or len(bias) != 4:
                raise BundleError(f"the projections of the map {each.map} have no axes [batch, head, place, size]")
            _, heads, _, size = shape
            if not isinstance(heads, int) or not isinstance(size, int):
                raise BundleError(f"the graph {each.graph} does not state the size of {projections.query_output}")
            _, of_heads, of_queries, _ = bias
            bias_heads = 0 if of_queries == 1 else 1 if of_heads == 1 else heads
            found[each.map] = ProjectedSize(heads * size, projections.bias_output, bias_heads)
    return found


def _shrink(sessions: Sequence[Session]) -> None:
    for each in sessions:
        each.shrink()


def _runner(folder: BundleFolder, sessions: Mapping[str, Session], observer: Observer, policy: Policy) -> Runner:
    bundle = folder.bundle
    if not bundle.HasField("generation"):
        return Forward(bundle, sessions, observer)
    detokenizer = Detokenizer(read_tokenizer(folder.file(bundle.generation.tokenizer)))
    return Generation(bundle, sessions, detokenizer, observer, rows=policy.max_rows)
