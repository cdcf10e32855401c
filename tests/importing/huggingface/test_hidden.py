"""Hidden states of imported models, through a server, equal those of transformers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM

import limelight
from limelight import Hidden
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.checkpoints import change_config
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import Running, free_port, serving

TEXTS = ("The cats sat on a mat.", "A mat", "the cat sat and sat and sat on the mat and the cats")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    colbert = ENCODERS["bert"].write(root / "colbert", "Model")
    weights = load_file(colbert / "model.safetensors")
    weights["linear.weight"] = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    save_file(weights, colbert / "model.safetensors", {"format": "pt"})
    change_config(colbert, architectures=["HF_ColBERT"])
    return {
        "colbert": colbert,
        "encoder": ENCODERS["bert"].write(root / "encoder"),
        "decoder": DECODERS["gpt2"].write(root / "decoder"),
        "pairs": ENCODER_DECODERS["t5"].write(root / "pairs"),
    }


@pytest.fixture(scope="module")
def running(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    repository = tmp_path_factory.mktemp("repository")
    for folder in folders.values():
        import_checkpoint(folder, repository)
    with serving(repository, http_port=free_port()) as found:
        yield found


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[limelight.Client]:
    with limelight.Client(running.server.address) as found:
        yield found


def ids(folder: Path, text: str) -> torch.Tensor:
    return torch.tensor([Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids])


def states(kind: Any, folder: Path, **arguments: torch.Tensor) -> Any:
    model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(**arguments, output_hidden_states=True)


def check(found: limelight.HiddenState, expected: torch.Tensor) -> None:
    scale = max(1.0, float(expected.abs().max()))
    np.testing.assert_allclose(np.asarray(found) / scale, expected.numpy() / scale, atol=1e-5)


def test_states_of_an_encoder_equal_transformers_alone_and_in_company(
    client: limelight.Client, folders: dict[str, Path]
) -> None:
    folder = folders["encoder"]
    expected = [states(AutoModel, folder, input_ids=ids(folder, each)).hidden_states for each in TEXTS]
    together = client.predict("encoder", [{"text": each} for each in TEXTS], hidden=Hidden())
    for text, of_text, answer in zip(TEXTS, expected, together, strict=True):
        alone = client.attend("encoder", {"text": text}, maps="encoder.0.self", hidden=Hidden()).prediction
        for layer, vectors in enumerate(of_text):
            for each in (answer, alone):
                state = each.hidden[f"encoder.hidden.{layer}"]
                check(state, vectors[0])
                assert (state.stack, state.layer, state.positions) == ("encoder", layer, ())
                assert len(each.label_sets[state.label_set]) == len(state.vectors)
    last = expected[0][-1][0]
    options = {"mean": last.mean(0), "first": last[0], "last": last[-1], None: last}
    for pooling, vector in options.items():
        one = client.predict("encoder", {"text": TEXTS[0]}, hidden=Hidden(layers=-1, pooling=pooling))
        (state,) = one.hidden.values()
        check(state, vector)
    some = client.predict("encoder", {"text": TEXTS[0]}, hidden=Hidden(layers=[0, -2], positions=[1, -1]))
    assert [each.layer for each in some.hidden.values()] == [0, 1]
    for state in some.hidden.values():
        assert state.positions == (1, len(last) - 1)
        check(state, expected[0][state.layer][0, [1, -1]])
    assert not client.predict("encoder", {"text": TEXTS[0]}).hidden
    assert [each.name for each in client.model("encoder").hidden] == list(together[0].hidden)


def test_vectors_of_tokens_are_projected_as_the_checkpoint_states(
    client: limelight.Client, folders: dict[str, Path]
) -> None:
    one, other = client.predict("colbert", [{"text": each} for each in TEXTS[:2]])
    expected = []
    for text, answer in zip(TEXTS, (one, other), strict=False):
        last = states(AutoModel, folders["colbert"], input_ids=ids(folders["colbert"], text)).hidden_states[-1][0]
        weight = load_file(folders["colbert"] / "model.safetensors")["linear.weight"]
        expected.append(torch.nn.functional.normalize(last @ weight.T, dim=-1).numpy())
        assert answer.token_vectors is not None
        np.testing.assert_allclose(answer.token_vectors, expected[-1], atol=1e-5)
        assert len(answer.label_sets[answer.token_vectors.label_set]) == len(expected[-1])
    assert one.token_vectors and other.token_vectors
    found = limelight.maxsim(one.token_vectors, other.token_vectors)
    assert found.score == pytest.approx((expected[0] @ expected[1].T).max(1).sum(), abs=1e-4)
    assert client.model("colbert").results[0].kind == "token_vectors"


def test_texts_are_compared_token_by_token(client: limelight.Client) -> None:
    answers = client.predict("encoder", [{"text": each} for each in TEXTS[:2]], hidden=Hidden(layers=-1))
    one, other = (next(iter(each.hidden.values())) for each in answers)
    found = limelight.maxsim(one, other)
    lengths = [np.linalg.norm(each.vectors, axis=1, keepdims=True) for each in (one, other)]
    cosines = (one.vectors / lengths[0]) @ (other.vectors / lengths[1]).T
    np.testing.assert_allclose(found.similarities, cosines, atol=1e-6)
    assert found.score == pytest.approx(cosines.max(1).sum(), abs=1e-5)
    np.testing.assert_array_equal(found.best, cosines.argmax(1))
    assert limelight.maxsim(one, one).score == pytest.approx(len(one.vectors), abs=1e-5)
    with pytest.raises(ValueError, match=r"not \[32\] and"):
        limelight.maxsim(one.vectors[0], other)


def test_states_come_over_http(running: Running, client: limelight.Client) -> None:
    body = {"instances": [{"inputs": {"text": {"text": TEXTS[0]}}}], "hidden": {"layers": [-1], "pooling": 1}}
    address = f"http://127.0.0.1:{running.server.http_port}/v1/models/encoder:predict"
    with urlopen(Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})) as answered:
        (state,) = json.load(answered)["predictions"][0]["hidden"]
    (expected,) = client.predict(
        "encoder", {"text": TEXTS[0]}, hidden=Hidden(layers=-1, pooling="mean")
    ).hidden.values()
    assert (state["name"], state["layer"], state["labelSet"]) == (expected.name, expected.layer, expected.label_set)
    np.testing.assert_allclose(state["vectors"]["data"], expected.vectors, atol=1e-6)


def test_states_of_a_prompt_and_its_continuation_equal_transformers(
    client: limelight.Client, folders: dict[str, Path]
) -> None:
    folder = folders["decoder"]
    for text in ("the cat sat", "the"):
        answer = client.predict(
            "decoder", {"text": text}, generation=limelight.Generation(max_new_tokens=4), hidden=Hidden()
        )
        tokens = torch.cat([prompt := ids(folder, text), torch.tensor([answer.sequences[0].token_ids])], 1)
        expected = states(AutoModelForCausalLM, folder, input_ids=tokens).hidden_states
        before = prompt.shape[1]
        for layer, vectors in enumerate(expected):
            check(answer.hidden[f"prompt.hidden.{layer}"], vectors[0, :before])
            check(answer.hidden[f"decoder.hidden.{layer}"], vectors[0, before - 1 : -1])


def test_states_of_a_source_and_a_target_equal_transformers(client: limelight.Client, folders: dict[str, Path]) -> None:
    folder = folders["pairs"]
    answer = client.predict("pairs", {"text": TEXTS[0], "target": "the mat"}, hidden=Hidden())
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    begin = model.config.decoder_start_token_id
    read = torch.tensor([[begin, *answer.sequences[0].token_ids[:-1]]])
    with torch.no_grad():
        expected = model(input_ids=ids(folder, TEXTS[0]), decoder_input_ids=read, output_hidden_states=True)
    for layer, vectors in enumerate(expected.encoder_hidden_states):
        check(answer.hidden[f"encoder.hidden.{layer}"], vectors[0])
    for layer, vectors in enumerate(expected.decoder_hidden_states):
        check(answer.hidden[f"decoder.hidden.{layer}"], vectors[0])


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (Hidden(layers=7), r"hidden.layers\[0\] is 7; layers are 0 to 2, or -1 to -3"),
        (Hidden(stacks="decoder"), r"hidden.stacks\[0\] is 'decoder'; the model has encoder"),
        (Hidden(positions=[0, 99]), r"hidden.positions\[1\] is 99; .* has \d+ entries"),
    ],
)
def test_what_is_not_there_is_refused(client: limelight.Client, hidden: Hidden, message: str) -> None:
    with pytest.raises(limelight.InvalidArgument, match=message):
        client.predict("encoder", {"text": TEXTS[0]}, hidden=hidden)


def test_tokens_are_read_from_states_as_the_head_of_the_model_does(
    client: limelight.Client, folders: dict[str, Path], running: Running
) -> None:
    text, generation = "the cat sat", limelight.Generation(max_new_tokens=3)
    answer = client.predict("decoder", {"text": text}, generation=generation, hidden=Hidden(top_tokens=4))
    model = AutoModelForCausalLM.from_pretrained(folders["decoder"], attn_implementation="eager").eval()
    tokens = torch.cat([prompt := ids(folders["decoder"], text), torch.tensor([answer.sequences[0].token_ids])], 1)
    with torch.no_grad():
        output = model(input_ids=tokens, output_hidden_states=True)
        *inner, last = output.hidden_states
        scores = [model.lm_head(each) for each in (*map(model.transformer.ln_f, inner), last)]
    torch.testing.assert_close(scores[-1], output.logits)
    before = prompt.shape[1]
    vocabulary = Tokenizer.from_file(str(folders["decoder"] / "tokenizer.json"))
    for layer, of_layer in enumerate(scores):
        chances, best = of_layer[0].log_softmax(-1).topk(4)
        for stack, part in (("prompt", slice(0, before)), ("decoder", slice(before - 1, -1))):
            state = answer.hidden[f"{stack}.hidden.{layer}"]
            np.testing.assert_allclose(state.log_probabilities, chances[part].numpy(), atol=2e-5)
            np.testing.assert_array_equal(state.token_ids, best[part].numpy())
            assert state.tokens[0] == tuple(map(vocabulary.id_to_token, state.token_ids[0].tolist()))
            assert not state.vectors.size
    # The last layer at the last token of the prompt is where generation begins.
    read = answer.hidden[f"prompt.hidden.{len(scores) - 1}"]
    assert read.token_ids[-1, 0] == answer.sequences[0].token_ids[0]
    some = client.predict(
        "decoder", {"text": text}, generation=generation, hidden=Hidden(stacks="prompt", positions=-1, top_tokens=1)
    )
    assert [each.tokens for each in some.hidden.values()] == [
        ((answer.hidden[name].tokens[-1][0],),) for name in some.hidden
    ]
    for name, message in (("decoder", "at most 20 are read"), ("encoder", "the model has no head for it")):
        with pytest.raises(limelight.InvalidArgument, match=message):
            client.predict(name, {"text": text}, hidden=Hidden(top_tokens=21))
