"""A document -> its class; words in sentences (edges), then sentences."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.v1 import bundle_pb2 as bpb
from limelight_bundle.values import Array, Text
from tests.kit.bundles import parts
from tests.kit.bundles.parts import CLASSES, EMBEDDING, LABELS, MOST_TOKENS, PAD, QUERY, ids_of, softmax


def paper(repository: Path, name: str = "paper", *, max_sentences: int = 16, version: int = 0) -> BundleFolder:
    """Write the classifier of documents."""
    graph = parts.graph(
        """
agraph (int64[B, S, W] ids, bool[B, S, W] mask) => (float[B, 3] logits, float[B, S, W] words, float[B, S] sentences)
{
  x = Gather(embedding, ids)
  ws = MatMul(x, query)
  wf = Squeeze(ws, axis3)
  wm = Where(mask, wf, low)
  wa = Softmax <axis = -1> (wm)
  real = Cast <to = 1> (mask)
  words = Mul(wa, real)
  wr = Unsqueeze(words, axis2)
  sv = MatMul(wr, x)
  s = Squeeze(sv, axis2)
  ss = MatMul(s, query)
  sf = Squeeze(ss, axis2)
  count = ReduceSum <keepdims = 0> (real, axis2)
  some = Greater(count, zero)
  sm = Where(some, sf, low)
  sentences = Softmax <axis = -1> (sm)
  sr = Unsqueeze(sentences, axis1)
  dv = MatMul(sr, s)
  d = Squeeze(dv, axis1)
  logits = MatMul(d, classes)
}
""",
        embedding=EMBEDDING,
        query=QUERY,
        classes=CLASSES,
    )
    ids = parts.ids_tensor("ids", "word", MOST_TOKENS)
    ids.dimensions.insert(0, mpb.Dimension(name="sentence", maximum=max_sentences))
    ids.fill = PAD
    bundle = parts.new_bundle(
        name,
        mpb.TASK_CLASSIFICATION,
        mpb.InputDescription(name="text", kind=mpb.INPUT_KIND_DOCUMENT, tensors=[ids]),
    )
    description = bundle.description
    description.outputs.append(parts.output("logits", mpb.Dimension(name="class", size=3)))
    description.results.add(
        name="mood",
        classes=mpb.ClassesDescription(output="logits", labels=LABELS, activation=mpb.ACTIVATION_SOFTMAX),
    )
    description.label_sets.extend(
        [
            parts.labels(
                "words", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="word", parent="sentences"
            ),
            parts.labels("sentences", apb.LABEL_KIND_SENTENCES, input="text", tensor="ids", dimension="sentence"),
            parts.labels("one", apb.LABEL_KIND_ONE),
        ]
    )
    parts.add_map(bundle, "word", apb.MAP_KIND_POOL, "sentences", "words", form=mpb.MAP_FORM_EDGES)
    parts.bind(bundle, "word", "main", "words", "BATCH QUERY KEY")
    parts.add_map(bundle, "sentence", apb.MAP_KIND_POOL, "one", "sentences")
    parts.bind(bundle, "sentence", "main", "sentences", "BATCH KEY")
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", ["ids", "mask"], ["logits", "words", "sentences"]))
    bundle.preprocessing.append(parts.tokenized("text"))
    bundle.preprocessing[0].steps.insert(0, bpb.PreprocessingStep(split_sentences=bpb.SplitSentences()))
    bundle.tensors.add(tensor="ids", mask="mask", pad_value=PAD)
    documents = [["the cat sat ."], ["the dog ran far .", "a", "on a mat ."]]
    return parts.write(
        repository,
        bundle,
        {"model.onnx": graph},
        [{"text": Text("\n\n".join(each))} for each in documents],
        [paper_answer(padded([ids_of(sentence).tolist() for sentence in each])) for each in documents],
        version,
    )


def padded(sentences: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Token ids [sentence, word], shorter sentences filled up."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD, np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids


def paper_answer(ids: Array) -> Sample:
    """Answer as the classifier of documents does."""
    mask, x = ids != PAD, EMBEDDING[ids].astype(np.float64)
    word = softmax((x @ QUERY)[..., 0], mask)
    sentences = (x * word[..., np.newaxis]).sum(1)
    sentence = softmax((sentences @ QUERY)[:, 0])
    queries = np.nonzero(mask)[0].astype(np.int32)
    maps = {
        "word": MapWeights(parts.float32(word[mask][np.newaxis]), queries, np.arange(len(queries), dtype=np.int32)),
        "sentence": MapWeights(parts.float32(sentence[np.newaxis, np.newaxis])),
    }
    return Sample({"ids": ids}, {"logits": parts.float32(sentence @ sentences @ CLASSES)}, maps)
