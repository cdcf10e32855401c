"""Tokenize by every door: the tokens that the model would read, without the model."""

from urllib.request import urlopen

import numpy as np
import pytest

from limelight.v1 import attention_pb2, values_pb2
from limelight_bundle.wire import to_tensor
from tests.kit import bundles
from tests.kit.serving import Running, attend, serving, text, tokenize
from tests.service.every_door import DOORS, ask

TOKENS, SENTENCES = attention_pb2.LABEL_KIND_TOKENS, attention_pb2.LABEL_KIND_SENTENCES


@pytest.mark.parametrize("door", DOORS)
def test_tokens_are_those_that_the_model_reads(running: Running, door: str) -> None:
    texts = ("the cat  sat", "a dog \N{DOG} ran", "mat " * 40)
    answer = ask(running, door, tokenize("tiny", *map(text, texts), truncate=True))
    request = attend("tiny", *map(text, texts))
    request.truncate = True
    read = running.stub.Attend(request).results
    assert [each.truncated for each in answer.results] == [False, False, True]
    for each, wanted, sent in zip(answer.results, read, texts, strict=True):
        (tokens,) = each.label_sets
        assert tokens == next(one for one in wanted.prediction.label_sets if one.name == "tokens")
        assert [sent[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)] == list(tokens.texts)
        assert list(tokens.ids) == bundles.ids_of(sent).tolist()[:32]


@pytest.mark.parametrize("door", DOORS)
def test_sentences_of_a_document_come_with_their_words(running: Running, door: str) -> None:
    document = values_pb2.Value(document=values_pb2.Document(text="the cat sat. a dog ran."))
    (result,) = ask(running, door, tokenize("paper", values_pb2.Instance(inputs={"text": document}))).results
    words, sentences = result.label_sets
    assert (words.kind, sentences.kind, words.parent) == (TOKENS, SENTENCES, sentences.name)
    assert [words.texts[index] for index in range(words.size) if words.parents[index]] == ["a", "dog", "ran."]
    assert list(sentences.starts) == [0, 13]


@pytest.mark.parametrize("door", DOORS)
def test_ids_get_their_tokens(running: Running, door: str) -> None:
    sent = values_pb2.Value(tensor=to_tensor(np.array([4, 5, 3])))
    (result,) = ask(running, door, tokenize("tiny", values_pb2.Instance(inputs={"ids": sent}))).results
    (tokens,) = result.label_sets
    assert (list(tokens.texts), list(tokens.special)) == (["the", "cat", "[END]"], [False, False, True])
    assert not tokens.starts


def test_a_text_that_no_label_set_counts_has_the_name_of_its_input(tmp_path_factory: pytest.TempPathFactory) -> None:
    repository = tmp_path_factory.mktemp("repository")
    bundles.echo(repository, written_target=True)
    with serving(repository) as running:
        both = values_pb2.Instance(
            inputs={"text": values_pb2.Value(text="the cat"), "target": values_pb2.Value(text="a dog ran")}
        )
        (result,) = running.stub.Tokenize(tokenize("echo", both)).results
        assert [(each.name, list(each.texts)) for each in result.label_sets] == [
            ("tokens", ["the", "cat"]),
            ("target", ["a", "dog", "ran"]),
        ]
        del both.inputs["text"]
        (result,) = running.stub.Tokenize(tokenize("echo", both)).results
        assert [each.name for each in result.label_sets] == ["target"]


def test_the_model_is_not_run(running: Running) -> None:
    def batches() -> list[str]:
        settings = running.server.settings
        with urlopen(f"http://{settings.metrics_host}:{settings.metrics_port}/metrics") as page:
            lines = page.read().decode().splitlines()
        return [each for each in lines if each.startswith("limelight_batch_rows_count")]

    before = batches()
    assert len(running.stub.Tokenize(tokenize("tiny", *[text("the cat " * 40)] * 64, truncate=True)).results) == 64
    assert batches() == before
