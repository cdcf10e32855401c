"""Texts with several topics, of English words and of made-up ones."""

from limelight_bundle.values import Text
from limelight_models.data import topics


def told(seed: int) -> dict[str, set[str]]:
    """Words of the texts that have one topic alone, by topic."""
    made, words = topics.dataset(seed=seed, groups=4, training=2_000, held_out=20), dict[str, set[str]]()
    assert made.name == "24 topics of made-up texts"
    for example in made.train:
        text = example.instance["text"]
        assert isinstance(text, Text) and len(text.text.split(" . ")) == len(example.labels) <= 3
        if len(example.labels) == 1:
            words.setdefault(*example.labels, set()).update(text.text.split())
    return words


def test_many_topics_are_of_groups_and_have_words_of_their_own_the_same_for_every_seed() -> None:
    words = told(0)
    assert words == told(1) and len(words) == 24
    of_all = set.intersection(*words.values())
    for topic, own in words.items():
        others = {name: each for name, each in words.items() if name != topic}
        assert sum(len(own & each - of_all) > 0 for each in others.values()) == 5, "the others of its group"
        assert len(own - set.union(*others.values())) == 2
