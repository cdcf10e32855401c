"""Trees of made-up sentences, and what is judged of them."""

from collections.abc import Sequence
from functools import cache

import pytest

from limelight_bundle.values import Text
from limelight_models.data import treebank
from limelight_models.data.dataset import Example
from limelight_models.tasks.brackets import Brackets, brackets

# As the module's docstring has it, written a second time; a capital stands for any of its words.
GRAMMAR = {
    "S": ["NP VP"],
    "NP": ["D N", "D A N", "D N of NP", "D N , who VP ,", "both NP and NP"],
    "VP": ["V NP", "V NP P NP", "VC that S"],
}
WORDS = {
    "D": "the a",
    "A": "young tall quiet busy grey",
    "N": "baker nurse pilot queen thief tailor miner poet farmer judge town harbour",
    "V": "praised followed painted called helped saw pushed warned",
    "VC": "said thought knew hoped",
    "P": "near behind in with",
}


def trees(words: Sequence[str]) -> int:
    """Count the trees that the grammar gives a sentence."""

    @cache
    def ways(symbols: tuple[str, ...], begin: int, end: int) -> int:
        if len(symbols) > 1:
            first, rest = symbols[:1], symbols[1:]
            return sum(ways(first, begin, cut) * ways(rest, cut, end) for cut in range(begin + 1, end - len(rest) + 1))
        (symbol,) = symbols
        if symbol in GRAMMAR:
            return sum(ways(tuple(rule.split()), begin, end) for rule in GRAMMAR[symbol])
        return int(end == begin + 1 and words[begin] in WORDS.get(symbol, symbol).split())

    return ways(("S",), 0, len(words))


def written(example: Example) -> tuple[list[str], str]:
    """The words, and the tree."""
    text, tree = example.instance["text"], example.instance["target"]
    assert isinstance(text, Text) and isinstance(tree, Text)
    return text.text.split(), tree.text


def test_every_sentence_has_one_tree_and_a_bracket_for_every_constituent() -> None:
    for example in treebank.dataset(training=60, held_out=1).train:
        words, tree = written(example)
        assert trees(words) == 1 and len(words) <= 24
        symbols = tree.split()
        assert symbols.count("XX") == len(words)
        found = brackets(tree)
        assert found["S", 0, len(words)] == 1
        assert 2 * found.total() == len([each for each in symbols if each != "XX"])
        for label, begin, end in found:
            if label == "PP":
                assert words[begin] in ("of", *WORDS["P"].split())
            if label == "SBAR":
                assert words[begin] == "that" or (words[begin], words[begin + 1], words[end - 1]) == (",", "who", ",")


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ("(S (NP XX XX )NP XX )S", {("S", 0, 3): 1, ("NP", 0, 2): 1}),
        ("(NP (NP XX )NP )NP", {("NP", 0, 1): 2}),
        ("(S XX )NP )S", {("S", 0, 1): 1}),  # one that was never opened
        ("(S (NP XX )S", {}),  # one that was never closed: what is around it does not close either
        ("", {}),
        (")S", {}),
    ],
)
def test_brackets_that_pair_are_constituents(tree: str, found: dict) -> None:
    assert brackets(tree) == found


def test_f1_is_over_all_constituents() -> None:
    (figure,) = Brackets().of_texts(["(S XX )S", "(S (NP XX )NP )S"], ["(S XX )S", "(S (VP XX )VP )S"])
    assert (figure.name, figure.value) == ("bracket F1", pytest.approx(2 / 3))  # 2 of 3 written, 2 of 3 there
