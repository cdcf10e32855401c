"""Client of Limelight: predictions of attention models over gRPC, with their attention weights.

    with limelight.Client("127.0.0.1:50051") as client:
        answer = client.attend("dates", {"text": "7 March 2021"})
        print(answer.prediction.text, answer["decoder.cross"].weights.shape)

Requires grpcio, protobuf, googleapis-common-protos and NumPy. Names are imported on first use, so that programs that
need only the protocol (`limelight.v1`), and `limelight --help`, start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limelight.aio import AsyncClient as AsyncClient
    from limelight.attended import Attended as Attended
    from limelight.attended import SequenceAttention as SequenceAttention
    from limelight.base.errors import Cancelled as Cancelled
    from limelight.base.errors import DeadlineExceeded as DeadlineExceeded
    from limelight.base.errors import Error as Error
    from limelight.base.errors import FailedPrecondition as FailedPrecondition
    from limelight.base.errors import InputError as InputError
    from limelight.base.errors import Internal as Internal
    from limelight.base.errors import InvalidArgument as InvalidArgument
    from limelight.base.errors import NotFound as NotFound
    from limelight.base.errors import OutOfRange as OutOfRange
    from limelight.base.errors import PermissionDenied as PermissionDenied
    from limelight.base.errors import ResourceExhausted as ResourceExhausted
    from limelight.base.errors import Unauthenticated as Unauthenticated
    from limelight.base.errors import Unavailable as Unavailable
    from limelight.base.errors import Unimplemented as Unimplemented
    from limelight.base.values import Audio as Audio
    from limelight.base.values import Document as Document
    from limelight.base.values import Graph as Graph
    from limelight.base.values import Image as Image
    from limelight.base.values import Pair as Pair
    from limelight.chat import ChatFormat as ChatFormat
    from limelight.chat import render_chat as render_chat
    from limelight.client import Client as Client
    from limelight.descriptions import Model as Model
    from limelight.descriptions import ModelStatus as ModelStatus
    from limelight.events import GeneratedToken as GeneratedToken
    from limelight.events import GenerationEnd as GenerationEnd
    from limelight.events import GenerationStart as GenerationStart
    from limelight.explanations import Agreement as Agreement
    from limelight.explanations import ExplainedTarget as ExplainedTarget
    from limelight.explanations import Explanation as Explanation
    from limelight.explanations import WayValues as WayValues
    from limelight.groups import Grouping as Grouping
    from limelight.groups import Pool as Pool
    from limelight.groups import TextSpan as TextSpan
    from limelight.interventions import Intervention as Intervention
    from limelight.interventions import replace as replace
    from limelight.interventions import scale_heads as scale_heads
    from limelight.interventions import scale_keys as scale_keys
    from limelight.labels import Grid as Grid
    from limelight.labels import LabelSet as LabelSet
    from limelight.labels import Region as Region
    from limelight.loading import load as load
    from limelight.maps import AttentionMap as AttentionMap
    from limelight.maps import Edges as Edges
    from limelight.predictions import Box as Box
    from limelight.predictions import Boxes as Boxes
    from limelight.predictions import Classification as Classification
    from limelight.predictions import ClassProbability as ClassProbability
    from limelight.predictions import Embedding as Embedding
    from limelight.predictions import GeneratedSequence as GeneratedSequence
    from limelight.predictions import HiddenState as HiddenState
    from limelight.predictions import Number as Number
    from limelight.predictions import Prediction as Prediction
    from limelight.predictions import Provenance as Provenance
    from limelight.predictions import Regression as Regression
    from limelight.predictions import Sequences as Sequences
    from limelight.predictions import Span as Span
    from limelight.predictions import Spans as Spans
    from limelight.predictions import Tagging as Tagging
    from limelight.predictions import TokenVectors as TokenVectors
    from limelight.predictions import TopTokens as TopTokens
    from limelight.requests import Attention as Attention
    from limelight.requests import Generation as Generation
    from limelight.requests import Hidden as Hidden
    from limelight.requests import Selection as Selection
    from limelight.requests import Target as Target
    from limelight.saving import SavedMap as SavedMap
    from limelight.saving import save_maps as save_maps
    from limelight.similarity import MaxSim as MaxSim
    from limelight.similarity import maxsim as maxsim
    from limelight.speech import TimedWord as TimedWord
    from limelight.speech import word_times as word_times
    from limelight.streams import MapChunk as MapChunk
    from limelight.streams import StreamedMap as StreamedMap
    from limelight.streams import StreamEnd as StreamEnd
    from limelight.streams import StreamStart as StreamStart
    from limelight.streams import put_together as put_together
    from limelight.tokens import Tokenized as Tokenized
    from limelight.view.widget import widget as widget

    __version__: str

_ERRORS = (
    "Cancelled DeadlineExceeded Error FailedPrecondition InputError Internal InvalidArgument NotFound OutOfRange "
    "PermissionDenied ResourceExhausted Unauthenticated Unavailable Unimplemented"
)
_MODULES = {
    "aio": "AsyncClient",
    "attended": "Attended SequenceAttention",
    "chat": "ChatFormat render_chat",
    "client": "Client",
    "descriptions": "Model ModelStatus",
    "base.errors": _ERRORS,
    "events": "GeneratedToken GenerationEnd GenerationStart",
    "explanations": "Agreement ExplainedTarget Explanation WayValues",
    "groups": "Grouping Pool TextSpan",
    "interventions": "Intervention replace scale_heads scale_keys",
    "effective": "effective_attention",
    "labels": "Grid LabelSet Region",
    "loading": "load",
    "maps": "AttentionMap Edges",
    "predictions": (
        "Box Boxes Classification ClassProbability Embedding GeneratedSequence HiddenState Number Prediction "
        "Provenance Regression Sequences Span Spans Tagging TokenVectors TopTokens"
    ),
    "requests": "Attention Generation Hidden Selection Target",
    "saving": "SavedMap save_maps",
    "similarity": "MaxSim maxsim",
    "speech": "TimedWord word_times",
    "streams": "MapChunk StreamEnd StreamStart StreamedMap put_together",
    "tokens": "Tokenized",
    "base.values": "Audio Document Graph Image Pair",
    "view.widget": "widget",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from limelight.base.version import version

        return version()
    if name not in _HOME:
        raise AttributeError(f"module 'limelight' has no attribute {name!r}")
    return getattr(import_module(f"limelight.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME, "__version__"]
