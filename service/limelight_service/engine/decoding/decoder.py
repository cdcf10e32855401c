"""The graphs of a model that generates: encoding, prefill, and the search of one row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limelight_bundle.detokenizing import Detokenizer
from limelight_bundle.errors import BundleError, InputError
from limelight_bundle.generation import end_tokens, leading_tokens
from limelight_bundle.interventions import BoundIntervention
from limelight_bundle.maps import MapWeights, Projected, bound_maps
from limelight_bundle.rows import Row, bound_tensors, cut_output
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.decoding.changes import StepChanges
from limelight_service.engine.decoding.detokenization import SequenceDetokenizer
from limelight_service.engine.decoding.kv_cache import cached_inputs, check_states
from limelight_service.engine.decoding.search import (
    BeamSearch,
    Ending,
    ForcedSearch,
    Search,
    SingleSearch,
    greedy,
    sampler,
)
from limelight_service.engine.decoding.trace import Tracer
from limelight_service.engine.jobs import Job
from limelight_service.engine.runtime.feeds import Feeds
from limelight_service.engine.runtime.finite import Finite
from limelight_service.engine.runtime.hidden import GraphHidden
from limelight_service.engine.runtime.intervened import Interventions
from limelight_service.engine.runtime.map_requests import GraphMapRequests, batch_requests
from limelight_service.engine.runtime.noise import Noise
from limelight_service.engine.runtime.sessions import Session
from limelight_service.engine.types import GenerationSettings, MapKey, Strategy

_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Prefilled:
    """A row that was encoded and prefilled.

    Attributes:
        outputs, maps: the encoder's and the prefill graph's part of its answer.
        projected: maps of that part of which the answer has the projections.
        sizes: of every axis that varies among the inputs of the step graph.
        entries: of its KV cache, so far.
        token: the input of its first step.
        problem: the first of the outputs and maps that is not finite; empty where all are.
        refused: the error of its interventions.
    """

    job: Job
    outputs: Mapping[str, Array]
    maps: Mapping[MapKey, MapWeights]
    projected: Mapping[MapKey, Projected]
    sizes: Mapping[str, int]
    entries: int
    token: int
    problem: str
    refused: InputError | None


class Decoder:
    """An encoder graph and a prefill graph, which run once a row, and a step graph for each token.

    Those for interventions are a decoder of their own.
    """

    def __init__(
        self,
        bundle: bundle_pb2.Bundle,
        sessions: Mapping[str, Session],
        detokenizer: Detokenizer,
        interventions: Iterable[BoundIntervention] = (),
    ) -> None:
        """Bind the graphs of a bundle.

        Args:
            interventions: that these graphs take.
        Raises:
            BundleError: the generation refers to inputs or outputs that the graphs lack.
        """
        self.generation = generation = bundle.generation
        self.single_rows = bundle.single_rows
        self.finite = Finite(bundle)
        graphs = {each.name: each for each in bundle.graphs}
        encoder, step = graphs.get(generation.encoder), graphs[generation.step]
        prefill = graphs.get(generation.prefill)
        check_states(generation, step, encoder, prefill)
        _check_generation(generation, step)
        driven = {generation.token_input, generation.positions_input, generation.lengths_input}
        driven |= {each.input for each in generation.states}
        encoded = frozenset(encoder.outputs) if encoder else frozenset[str]()
        tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
        if generation.prompt_tensor not in ("", *tensors):
            raise BundleError(f"generation takes {generation.prompt_tensor!r} for the prompt, which no input has")
        self._leading = leading_tokens(generation)
        self._constant = encoded & (set(step.inputs) - driven)
        self._encoder = sessions[encoder.name] if encoder else None
        self._prefill = sessions[prefill.name] if prefill else None
        self.step = sessions[step.name]
        roles = generation.encoder, generation.prefill, generation.step
        changes = [[each for each in interventions if each.graph == name] for name in roles]
        self._encoder_changes, self._prefill_changes, self.step_interventions = map(Interventions, changes)
        self.step_changes = StepChanges(changes[2], changes[1])
        self._encoder_feeds = Feeds(bundle, encoder) if encoder else None
        self._step_feeds = Feeds(bundle, step, besides=self._constant | driven)
        self._encoder_maps = bound_maps(bundle, encoder.name, tensors) if encoder else {}
        self._prompt_maps = bound_maps(bundle, prefill.name, tensors) if prefill else {}
        if any(any(each.joined) for each in (*self._encoder_maps.values(), *self._prompt_maps.values())):
            raise BundleError("instances of a generating model cannot be joined")
        self._encoder_outputs = [each for each in bundle.description.outputs if each.name in encoded]
        self._encoder_hidden = GraphHidden(bundle, generation.encoder)
        self._prompt_hidden = GraphHidden(bundle, generation.prefill)
        self._initial = {
            each.input: each.encoder_output
            for each in generation.states
            if each.WhichOneof("initial") == "encoder_output"
        }
        outputs = (each.name for each in self._encoder_outputs)
        self._encoded = tuple(dict.fromkeys([*self._constant, *self._initial.values(), *outputs]))
        stated = self.step.stated()
        self.cached = cached_inputs(
            generation, {name: stated[name].shape for name in step.inputs}, tensors, self._constant, driven
        )
        self.noise = Noise.of_graph(bundle, step)
        self.tracer = Tracer(bundle, step, tensors, encoded=encoded)
        self.carried = (generation.scores_output, *(each.output for each in generation.states))
        self.detokenizer = SequenceDetokenizer(bundle, detokenizer)
        self.graph = "+".join(each.name for each in (self._encoder, self._prefill, self.step) if each)

    def group(self, row: Row) -> tuple[object, object]:
        """Give the key that rows of a continuous batch share: their optional tensors."""
        return (self._encoder_feeds.group(row) if self._encoder_feeds else None, self._step_feeds.group(row))

    def samples(self, row: Row, settings: GenerationSettings) -> bool:
        """Tell whether tokens are drawn at random: a forced target leaves nothing to draw."""
        return settings.draws and (settings.continue_target or self.generation.target_tensor not in row.tensors)

    def prefill(self, jobs: Sequence[Job], *, wide: bool = False) -> tuple[dict[str, Array], list[Prefilled]]:
        """Run the encoder and the prefill graph for rows of one group, all at once.

        Returns:
            The inputs of the step graph that come of it, [row, …] each, and the rows.
        """
        requests = batch_requests(jobs, {**self._encoder_maps, **self._prompt_maps})
        encoder, prefill = self._encoder, self._prefill
        of_source = requests.of_graph(self._encoder_maps, jobs if encoder and encoder.cuts else ())
        of_prompts = requests.of_graph(self._prompt_maps, jobs if prefill and prefill.cuts else ())
        encoded: dict[str, Array] = {}  # outputs by name, of the encoder and of the prefill graph
        if encoder is not None and self._encoder_feeds is not None:
            changes = self._encoder_changes.feeds([job.row for job in jobs])
            checked = self._encoder_changes.checked(changes)
            hidden = self._encoder_hidden.wanted(jobs)
            fetched = tuple(
                dict.fromkeys([*self._encoded, *of_source.outputs, *checked, *(each.name for each in hidden)])
            )
            feeds = self._encoder_feeds.batch(jobs) | of_source.feeds() | changes | self._encoder_hidden.feeds(hidden)
            values = encoder.run(fetched, feeds, wide=wide, cuts=of_source.cuts)
            encoded = dict(zip(fetched, values, strict=True))
        arrays = self._step_feeds.tensors(jobs) | {name: encoded[name] for name in self._constant}
        arrays |= {name: encoded[output] for name, output in self._initial.items()}
        read = self._read_prompts(prefill, jobs, of_prompts, wide=wide) if prefill else {}
        arrays |= {each.input: read.pop(each.output) for each in self.generation.states if each.output in read}
        encoded |= read
        sizes = self._observed(arrays)
        weights = [each.weights(encoded, jobs) for each in (of_source, of_prompts)]
        projections = [each.projections(encoded, jobs) for each in (of_source, of_prompts)]
        return arrays, [
            self._prefilled(
                job,
                place,
                encoded,
                sizes,
                weights[0][place] | weights[1][place],
                projections[0][place] | projections[1][place],
            )
            for place, job in enumerate(jobs)
        ]

    def search(self, job: Job) -> Search:
        """Make the search that a row's query asks for; a target comes before a strategy, which may go on behind it."""
        settings, before = job.call.query.generation, self.generation.steps_before_target
        target = job.row.tensors.get(self.generation.target_tensor)
        if target is not None and not settings.continue_target:
            return ForcedSearch((*target.tolist(), *([self.generation.end_token] if before else ())), before)
        continued = self.continued(job)
        forced = before + len(continued) if continued else 0
        most = self.generation.max_new_tokens
        limit = min(forced + (settings.max_new_tokens or most), most)
        ending = Ending(end_tokens(self.generation), limit, self.detokenizer.stopped(settings.stop, continued))
        found: Search
        if settings.strategy is Strategy.BEAM:
            found = BeamSearch(settings, ending)
        elif settings.draws:
            assert job.seed is not None
            found = SingleSearch(sampler(settings, job.seed), ending)
        else:
            found = SingleSearch(greedy, ending)
        return ForcedSearch(continued, before, found) if continued else found

    def continued(self, job: Job) -> tuple[int, ...]:
        """Give the tokens of the target that a row goes on behind, without its end token; none where it does not."""
        if not job.call.query.generation.continue_target:
            return ()
        target = job.row.tensors.get(self.generation.target_tensor, _NOTHING).tolist()
        ends = end_tokens(self.generation)
        while target and target[-1] in ends:
            target.pop()
        return tuple(target)

    def _read_prompts(
        self, prefill: Session, jobs: Sequence[Job], asked: GraphMapRequests, *, wide: bool
    ) -> dict[str, Array]:
        """Run the prefill graph, and give its outputs by name: new entries of the states, and maps that are requested.

        The last token of a prompt is the input of the first step, and is read here only for maps and hidden states.
        Shorter prompts are padded; padding comes after the queries that look back.
        """
        generation, maps, hidden = self.generation, tuple(asked.outputs), self._prompt_hidden.wanted(jobs)
        is_whole = maps or hidden
        prompts = [[*self._leading, *self._prompt(job).tolist()][: None if is_whole else -1] for job in jobs]
        longest = max(map(len, prompts))
        if not longest:
            return {}
        tokens = np.full((len(jobs), longest), generation.begin_token, np.int64)
        for row, prompt in zip(tokens, prompts, strict=True):
            row[: len(prompt)] = prompt
        positions = np.broadcast_to(np.arange(longest), tokens.shape)
        given = {generation.token_input: tokens, generation.positions_input: positions}
        changes = self._prefill_changes.feeds([job.row for job in jobs])
        checked = self._prefill_changes.checked(changes)
        outputs = [*(each.output for each in generation.states), *dict.fromkeys(maps), *checked]
        outputs += [each.name for each in hidden]
        feeds = {name: given[name] for name in prefill.inputs} | asked.feeds() | changes
        feeds |= self._prompt_hidden.feeds(hidden)
        return dict(zip(outputs, prefill.run(outputs, feeds, wide=wide, cuts=asked.cuts), strict=True))

    def _prompt(self, job: Job) -> Array:
        """Give a row's prompt, INT64 [token]; empty where the model has none."""
        return job.row.tensors.get(self.generation.prompt_tensor, _NOTHING)

    def _prefilled(
        self,
        job: Job,
        place: int,
        encoded: Mapping[str, Array],
        sizes: Mapping[str, int],
        maps: Mapping[MapKey, MapWeights],
        projected: Mapping[MapKey, Projected],
    ) -> Prefilled:
        hidden = (*self._encoder_hidden.wanted([job]), *self._prompt_hidden.wanted([job]))
        outputs = {
            each.name: cut_output(encoded[each.name][place], each.dimensions, job.row.sizes).copy()
            for each in (*self._encoder_outputs, *hidden)
        }
        own = {name: job.row.sizes.get(name, size) for name, size in sizes.items()}
        prompt = self._prompt(job)
        token = int(prompt[-1]) if len(prompt) else self.generation.begin_token
        entries = len(self._leading) + len(prompt) - 1
        problem = self.finite.problem(outputs, maps)
        refusals = (each.problem(encoded, place, job) for each in (self._encoder_changes, self._prefill_changes))
        refused = next(filter(None, refusals), None)
        return Prefilled(job, outputs, maps, projected, own, entries, token, problem, refused)

    def _observed(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Give the sizes of axes in a batch, for axes that no description names."""
        sizes: dict[str, int] = {}
        for each in self.cached:
            shape = list(arrays[each.name].shape) if each.name in arrays else [0] * (1 + len(each.axes))
            del shape[each.slot_axis]
            for axis, size in zip(each.axes, shape, strict=True):
                if isinstance(axis, str):
                    sizes[axis] = max(size, sizes.get(axis, 0))
        return sizes


def _check_generation(generation: bundle_pb2.Generation, step: bundle_pb2.OnnxGraph) -> None:
    if generation.token_input not in step.inputs or generation.scores_output not in step.outputs:
        raise BundleError(f"the graph {step.name} lacks the token input or the scores output that generation states")
    if generation.max_new_tokens < 1:
        raise BundleError("generation has no max_new_tokens")
