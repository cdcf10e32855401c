"""Atom mapping of chemical reactions from one served attention head.

RXNMapper's ALBERT was trained without labels to fill masks in reactions. Its product is its attention: head 5 of layer
10 attends from each atom of the product to the atom of the reactants that it was (Schwaller et al. 2021, "Extraction of
organic chemistry grammar from unsupervised learning of chemical reactions", Science Advances 7).

    pip install --no-deps rxnmapper rdkit rxn-chem-utils rxn-utils attrs
    python examples/map_reactions.py prepare --out build/rxn-pickled
    limelight import convert-weights build/rxn-pickled --out build/rxnmapper
    limelight import hf build/rxnmapper --repository build/models --example "CCO.BrCC>>CC[MASK]CC"
    limelight serve --repository build/models
    python examples/map_reactions.py map "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
"""

import argparse
import json
import shutil
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path

import numpy as np

import limelight

MODEL = "rxnmapper"
LAYER, HEAD = 10, 5
CHECKPOINT = Path("models", "transformers", "albert_heads_8_uspto_all_1310k")


def main() -> None:
    """Prepare the checkpoint, or map a reaction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="copy the package's checkpoint, with a tokenizer.json")
    prepare.add_argument("--out", type=Path, required=True)
    one = commands.add_parser("map", help="map the atoms of a reaction")
    one.add_argument("reaction")
    one.add_argument("--server", default="127.0.0.1:50051")
    arguments = parser.parse_args()
    if arguments.command == "prepare":
        prepare_checkpoint(package_folder() / CHECKPOINT, arguments.out)
        return
    with limelight.Client(arguments.server) as client:
        mapped, confidence = map_reaction(client, arguments.reaction)
        print(f"{mapped}\nconfidence {confidence:.4f}")


def map_reaction(client: limelight.Client, reaction: str, *, canonical: bool = True) -> tuple[str, float]:
    """Map the atoms of a reaction in SMILES, and return the mapped reaction and its confidence.

    The steps and the scores are RXNMapper's own; only the attention comes from the server.

    Args:
        canonical: whether to write the reaction in canonical form first.
    """
    use_package_without_its_model()
    from rxn.chemutils.reaction_smiles import (  # type: ignore[import-not-found]
        ReactionFormat,
        determine_format,
        parse_any_reaction_smiles,
        to_reaction_smiles,
    )
    from rxnmapper.attention import AttentionScorer  # type: ignore[import-not-found]
    from rxnmapper.smiles_utils import (  # type: ignore[import-not-found]
        generate_atom_mapped_reaction_atoms,
        process_reaction,
        tokenize,
    )

    equation = parse_any_reaction_smiles(reaction)
    equation = process_reaction(equation) if canonical else equation
    smiles = to_reaction_smiles(equation, reaction_format=ReactionFormat.STANDARD_WITH_TILDE)
    tokens = tokenize(smiles)
    known = set((package_folder() / CHECKPOINT / "vocab.txt").read_text(encoding="utf-8").splitlines())
    text = "".join(token if token in known else "[UNK]" for token in tokens)
    answer = client.attend(MODEL, {"text": text}, maps=f"encoder.{LAYER}.self", heads=[HEAD])
    served = answer[f"encoder.{LAYER}.self"]
    tokens = ["[CLS]", *tokens, "[SEP]"]
    if len(served.key) != len(tokens):
        raise ValueError(f"the server's tokens of {smiles} are not those of RXNMapper")
    scorer = AttentionScorer(smiles, tokens, np.asarray(served.head(HEAD)))
    found = scorer.generate_attention_guided_pxr_atom_mapping(absolute_product_inds=False)
    mapped, _ = generate_atom_mapped_reaction_atoms(smiles, found["pxr_mapping_vector"], canonical=canonical)
    written = to_reaction_smiles(mapped, reaction_format=determine_format(reaction))
    return written, float(np.prod(found["confidences"]))


def prepare_checkpoint(source: Path, out: Path) -> None:
    """Copy the checkpoint, and write the tokenizer.json that it lacks."""
    shutil.copytree(source, out, ignore=shutil.ignore_patterns("training_args.bin"))
    write_tokenizer(out)


def write_tokenizer(folder: Path) -> None:
    """Write the vocabulary of atoms and bonds as a tokenizer.json that takes the longest token, from left to right."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.processors import TemplateProcessing

    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tokenizer = Tokenizer(WordLevel({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]"))
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokenizer.add_special_tokens(list(special))
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens if token not in special])
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    # transformers would read the vocabulary as one of word pieces.
    settings = folder / "tokenizer_config.json"
    stated = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
    settings.write_text(json.dumps(stated | {"tokenizer_class": "PreTrainedTokenizerFast"}), encoding="utf-8")


def package_folder() -> Path:
    """Return the folder of the installed package, without importing it."""
    return Path(next(iter(_package().submodule_search_locations or ())))


def use_package_without_its_model() -> None:
    """Make the package's modules importable without its own model, which needs an older transformers."""
    if "rxnmapper" not in sys.modules:
        sys.modules["rxnmapper"] = module_from_spec(_package())


def _package() -> ModuleSpec:
    found = find_spec("rxnmapper")
    if found is None:
        sys.exit("rxnmapper is not installed: pip install --no-deps rxnmapper rdkit rxn-chem-utils rxn-utils attrs")
    return found


if __name__ == "__main__":
    main()
