"""Agreement-based joint training: what the two directions learn from, against the transcription in NumPy."""

import numpy as np
import pytest
import torch

from limelight_models.zoo.rnn_search.agreement import Agreement, disagreement
from tests.kit import small
from tests.oracles.cases import array
from tests.oracles.zoo import softmax
from tests.oracles.zoo.agreement import translated


def test_disagreement_by_hand() -> None:
    """Weights that point at each other cost nothing more than their number's logarithm; masked tokens do not count."""
    onward = torch.tensor([[[[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]]]])
    back = torch.tensor([[[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]]])
    every, two = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[True, True, False]])
    wanted = 1 * 0.5 + 0.25 * 0.25 + 0.75 * 1
    assert float(disagreement(onward, back, every, two)) == pytest.approx(-np.log(wanted))
    first = torch.tensor([[True, False]])
    assert float(disagreement(onward, back, first, two)) == pytest.approx(-np.log(0.5 + 0.0625))
    nothing = disagreement(onward.requires_grad_(), back, first, torch.zeros(1, 3, dtype=torch.bool))
    nothing.sum().backward()
    assert torch.isfinite(nothing).all() and onward.grad is not None and not onward.grad.any()


@pytest.mark.parametrize("name", ["agreement", "agreement-apart"])
def test_the_directions_pay_for_what_the_other_does_not_see(name: str) -> None:
    """Sources and targets of different lengths in one batch, as if each pair were alone."""
    network, end = small.make(name), small.config(name).end
    assert isinstance(network, Agreement) and network.price == (name == "agreement")
    sources, outputs = [small.text(length, length) for length in (5, 3)], [small.text(2, 7), small.text(4, 8)]
    outputs = [torch.where(each == end, end + 1, each) for each in outputs]
    targets = [torch.cat([each, torch.tensor([end])]) for each in outputs]
    ids, put_out = small.stack(sources), small.stack(targets)
    lengths = torch.tensor([len(each) for each in targets])
    tensors = {"source_ids": ids, "source_mask": ids != 0, "target_ids": put_out}
    tensors["target_mask"] = torch.arange(put_out.shape[1]) < lengths[:, None]
    assert not network(**tensors).signals, "what is served has one direction"
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.eval()
    answer = network(**tensors)
    total = 0.0
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        read, written = array(source), array(target)
        _, onward = translated(network, read, [network.config.begin, *written[:-1].tolist()])
        scores, back = translated(network.other, written, [0, *read[:-1].tolist()])
        loss = -sum(np.log(softmax(each)[token]) for each, token in zip(scores, read, strict=True))
        apart = -np.log((onward * back.T)[:-1].sum())
        assert float(answer.signals["other"][row]) == pytest.approx(loss)
        assert float(answer.signals["disagreement"][row]) == pytest.approx(apart)
        total += loss + network.price * apart
    losses = torch.tensor([0.5, 2.0])
    assert float(network.objective(losses, answer, put_out)) == pytest.approx(2.5 + total)
