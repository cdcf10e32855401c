"""Each task of an imported encoder, from a checkpoint folder to what a client reads."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

import limelight
from limelight.cli import main
from limelight.cli.predict import lines
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface.checkpoints import change_config, sizes, stated_pooling, write_checkpoint, write_json
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import serving

TAGS = {0: "O", 1: "B-ANIMAL", 2: "I-ANIMAL"}
TEXT = "The cats sat on a mat."
PAIR = ("Where did the cat sit?", "The cat sat on the mat!")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each task, by the name that its model gets; one layer is enough here."""
    root = tmp_path_factory.mktemp("checkpoints")
    small = {"num_hidden_layers": 1}
    bert, albert, big_bird = (ENCODERS[name] for name in ("bert", "albert", "big_bird"))
    found = {
        "vectors": bert.write(root / "vectors", "Model", **small),
        "tagger": bert.write(root / "tagger", "ForTokenClassification", **small, id2label=TAGS),
        "answers": bert.write(root / "answers", "ForQuestionAnswering", **small, num_labels=2),
        # Its head takes the question's tokens out, and tells the two texts apart by itself.
        "long-answers": big_bird.write(root / "long-answers", "ForQuestionAnswering", **small, num_labels=2),
        "reranker": bert.write(root / "reranker", **small, num_labels=1),
        "words": albert.write(root / "words", "ForMaskedLM", **small),
    }
    stated_pooling(found["vectors"])
    write_json(found["vectors"] / "sentence_bert_config.json", {"max_seq_length": 100})
    (found["vectors"] / "README.md").write_text("---\nlicense: mit\n---\n")
    change_config(found["reranker"], sentence_transformers={"activation_fn": "torch.nn.modules.activation.Sigmoid"})
    return found


@pytest.fixture(scope="module")
def address(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    repository = tmp_path_factory.mktemp("repository")
    for name, folder in folders.items():
        if name == "vectors":
            assert main(["import", "hf", str(folder), "--repository", str(repository)]) == 0
        else:
            import_checkpoint(folder, repository)
    with serving(repository) as running:
        yield running.server.address


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[limelight.Client]:
    with limelight.Client(address) as caller:
        yield caller


def encode(folder: Path, *texts: str) -> Any:
    return Tokenizer.from_file(str(folder / "tokenizer.json")).encode(*texts)


def eager(folder: Path, auto_class: str, *texts: str) -> Any:
    """Answer by transformers alone."""
    model = getattr(transformers, auto_class).from_pretrained(folder, attn_implementation="eager").eval()
    encoding = encode(folder, *texts)
    arguments = {"input_ids": torch.tensor([encoding.ids]), "token_type_ids": torch.tensor([encoding.type_ids])}
    with torch.no_grad():
        return model(**arguments, output_attentions=True)


def check_map(answer: limelight.Attended, expected: Sequence[torch.Tensor]) -> None:
    for layer, each in enumerate(expected):
        np.testing.assert_allclose(answer[f"encoder.{layer}.self"].weights, each[0].numpy(), atol=1e-5)


def test_a_vector_is_pooled_and_normalised_as_stated(client: limelight.Client, folders: dict[str, Path]) -> None:
    answer = client.attend("vectors", {"text": TEXT})
    output = eager(folders["vectors"], "AutoModel", TEXT)
    mean = output.last_hidden_state[0].mean(0)
    vector = answer.prediction.embedding
    assert vector is not None
    np.testing.assert_allclose(vector, (mean / mean.norm()).numpy(), atol=1e-5)
    check_map(answer, output.attentions)
    description = client.model("vectors")
    assert description.task == "embedding"
    assert description.inputs[0].tensors[0].dimensions[0].maximum == 100  # of sentence_bert_config.json


def test_a_model_says_what_it_was_imported_from(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "vectors", "--target", address]) == 0
    said = capsys.readouterr().out.splitlines()
    assert {"imported from: BertModel", "licence: mit"} <= set(said)
    (ignored,) = (line for line in said if line.startswith("configuration fields without effect: "))
    assert "hidden_dropout_prob" in ignored


