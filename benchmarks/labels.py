"""What the labels of a text cost: from text to row, from columns to message, from message to bytes.

    python -m benchmarks.labels

Microseconds a token at 32, 512 and 4,096 tokens, of processor time, the best of several rounds. Preparing includes the
tokenizer's own work, which is given beside it.
"""

import os
import random
import time
from collections.abc import Callable
from functools import partial

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bundle.preprocess import Preprocessor
from bundle.v1 import bundle_pb2
from bundle.values import Text
from bundle.wire import labels_to_wire
from limelight.v1 import attention_pb2, model_pb2, values_pb2

TOKENS = (32, 512, 4096)
ROUNDS = 9
SECONDS = 0.2  # of each round


def words(count: int) -> str:
    """A text of so many words, the same at every run."""
    chance = random.Random(1)
    known = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(2000)]
    return " ".join(chance.choices(known, k=count))


def tokenizer() -> str:
    """A byte-level tokenizer that frames a text by special tokens, trained on nothing but `words`."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator([words(20_000)], trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=list(zip(special, (0, 1), strict=True))
    )
    return str(made.to_str())


def bundle(most: int) -> bundle_pb2.Bundle:
    """One text, one label set."""
    ids = model_pb2.TensorDescription(
        name="ids",
        data_type=values_pb2.DATA_TYPE_INT64,
        dimensions=[model_pb2.Dimension(name="token", maximum=most)],
    )
    tokens = model_pb2.LabelSetDescription(
        name="tokens", kind=attention_pb2.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="token"
    )
    tokenize = bundle_pb2.Tokenize(tokenizer="tokenizer.json", tensor="ids", special_tokens=True)
    return bundle_pb2.Bundle(
        description=model_pb2.ModelDescription(
            inputs=[model_pb2.InputDescription(name="text", kind=model_pb2.INPUT_KIND_TEXT, tensors=[ids])],
            label_sets=[tokens],
        ),
        tensors=[bundle_pb2.TensorBinding(tensor="ids", mask="mask")],
        preprocessing=[bundle_pb2.Preprocessing(input="text", steps=[bundle_pb2.PreprocessingStep(tokenize=tokenize)])],
    )


def best(run: Callable[[], object], tokens: int) -> float:
    """Microseconds a token, the best of several rounds."""
    found = float("inf")
    for _ in range(ROUNDS):
        calls, begin = 0, time.process_time()
        while (elapsed := time.process_time() - begin) < SECONDS:
            run()
            calls += 1
        found = min(found, elapsed / calls / tokens)
    return found * 1e6


def main() -> None:
    """Measure and print."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text_of_it = tokenizer()
    plain = Tokenizer.from_str(text_of_it)
    print(f"{'tokens':>8}{'tokenizer':>12}{'prepare':>12}{'message':>12}{'serialise':>12}   (µs a token)")
    for count in TOKENS:
        preprocessor = Preprocessor.from_parts(bundle(count), {"tokenizer.json": text_of_it})
        row = preprocessor.row({"text": Text(words(count))}, truncate=True)
        text = words(count)[: row.labels["tokens"].ends[-2]]  # what was kept, so that it is not tokenised twice
        instance = {"text": Text(text)}
        labels = preprocessor.row(instance).labels["tokens"]
        runs = [
            partial(plain.encode_batch, [text]),
            partial(preprocessor.row, instance),
            partial(labels_to_wire, labels),
            labels_to_wire(labels).SerializeToString,
        ]
        print(f"{count:>8}" + "".join(f"{best(run, count):>12.3f}" for run in runs))


if __name__ == "__main__":
    main()
