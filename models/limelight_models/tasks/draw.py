"""Pictures drawn from noise, by a network that learns from another which pictures are real."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from limelight_bundle.values import Array, Image
from limelight_models.cards.by_example import mean
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.data.images import read
from limelight_models.network import Answer, DrawingNetwork, Network
from limelight_models.tasks.frechet import Classifier, frechet
from limelight_models.tasks.task import CPU, Also, Batch, HeldOut, Task, nothing

_REAL_TRAINING = 2_000  # pictures that the classifier learns from, at most


@dataclass(frozen=True)
class Draw(Task):
    """The hinge loss of adversarial networks (Lim & Ye 2017; Zhang et al. 2019, eq. 4), both sides at once.

    L_D = relu(1 - D(x, y)) + relu(1 + D(G(z, y), y));  L_G = -D(G(z, y), y)

    The critic's parameters get gradients of L_D alone, the generator's of L_G alone. On the dev part, where neither
    says how good pictures are, the energy distance of drawn pictures to real ones (Székely & Rizzo 2013) is the loss.
    Targets: pictures float32 [batch, row × column], from -1 to 1. The output `output` is of the same shape.
    """

    output: str = "values"

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        return lambda example: pixels(example)

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        """The energy distance, for each picture: 2 E|x - x̂| - E|x - x'| - E|x̂ - x̂'|."""
        drawn, real = answer.outputs[self.output], batch.target
        count = len(real)
        if count < 2:
            return real.new_zeros(count), real
        own = [torch.cdist(each, each).sum() / (count * (count - 1)) for each in (real, drawn)]
        return (2 * torch.cdist(real, drawn).mean() - own[0] - own[1]).expand(count), real

    def loss(self, network: Network, batch: Batch, also: Also = nothing) -> tuple[Tensor, int]:
        """Raises: TypeError where the network has no critic."""
        if not isinstance(network, DrawingNetwork):
            raise TypeError(f"{type(network).__name__} has no critic")
        if not network.training:
            return super().loss(network, with_noise(network.noise, batch), also)
        answer = network(**batch.tensors)
        drawn = answer.outputs[self.output]
        real_score = network.critic(batch.target, **batch.tensors)
        drawn_score = network.critic(drawn.detach(), **batch.tensors)
        fixed = {name: parameter.detach() for name, parameter in network.critic.named_parameters()}
        fooled = functional_call(network.critic, fixed, (drawn,), batch.tensors)
        hinge = torch.relu(1 - real_score) + torch.relu(1 + drawn_score)
        return (hinge - fooled).sum() + also(answer, batch), len(real_score)

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """The Fréchet distance of drawn to held-out pictures, in the features of a classifier that learns here, from
        the training part and always in the same way; and how many it takes for the class that was asked for.
        """
        (noise,) = (each.tensor.name for each in card.noise)
        some = training[:_REAL_TRAINING]
        labels = sorted({example.label for example in training})
        known = torch.stack([torch.from_numpy(pixels(example)) for example in some])
        classes = torch.tensor([labels.index(example.label) for example in some])
        classifier = Classifier.taught(known, classes, len(labels), size_of(some[0]))
        real, drawn, asked, indices = [], [], [], list[int]()
        with torch.no_grad():
            for batch in held_out.in_order():
                real.append(batch.target.to(CPU))
                drawn.append(network(**with_noise(noise, batch).tensors).outputs[self.output].to(CPU))
                indices += batch.indices
                asked += [labels.index(held_out.examples[index].label) for index in batch.indices]
            features = [classifier.features(torch.cat(each)) for each in (real, drawn)]
            taken = (classifier(torch.cat(drawn)).argmax(-1) == torch.tensor(asked)).tolist()
            beside = frechet(features[0], classifier.features(known))
        return [
            Metric.over(
                mean(dict(zip(indices, taken, strict=True))),
                name="drawn as asked",
                baseline=1 / len(labels),
                baseline_name="chance",
            ),
            Metric(
                name="Fréchet distance",
                value=frechet(features[0], features[1]),
                baseline=beside,
                baseline_name="pictures of the training part",
            ),
        ]


def pixels(example: Example) -> Array:
    """The picture to draw, float32 [row × column] from -1 to 1."""
    assert isinstance(example.picture, Image)
    flat: Array = (read(example.picture).astype("float32") / 127.5 - 1).ravel()
    return flat


def size_of(example: Example) -> tuple[int, int]:
    """Rows and columns of what is to be drawn."""
    assert isinstance(example.picture, Image)
    rows, columns = read(example.picture).shape
    return rows, columns


def with_noise(noise: str, batch: Batch) -> Batch:
    """A batch that is judged, with noise: the same for the same examples, whatever was drawn before."""
    generator = torch.Generator().manual_seed(batch.indices[0])
    drawn = torch.randn(batch.tensors[noise].shape, generator=generator)
    return Batch({**batch.tensors, noise: drawn.to(batch.target.device)}, batch.indices, batch.target)
