"""Contacts of a protein: pairs of residues that touch, though they are far from each other in the sequence.

The map `contacts` of an imported ESM is made of all its attention maps: symmetrised, without what two residues draw by
themselves (average product correction), weighed by the checkpoint's own regression (Rao et al. 2021, "Transformer
protein language models are unsupervised structure learners"). It is right about residues at least six apart.

    python examples/recipes/contacts.py esm2 MKTVRQERLKSIVRILERSKEPVSGAQLAEELSVSRQVIVQDIAYLRSLGYN
"""

import sys

import numpy as np

import limelight

APART = 6  # nearer residues touch in any protein, and the regression was not fitted to them


def contacts(
    client: limelight.Client, model: str, protein: str, most: int = 10
) -> list[tuple[float, tuple[int, str], tuple[int, str]]]:
    """Return the likeliest contacts: probability, and place (from 1) and letter of both residues."""
    found = client.attend(model, {"text": protein}, maps="contacts")["contacts"]
    residues = np.flatnonzero(~found.key.special)  # without begin and end
    table = found.weights[0][np.ix_(residues, residues)]
    first, second = np.triu_indices(len(residues), APART)
    order = np.argsort(-table[first, second], kind="stable")[:most]
    return [
        (float(table[one, other]), (int(one) + 1, protein[one]), (int(other) + 1, protein[other]))
        for one, other in zip(first[order], second[order], strict=True)
    ]


if __name__ == "__main__":
    with limelight.Client("127.0.0.1:50051") as client:
        for probability, (one, letter), (other, partner) in contacts(client, *sys.argv[1:]):
            print(f"{probability:.3f} {letter}{one} - {partner}{other}")