def test_rows_of_a_map_are_those_of_the_whole(client: limelight.Client) -> None:
    whole = client.attend("vectors", {"text": TEXT})["encoder.0.self"]
    some = client.attend("vectors", {"text": TEXT}, maps="encoder.0.self", heads=[2], queries=[0, -1])
    np.testing.assert_allclose(some["encoder.0.self"].weights, whole.weights[[2]][:, [0, -1]], atol=1e-6)


def test_texts_in_a_batch_are_answered_as_alone(client: limelight.Client) -> None:
    texts = ["a", TEXT, "The dog ran where a cat sat on the mat, did the dog?"]
    together = client.predict("vectors", [{"text": text} for text in texts])
    for text, answer in zip(texts, together, strict=True):
        assert answer.embedding is not None
        np.testing.assert_allclose(answer.embedding, client.predict("vectors", {"text": text}).embedding, atol=1e-5)


def test_tags_are_of_words_joined_from_their_pieces(client: limelight.Client, folders: dict[str, Path]) -> None:
    answer = client.attend("tagger", {"text": TEXT})
    tags, tokens = answer.prediction.tags, answer.prediction.label_sets["tokens"]
    assert tags is not None and tags.entries is not None
    assert tokens.labels == ("[CLS]", "The", "cat", "s", "sat", "on", "a", "mat", ".", "[SEP]")
    assert tokens.words.tolist() == [-1, 0, 1, 1, 2, 3, 4, 5, 6, -1]
    words = ["".join(tokens.labels[begin:end]) for begin, end in tags.entries]
    assert words == ["The", "cats", "sat", "on", "a", "mat", "."]
    first, second = (each[0] for each in (tags[0], tags[1]))
    said = f"The {first.label} {first.probability:.2f}, cats {second.label} {second.probability:.2f}, "
    assert answer.prediction.headline.startswith(said)
    assert [line.split()[0] for line in lines(answer.prediction)] == words
    output = eager(folders["tagger"], "AutoModelForTokenClassification", TEXT)
    likely = output.logits[0].softmax(-1)
    for (begin, _), classes in zip(tags.entries, tags, strict=True):
        assert classes[0].label == TAGS[int(likely[begin].argmax())]
        assert classes[0].probability == pytest.approx(float(likely[begin].max()), abs=1e-5)
    check_map(answer, output.attentions)


