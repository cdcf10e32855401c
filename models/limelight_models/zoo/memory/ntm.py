"""Neural Turing machine, K5 (Graves, Wayne & Danihelka 2014): a controller that reads and writes a memory.

Figure 1 of the paper: the controller takes what is put in and what was read last; its heads write into the memory and
read from it, at slots that they find by what stands there or by where they were. As in the copy task (§4.1), a text is
put in token by token, then a token that begins, then nothing, while tokens are put out, of which the last one ends it.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from limelight_models.blocks.memory import Memory, Slots
from limelight_models.cards.language import Attends, Map, carried_states, maps_of, numbered
from limelight_models.data import transductions
from limelight_models.in_turn import Tensors, in_turn
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import Seq2SeqConfig, rewriting


class NtmConfig(Seq2SeqConfig):
    """Sizes. heads: that read, and as many that write; with none the controller is alone, an LSTM. located: whether
    heads move from where they were, and find slots not by what stands there alone.
    """

    d: int = 100
    slots: int = 128
    width: int = 20
    heads: int = 1
    located: bool = True


class Ntm(GeneratingNetwork):
    """Text -> text, with the weights of the heads over the slots while the one is read and the other is put out.

    h_t = LSTM([x_t; r_{t-1}], h_{t-1});  M_t, r_t = Memory(h_t, M_{t-1});  p(y_t) = softmax(W [h_t; r_t] + b)
    x_t is a token of the text, then 0, with a token that begins in between

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], maps `encoder.read` and `encoder.write` [batch, head,
        source, slot], `decoder.read` and `decoder.write` [batch, head, output, slot].
    """

    def __init__(self, config: NtmConfig) -> None:
        super().__init__()
        self.config, d, found = config, config.d, config.heads * config.width
        self.tokens = nn.Embedding(config.source_vocabulary, d, padding_idx=0)
        nn.init.normal_(self.tokens.weight, std=d**-0.5)
        self.delimiter = nn.Parameter(torch.randn(d) * d**-0.5)
        self.controller = nn.LSTMCell(d + found, d)
        sizes = {"d": d, "slots": config.slots, "width": config.width, "heads": config.heads}
        self.memory = Memory(located=config.located, **sizes) if config.heads else None
        self.scores = nn.Linear(d + found, config.target_vocabulary)

    @property
    def states(self) -> tuple[str, ...]:
        """What a step leaves for the next."""
        return ("state", "cell", *(() if self.memory is None else Slots._fields))

    def advance(self, put_in: Tensor, states: Tensors) -> Tensors:
        """A step of the machine. Shapes: put_in [batch, d], and what `states` names -> the latter."""
        (state, cell), slots = states[:2], states[2:]
        if self.memory is None:
            return self.controller(put_in, (state, cell))
        known = Slots(*slots)
        state, cell = self.controller(torch.cat([put_in, known.found], -1), (state, cell))
        return (state, cell, *self.memory(state, known))

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """What is left when the text has been read, as `initial_…`, and the maps of it."""
        ids, mask = tensors["source_ids"], tensors["source_mask"]
        embedded = self.tokens(ids)
        nothing = torch.zeros_like(embedded[:, 0])
        start = (nothing, nothing.clone(), *(() if self.memory is None else self.memory.begin(ids)))

        def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
            after = self.advance(now, left)
            return after, after

        every = dict(zip(self.states, in_turn(step, start, embedded), strict=True))
        last, rows = (mask.sum(1) - 1).clamp(min=0), torch.arange(ids.shape[0], device=ids.device)
        shown = {f"encoder.{each}": every[each].movedim(0, 2) * mask[:, None, :, None] for each in self.shown}
        return {**{f"initial_{name}": each[last, rows] for name, each in every.items()}, **shown}

    @property
    def shown(self) -> tuple[str, ...]:
        """The states that are maps."""
        return () if self.memory is None else ("read", "write")

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Scores of the next token; of the one before, only whether it begins is read."""
        begins = (token == self.config.begin).to(self.delimiter.dtype).unsqueeze(-1)
        after = self.advance(begins * self.delimiter, tuple(tensors[name] for name in self.states))
        found = dict(zip(self.states, after, strict=True))
        known = after[0] if self.memory is None else torch.cat([after[0], found["found"]], -1)
        maps = {f"decoder.{each}": found[each] for each in self.shown}
        return StepAnswer(self.scores(known), {f"next_{name}": each for name, each in found.items()}, maps)

    def forward(self, **tensors: Tensor) -> Answer:
        read, target = self.encode(**tensors), tensors["target_ids"]
        states = {name: read[f"initial_{name}"] for name in self.states}
        put_in = torch.cat([torch.full_like(target[:, :1], self.config.begin), target[:, :-1]], 1)
        steps = []
        for token in put_in.unbind(1):
            steps.append(self.step(token, **states))
            states = {name: steps[-1].states[f"next_{name}"] for name in self.states}
        maps = {f"encoder.{each}": read[f"encoder.{each}"] for each in self.shown}
        maps |= {name: torch.stack([one.maps[name] for one in steps], 2) for name in steps[0].maps}
        return Answer({"scores": torch.stack([each.scores for each in steps], 1)}, maps)


def card(network: Ntm, blueprint: Blueprint[NtmConfig]) -> Card:
    """Describe the model."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    written = config.written(blueprint.files, states=carried_states(*network.states))
    slots = numbered("slots", "slots", "slot", config.slots)
    maps: dict[str, Map] = {}
    queries = {"encoder": (text.tokens("source"), "with each token"), "decoder": (written.steps, "before each output")}
    for name, (steps, when) in queries.items() if network.memory else ():
        shown = {
            f"{name}.read": Attends(steps, slots, f"Slots that are read {when}.", "memory"),
            f"{name}.write": Attends(steps, slots, f"Slots that are written {when}.", "memory"),
        }
        maps |= maps_of(network.get_submodule("memory"), shown)
    return blueprint.card(
        network,
        title="Neural Turing machine" if maps else "LSTM, token by token",
        summary="Rewrites a text by writing it into a memory and reading it back.",
        inputs=[text, target],
        results=[written],
        maps=maps,
        taxonomy="scoring: similarity, basic",
        citation="Graves, Wayne, Danihelka (2014): Neural Turing Machines. arXiv",
    )


PRESETS = {
    "tiny": tiny(d=8, slots=6, width=5, heads=2),
    "demo": preset(6, 64, 1e-2, weight_decay=0.0, slots=24, width=16, d=64),
    "full": preset(20, 32, 2e-3, weight_decay=0.0),
    # Table 2: copying with an LSTM as the controller; Adam in the place of RMSProp.
    "paper": preset(50, 16, 1e-4, weight_decay=0.0, patience=10),
}

NTM = rewriting(NtmConfig, Ntm, card, PRESETS, builtin=partial(transductions.dataset, "copy", lengths=(1, 8)))
# What the paper compares it with, the controller alone; and heads that find slots by what stands there alone.
NTM_LSTM, NTM_CONTENT = NTM.changed(heads=0), NTM.changed(located=False)
