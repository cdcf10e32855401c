"""A picture, a patch of it, a class: the selective grid of Gaussians over a picture's cells (C10)."""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.align import GaussianGrid
from limelight_models.attention.general import FeatureAttention
from limelight_models.attention.score import ScaledDot
from limelight_models.blocks.regions import Regions
from limelight_models.cards.inputs import ImageInput
from limelight_models.cards.labels import numbered
from limelight_models.cards.maps import map_of
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.taxonomy import SCALED, classifier, taxonomy
from limelight_models.catalogue.testbed.text import ATTENTION, Scale, Texts
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores

PICTURE = "picture"  # the task
SIDE, STRIDE = 24, 4  # pixels of a picture's side, and of a cell's
MAX_PIXELS = 16_777_216
IMAGE = ImageInput(rows=SIDE, columns=SIDE, mean=(0.5,), deviation=(0.5,))


class PatchModel(SmallModel):
    """One look at a picture, through the N × N points of a patch (Gregor et al. 2015, §3.2).

    q = W_q mean(F);  read = γ F_Y F F_Xᵀ, log γ = wᵀ q + b (eq. 21 and 27);  F the features of the picture's cells

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class],
        map `attention` [batch, 1, point, cell], points and cells row by row.
    """

    def __init__(self, texts: Texts, attention: Attention) -> None:
        super().__init__()
        d, points = texts.d, attention.align.rows
        self.regions = Regions(channels=(8, d), strides=(STRIDE,), rows=SIDE, columns=SIDE, d=d)
        self.ask = nn.Linear(d, d)
        self.intensity = nn.Linear(d, 1)
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        seen = numbered("points", "latents", "point", points)
        cells = IMAGE.cells(SIDE // STRIDE, SIDE // STRIDE)
        self.maps = {ATTENTION: map_of(attention, "pool", queries=seen, keys=cells, features=d)}
        self.classify = Scores(d_in=points * d, d_out=len(texts.labels), dropout=texts.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        cells = self.regions(tensors["pixels"])
        query = self.ask(cells.mean(1, keepdim=True))
        patch, weights = self.module(query, cells)
        read = self.intensity(query).exp() * patch
        return Answer({"logits": self.classify(read.flatten(1))}, {ATTENTION: weights})


def over_cells(s: Scale, columns: int) -> Attention:
    """A patch of points over cells that lie in so many columns."""
    return Attention(score=ScaledDot(), align=GaussianGrid(d_q=s.d, filters=s.filters, columns=columns))


def patch(*, align: str) -> ServedForm:
    """A patch of a picture."""

    def built(title: str, texts: Texts) -> Built:
        model = PatchModel(texts, over_cells(texts, SIDE // STRIDE)).eval()
        row, limits = taxonomy(score=SCALED, align=align), {"max_characters": 0, "max_pixels": MAX_PIXELS}
        return model, classifier("pictures", texts, [IMAGE], model.maps, title=title, taxonomy=row, **limits)

    return ServedForm(task=PICTURE, make=built)
