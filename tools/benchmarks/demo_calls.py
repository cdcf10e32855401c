"""Realistic calls to the demo models: a page of code, pictures of a camera, dates and numbers."""

import io
import random
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.records import ROOT
from limelight.v1 import service_pb2, values_pb2
from limelight_models.data.numerals import LANGUAGES

DEMO = ROOT / "deploy" / "demo"
_SERVICE = "/limelight.v1.AttentionService/"
PREDICT, ATTEND, GENERATE, LIST = (_SERVICE + name for name in ("Predict", "Attend", "Generate", "ListModels"))
_WORDS = """
self thread lock queue task loop event socket server client request window canvas colour line turtle shape file name
module object value string number found function result error time system process args index left right
""".split()
_LINES = (
    "    {} = {}.{}({}, {})",
    "    if {} > {}.{} or {} is {}:",
    "        return {}[{}].{}({} + {})",
    "    for {} in {}.{}({}[{}]):",
    "        {}[{}].{}({} == {})",
)
_MONTHS = "January February March April May June July August September October November December".split()


def code(words: int, seed: int) -> str:
    """A function with about so many names, five on a line, the same for the same seed."""
    chance = random.Random(seed)
    lines = [chance.choice(_LINES).format(*chance.choices(_WORDS, k=5)) for _ in range(words // 5)]
    return "\n".join(["def {}({}, {}):".format(*chance.choices(_WORDS, k=3)), *lines, ""])


def picture(side: int, seed: int) -> bytes:
    """A square JPEG of soft shapes and some noise, as a camera makes it."""
    random_ = np.random.default_rng(seed)
    coarse = Image.fromarray(random_.integers(0, 255, (8, 8), dtype=np.uint8)).resize(
        (side, side), Image.Resampling.BICUBIC
    )
    noisy = np.clip(np.asarray(coarse, dtype=np.int16) + random_.integers(-8, 8, (side, side)), 0, 255)
    content = io.BytesIO()
    Image.fromarray(noisy.astype(np.uint8)).save(content, "JPEG", quality=85)
    return content.getvalue()


def document_instance(words: int, seed: int) -> values_pb2.Instance:
    value = values_pb2.Value(document=values_pb2.Document(text=code(words, seed)))
    return values_pb2.Instance(inputs={"document": value})


def picture_instance(side: int, seed: int) -> values_pb2.Instance:
    return values_pb2.Instance(inputs={"image": values_pb2.Value(image=picture(side, seed))})


def date_instance(seed: int) -> values_pb2.Instance:
    chance = random.Random(seed)
    date = f"{chance.randint(1, 28)} {chance.choice(_MONTHS)} {chance.randint(1900, 2030)}"
    return values_pb2.Instance(inputs={"text": values_pb2.Value(text=date)})


def number_instance(seed: int) -> values_pb2.Instance:
    chance = random.Random(seed)
    language = chance.choice(list(LANGUAGES.values()))
    words = "".join(piece for piece, _ in language(chance.randrange(1_000_000), chance))
    return values_pb2.Instance(inputs={"text": values_pb2.Value(text=words)})


def _document(seed: int) -> bytes:
    instances = [document_instance(300, seed)]
    return service_pb2.PredictRequest(model=values_pb2.Model(name="slips"), instances=instances).SerializeToString()


def _picture(seed: int) -> bytes:
    instances = [picture_instance(256, seed)]
    return service_pb2.PredictRequest(model=values_pb2.Model(name="digits"), instances=instances).SerializeToString()


def _generation(seed: int) -> bytes:
    model = values_pb2.Model(name="dates")
    return service_pb2.GenerateRequest(model=model, instance=date_instance(seed)).SerializeToString()


# Kind of call: its method, and the request of a seed.
KINDS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "documents": (PREDICT, _document),
    "pictures": (PREDICT, _picture),
    "generations": (GENERATE, _generation),
}