def test_maps_can_be_shown_by_words(client: limelight.Client, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = client.attend("tagger", {"text": TEXT}, maps="encoder.0.self")["encoder.0.self"]
    joined = whole.by_words()
    assert joined.key.labels == ("[CLS]", "The", "cats", "sat", "on", "a", "mat", ".", "[SEP]")
    expected = whole.weights[:, :, 2] + whole.weights[:, :, 3]
    np.testing.assert_allclose(joined.weights[:, 1, 2], expected[:, 1], atol=1e-6)
    np.testing.assert_allclose(joined.weights[:, 2, 2], expected[:, 2:4].mean(1), atol=1e-6)
    capsys.readouterr()
    assert main(["attend", "tagger", TEXT, "--query", "0", "--words", "--target", address]) == 0
    shown, _, rest = capsys.readouterr().out.splitlines()[-1].partition("  left out: ")
    assert 0 < float(rest) < 1
    assert [word.partition("(")[0] for word in shown.split()][-7:] == ["The", "cats", "sat", "on", "a", "mat", "."]
    for option in ("--words", "--hide-special"):
        assert main(["attend", "tagger", TEXT, option, "--json", "--target", address]) == 2
    capsys.readouterr()
    assert main(["attend", "tagger", TEXT, "--hide-special", "--map", "encoder.0.self", "--target", address]) == 0
    shown = capsys.readouterr().out
    assert "[CLS]" not in shown and "left out: 0." in shown


@pytest.mark.parametrize("name", ["answers", "long-answers"])
def test_a_question_is_answered_by_spans_of_the_text_alone(
    name: str, client: limelight.Client, folders: dict[str, Path]
) -> None:
    question, text = PAIR
    answer = client.attend(name, {"pair": PAIR})
    output = eager(folders[name], "AutoModelForQuestionAnswering", question, text)
    encoding = encode(folders[name], question, text)
    own = [place for place, part in enumerate(encoding.sequence_ids) if part == 1]
    # The first token stands for "no answer".
    start, end = (scores[0, [0, *own]].softmax(-1) for scores in (output.start_logits, output.end_logits))
    assert answer.prediction.none_probability == pytest.approx(float(start[0] * end[0]), abs=1e-5)
    chances = torch.triu(start[1:, None] * end[None, 1:])
    first, last = divmod(int(chances.argmax()), len(own))
    best = answer.prediction.spans[0]
    assert (best.start, best.end) == (encoding.offsets[own[first]][0], encoding.offsets[own[last]][1])
    assert best.text == text[best.start : best.end]
    assert best.probability == pytest.approx(float(chances.max()), abs=1e-5)
    assert {span.part for span in answer.prediction.spans} == {"second"}
    check_map(answer, output.attentions)


def test_a_pair_is_scored_with_segments_and_the_stated_activation(
    client: limelight.Client, folders: dict[str, Path]
) -> None:
    answer = client.attend("reranker", {"pair": PAIR})
    output = eager(folders["reranker"], "AutoModelForSequenceClassification", *PAIR)
    (number,) = answer.prediction.numbers
    assert number.name == "score"
    assert number.value == pytest.approx(float(output.logits.sigmoid()), abs=1e-5)
    check_map(answer, output.attentions)
    turned = client.predict("reranker", {"pair": PAIR[::-1]}).numbers[0].value
    assert turned != pytest.approx(number.value, abs=1e-4)


def test_each_mask_gets_the_words_that_fit(client: limelight.Client, folders: dict[str, Path]) -> None:
    text = "The [MASK] sat on a [MASK]."
    answer = client.attend("words", {"text": text})
    tags = answer.prediction.tags
    assert tags is not None and tags.entries == ((2, 3), (6, 7))
    output = eager(folders["words"], "AutoModelForMaskedLM", text)
    vocabulary = json.loads((folders["words"] / "tokenizer.json").read_text())["model"]["vocab"]
    for (place, _), classes in zip(tags.entries, tags, strict=True):
        likely = output.logits[0, place].softmax(-1)
        assert vocabulary[classes[0].label] == int(likely.argmax())
        assert classes[0].probability == pytest.approx(float(likely.max()), abs=1e-5)
    check_map(answer, output.attentions)
    assert len(client.predict("words", {"text": TEXT}).tags or ()) == 0


@pytest.mark.parametrize(
    ("fields", "task", "kind"),
    [
        ({"num_labels": 3}, "classification", "softmax"),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, "multi_label", "sigmoid"),
        ({"num_labels": 1}, "regression", ""),
        ({"num_labels": 2, "problem_type": "regression"}, "regression", ""),
    ],
)
def test_the_kind_of_classification_follows_the_configuration(
    tmp_path: Path, fields: dict[str, Any], task: str, kind: str
) -> None:
    from limelight.base.enums import name_of
    from limelight.v1 import model_pb2

    description = read_model(ENCODERS["bert"].write(tmp_path / "small", **fields)).card.description
    assert name_of(model_pb2.Task, description.task) == task
    classes = description.results[0].classes
    assert name_of(model_pb2.Activation, classes.activation) == (kind or "unspecified")
    targets = [each.name for each in description.results[0].regression.targets]
    assert len(classes.labels or targets) == fields["num_labels"]


def test_an_import_has_the_caller_s_name_examples_and_limit(tmp_path: Path) -> None:
    folder = write_checkpoint(
        tmp_path / "small", transformers.BertForSequenceClassification, transformers.BertConfig(**sizes())
    )
    options = ImportOptions(name="mine", examples=("a cat\ta dog", "the mat\tthe dog ran"), max_tokens=20)
    trained = read_model(folder, task="cross-encoder", options=options)
    description = trained.card.description
    assert description.name == "mine"
    assert description.inputs[0].tensors[0].dimensions[0].maximum == 20
    assert [(each["pair"].first, each["pair"].second) for each in trained.examples] == [  # type: ignore[union-attr]
        ("a cat", "a dog"),
        ("the mat", "the dog ran"),
    ]
