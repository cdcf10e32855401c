"""ESM, imported from a checkpoint as it is published, answers as transformers: words, maps, states and contacts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import EsmConfig, EsmForMaskedLM, EsmForTokenClassification, EsmTokenizer

import limelight
from limelight import Hidden
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.checkpoints import HEADS
from tests.kit.serving import serving

RESIDUES = [*"LAGVSERTIDPKQNFYMHWCXBUZO.-"]
VOCABULARY = ["<cls>", "<pad>", "<eos>", "<unk>", *RESIDUES, "<null_1>", "<mask>"]
PROTEINS = ("MKTAYIAKQR", "MKTVRQERLKSIVRILERSKEPVSGAQLAEELSVSRQVIVQDIAYLRSLGYN", "MKT<mask>YIA", "A", "mkxT GG")


def write(folder: Path, kind: Any, **changes: Any) -> Path:
    torch.manual_seed(3)
    config = EsmConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=48,
        max_position_embeddings=130,
        mask_token_id=VOCABULARY.index("<mask>"),
        pad_token_id=VOCABULARY.index("<pad>"),
        initializer_range=0.5,
        **{"position_embedding_type": "rotary", "token_dropout": True, **changes},
    )
    model = kind(config).eval()
    with torch.no_grad():  # contacts of random weights would all be one half
        model.esm.contact_head.regression.weight.normal_(0, 8)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    EsmTokenizer(str(folder / "vocab.txt"), model_max_length=128).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        "esm2": write(root / "esm2", EsmForMaskedLM),
        "esm1b": write(
            root / "esm1b", EsmForTokenClassification, position_embedding_type="absolute", emb_layer_norm_before=True
        ),
    }


@pytest.fixture(scope="module")
def client(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    for folder in folders.values():
        import_checkpoint(folder, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as found:
        yield found


def read(folder: Path, protein: str) -> dict[str, torch.Tensor]:
    return dict(EsmTokenizer.from_pretrained(folder)(protein, return_tensors="pt"))


@pytest.mark.parametrize(("name", "kind"), [("esm2", EsmForMaskedLM), ("esm1b", EsmForTokenClassification)])
def test_maps_states_and_contacts_equal_transformers_alone_and_in_company(
    name: str, kind: Any, client: limelight.Client, folders: dict[str, Path]
) -> None:
    model = kind.from_pretrained(folders[name], attn_implementation="eager").eval()
    together = client.attend(name, [{"text": each} for each in PROTEINS], hidden=Hidden())
    for protein, in_company in zip(PROTEINS, together, strict=True):
        given = read(folders[name], protein)
        with torch.no_grad():
            output = model(**given, output_attentions=True, output_hidden_states=True)
            contacts = model.esm.predict_contacts(given["input_ids"], given["attention_mask"])[0].numpy()
        for answer in (in_company, client.attend(name, {"text": protein}, hidden=Hidden())):
            assert answer["contacts"].query.ids.tolist() == given["input_ids"][0].tolist()
            np.testing.assert_allclose(answer.prediction.outputs["logits"], output.logits[0].numpy(), atol=2e-4)
            for layer, weights in enumerate(output.attentions):
                np.testing.assert_allclose(answer[f"encoder.{layer}.self"].weights, weights[0].numpy(), atol=1e-5)
            for layer, vectors in enumerate(output.hidden_states):
                found, expected = answer.prediction.hidden[f"encoder.hidden.{layer}"].vectors, vectors[0].numpy()
                np.testing.assert_allclose(found, expected, atol=1e-5 * max(1, np.abs(expected).max()))
            table = answer["contacts"].weights[0]
            # The regression adds up all maps, each eight times or so, under a slope of at most a quarter.
            np.testing.assert_allclose(table[1:-1, 1:-1], contacts, atol=5e-5)
            np.testing.assert_array_equal(table[[0, -1]], 0)
            np.testing.assert_allclose(table, table.T, atol=1e-6)
    assert np.ptp(together[1]["contacts"].weights[0, 1:-1, 1:-1]) > 0.3


def test_each_residue_is_classified_for_itself(client: limelight.Client) -> None:
    answer = client.predict("esm1b", {"text": PROTEINS[0]})
    assert answer.tags is not None
    assert answer.tagged_texts(answer.tags) == list(PROTEINS[0])


def test_contacts_come_alone_and_follow_changed_attention(client: limelight.Client) -> None:
    whole = client.attend("esm2", {"text": PROTEINS[1]})["contacts"]
    assert not whole.normalised
    (alone,) = client.attend("esm2", {"text": PROTEINS[1]}, maps="contacts").maps
    np.testing.assert_allclose(alone.weights, whole.weights, atol=1e-6)
    some = client.attend("esm2", {"text": PROTEINS[1]}, maps="contacts", queries=[3], top_k=2)["contacts"]
    assert some.weights.shape == (1, 1, 2)
    away = limelight.scale_keys("encoder.0.self", slice(1, 8), 0)
    changed = client.attend("esm2", {"text": PROTEINS[1]}, maps="contacts", interventions=[away])["contacts"]
    assert np.abs(changed.weights - whole.weights).max() > 1e-3
    described = {each.name: each for each in client.model("esm2").maps}
    assert described["contacts"].kind == "self" and not described["contacts"].interventions
