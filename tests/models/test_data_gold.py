"""Gold places in an input, and the entries of label sets that they are."""

import dataclasses
import json
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.label_sets import grid_labels
from limelight_bundle.rows import Labels
from limelight_bundle.values import Pair, Sentences, Text
from limelight_models.data import (
    antecedents,
    aspects,
    dates,
    folder,
    headlines,
    moves,
    numbers,
    numerals,
    recall,
    roles,
    row_files,
    rows,
    transductions,
)
from limelight_models.data.calendars import LANGUAGES
from limelight_models.data.dataset import DataError, Dataset, Example
from limelight_models.data.generated import SETS, load
from limelight_models.data.gold import Box, Gold, Span, covered, of_the_whole
from limelight_models.index import recipe
from limelight_models.tasks.aspects import opposed, sentence
from limelight_models.training import session

TOKENS = attention_pb2.LABEL_KIND_TOKENS


def text(example: Example, name: str = "text") -> str:
    value = example.instance[name]
    assert isinstance(value, Text)
    return value.text


def read(example: Example, place: object) -> str:
    assert isinstance(place, Span)
    return text(example, place.input)[place.start : place.end]


def pairs(example: Example) -> list[tuple[str, list[str]]]:
    return [(read(example, each.of), [read(example, key) for key in each.keys]) for each in example.gold]


@pytest.mark.parametrize(
    ("form", "language", "written", "parts"),
    [
        ("{d} {mon} '{yy}", "en", "24 Mar '98", ["98", "Mar", "24"]),
        ("{month} {th}, {year}", "en", "March 24th, 1998", ["1998", "March", "24th"]),
        ("{weekday}, den {th} {month} {year}", "de", "Dienstag, den 24. März 1998", ["1998", "März", "24."]),
        ("{mm}/{dd}/{year}", "fr", "03/24/1998", ["1998", "03", "24"]),
    ],
)
def test_each_part_of_a_date_comes_from_the_whole_of_its_own(
    form: str, language: str, written: str, parts: list[str]
) -> None:
    made, places = dates.write(dates.Day(1998, 3, 24), form, LANGUAGES[language], random.Random(0))
    example = Example({"text": Text(made), "target": Text("1998-03-24")}, gold=dates.gold(places))
    assert made == written
    assert pairs(example) == [(each, [part]) for each, part in zip(("1998", "03", "24"), parts, strict=True)]


def test_every_date_has_gold_for_all_but_its_hyphens() -> None:
    for example in dates.dataset(training=300, held_out=1).train:
        assert "".join(written for written, _ in pairs(example)) in ("", text(example, "target").replace("-", ""))
        for written, (key,) in pairs(example):
            assert int(key) % 100 == int(written) % 100 if key.isdigit() else len(key) > 1


def test_names_of_a_headline_come_from_where_they_stand_and_no_other_part_has_them() -> None:
    made = headlines.dataset(training=300, held_out=60)
    parts = [{key for each in part for _, (key,) in pairs(each)} for part in (made.train, made.dev, made.test)]
    assert all(written == key for each in made.train for written, (key,) in pairs(each))
    assert not (parts[0] & (parts[1] | parts[2]) or parts[1] & parts[2]) and min(map(len, parts)) > 60


def test_heads_of_the_grammar_are_one_tree_and_roles_follow_from_the_verb() -> None:
    seen, said = set(), defaultdict(set)
    for example in roles.dataset().train[:300]:
        words = example.instance["document"]
        assert isinstance(words, Sentences)
        heads = [key.sentence for gold in example.gold for key in gold.keys if isinstance(key, Span)]
        (root,) = (number for number, head in enumerate(heads) if number == head)
        for number, tag in enumerate(example.labels):
            above = number
            for _ in heads:
                above = heads[above] or 0
            assert above == root
            if tag not in ("O", "B-verb", "B-place"):
                verb = heads[number] or 0
                passive, before = words.texts[verb - 1] in ("was", "is"), number < verb
                assert example.labels[verb] == "B-verb"
                said[words.texts[verb]].add((tag, (before and words.texts[number] != "whom") != passive))
                seen.add((before, passive, "B-verb" in example.labels[min(number, verb) + 1 : max(number, verb)]))
    assert len(seen) == 6  # another verb stands between some subjects and theirs
    pairs = [("agent", "patient"), ("experiencer", "stimulus"), ("stimulus", "experiencer")]  # who does, and the other
    assert set(map(frozenset, said.values())) == {
        frozenset({(f"B-{does}", True), (f"B-{other}", False)}) for does, other in pairs
    }


def test_a_pronoun_goes_back_to_one_of_its_kind_and_a_name_to_itself() -> None:
    kinds = ("she her herself", "he him himself", "they them themselves")
    seen = set()
    for example in antecedents.dataset().train[:300]:
        words = example.instance["document"]
        assert isinstance(words, Sentences)
        back = [key.sentence for gold in example.gold for key in gold.keys if isinstance(key, Span)]
        for number, (word, tag, before) in enumerate(zip(words.texts, example.labels, back, strict=True)):
            assert before is not None and before <= number and (before == number or tag == "B-mention")
            kind = next((each for each in kinds if word in each.split()), "")
            if before == number:
                assert not kind  # a pronoun always goes back
                continue
            first = before
            while back[first] != first:
                first = back[first] or 0
            earlier = words.texts[before]
            assert words.texts[first] == word or kind
            seen.add((kind, earlier in kind.split()))
    assert len(seen) >= 6


@pytest.mark.parametrize(
    ("language", "number", "digits"),
    [
        ("German", 47, [("4", ["vierzig"]), ("7", ["sieben"])]),
        ("French", 72, [("7", ["soixante", "douze"]), ("2", ["douze"])]),
        ("English", 30_407, [("3", ["thirty"]), ("4", ["four hundred"]), ("7", ["seven"])]),
        ("Italian", 28, [("2", ["vent"]), ("8", ["otto"])]),
    ],
)
def test_each_digit_comes_from_the_words_that_say_it(language: str, number: int, digits: list) -> None:
    pieces = numerals.LANGUAGES[language](number, random.Random(4))
    whole = Text(numerals.said(pieces))
    example = Example({"text": whole, "target": Text(str(number))}, gold=numbers.gold(number, pieces))
    assert pairs(example) == digits


@pytest.mark.parametrize("rule", transductions.RULES)
@pytest.mark.parametrize("longer", [False, True])
def test_a_rewritten_character_comes_from_one_like_it(rule: str, longer: bool) -> None:
    made = transductions.dataset(rule, training=80, held_out=20, lengths=(2, 5), longer=longer)
    parts = [{text(each) for each in part} for part in (made.train, made.dev, made.test)]
    assert [len(part) for part in parts] == [80, 20, 20] and len(set.union(*parts)) == 120
    assert made == transductions.dataset(rule, training=80, held_out=20, lengths=(2, 5), longer=longer)
    for each in (*made.train, *made.test):
        assert "".join(written for written, _ in pairs(each)) == text(each, "target")
        assert all(set(keys) == {written} or written == "." for written, keys in pairs(each))
    letters = [sum(map(str.isalpha, text(each))) for each in made.test]
    assert all(5 < count <= 10 for count in letters) if longer else max(letters) <= 5
    assert made.name == f"Letters: {rule}, {'6 to 10' if longer else '2 to 5'} of them"


def test_what_is_held_out_may_be_written_to_its_end() -> None:
    luong = recipe("luong")
    for lengths, most in (((4, 16), 64), ((4, 60), 121)):  # a letter is a token, and one ends them
        made = transductions.dataset("copy", training=80, held_out=90, lengths=lengths, longer=True)
        assert luong.prepare(made, luong.presets["demo"]).config.max_new_tokens == most
    words = luong.prepare(made, luong.presets["full"]).config  # tokens are pieces: as the model has it
    assert words.max_new_tokens == 64


def test_what_the_rules_are() -> None:
    chance = random.Random(0)
    assert transductions.reverse("qbbd", chance) == ("qbbd", "dbbq", [[3], [2], [1], [0]])
    assert transductions.sort("qbbd", chance)[1:] == ("bbdq", [[1, 2], [1, 2], [3], [0]])
    for _ in range(20):
        written, done, places = transductions.delay("qbbd", chance)
        late = int(written[0])
        assert done == "." * late + "qbbd"[:-late] and places[late:] == [[1 + n] for n in range(4 - late)]
        written, done, places = transductions.expand("qb", chance)
        assert done == "q" * int(written[1]) + "b" * int(written[3])
        assert places == sorted(places)


@settings(max_examples=30, deadline=None)
@given(tokens=st.sampled_from((16, 65, 200)), seed=st.integers(0, 99), form=st.sampled_from(list(recall.FORMS)))
def test_what_is_recalled_stands_where_the_gold_says(tokens: int, seed: int, form: str) -> None:
    example = recall.FORMS[form](tokens, random.Random(seed))
    words = text(example).split(" ")
    assert len(words) == tokens
    if example.label:
        (gold,) = example.gold
        assert gold.of is None and [read(example, key) for key in gold.keys] == [example.label]
        asked = words[-1]
        assert words[words.index(asked) + 1] == example.label
    else:
        wanted = text(example, "target").split(" ")
        assert [(word, [word]) for word in wanted] == pairs(example)
        if form == "recall":
            begin = 2 * (tokens // 8)
            asked_for = [word for word in words[begin:] if word != recall.FILLER]
            assert wanted == [words[words.index(key) + 1] for key in asked_for]
        else:
            assert wanted == [word for word in words if word != recall.FILLER]


OPINIONS = {
    label: {opinion for _, opinions in clauses for opinion in opinions} for label, clauses in aspects.CLAUSES.items()
}


@pytest.mark.parametrize("form", ["targets", "questions"])
def test_the_gold_of_a_thing_is_what_is_said_of_it(form: aspects.Form) -> None:
    made = aspects.dataset(form=form, seed=2, training=60, held_out=20)
    for part in (made.train, made.dev, made.test):
        for example in part:
            (gold,) = example.gold
            (place,) = gold.keys
            assert isinstance(place, Span)
            if form == "questions":
                pair = example.instance["pair"]
                assert isinstance(pair, Pair) and place.input == "pair.second"
                assert pair.second[place.start : place.end] in OPINIONS[example.label]
                assert any(thing in pair.first and thing in pair.second for thing in aspects.THINGS)
            else:
                assert read(example, place) in OPINIONS[example.label]
                assert text(example, "target") in aspects.THINGS
    assert made == aspects.dataset(form=form, seed=2, training=60, held_out=20)
    assert made.labels == aspects.LABELS
    whole = [{sentence(each) for each in part} for part in (made.train, made.dev, made.test)]
    assert [len(part) for part in whole] == [60, 20, 20] and len(set.union(*whole)) == 100
    apart = {sentence(made.test[number]) for pair in opposed(made.test) for number in pair}
    assert apart == whole[2], "every sentence has things that are not thought of alike"


def test_targets_in_sentences_asked_as_questions(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"left": "", "target": "Fish ", "right": ", then tea.", "label": "neutral"}))
    (asked,) = row_files.read(path, rows.ASPECT_QUESTIONS)
    assert asked == Example({"pair": Pair("what about the Fish?", "Fish , then tea.")}, "neutral")
    (parts,) = row_files.read(path, rows.ASPECTS)
    assert text(parts, "left") == "." and sentence(parts) == sentence(asked) == "Fishthentea"


def test_gold_is_part_of_what_data_are() -> None:
    made = transductions.dataset("copy", training=4, held_out=2)
    moved = dataclasses.replace(made.train[0], gold=made.train[0].gold[1:])
    other = dataclasses.replace(made, train=(moved, *made.train[1:]))
    assert isinstance(other, Dataset) and other.fingerprint != made.fingerprint


def test_tokens_on_a_place() -> None:
    # "new york, new" as ne|w|york|,|new, and a special token behind
    labels = Labels(
        "tokens", TOKENS, 6, starts=(0, 2, 4, 8, 10, 13), ends=(2, 3, 8, 9, 13, 13),
        special=(False,) * 5 + (True,), inputs=("text",),
    )  # fmt: skip
    assert covered(labels, (Span("text", 1, 5),)).tolist() == [True, True, True, False, False, False]
    assert covered(labels, (Span("text", 0, 2), Span("text", 9, 20))).nonzero()[0].tolist() == [0, 4]
    assert not covered(labels, (Span("other", 0, 20), Box("text", 0, 0, 9, 9))).any()
    assert of_the_whole(labels).nonzero()[0].tolist() == [5]


def test_words_of_sentences_and_of_a_pair() -> None:
    words = Labels(
        "words", TOKENS, 4, starts=(0, 3, 0, 3), ends=(2, 5, 2, 5), parents=(0, 0, 1, 1), inputs=("document",)
    )
    sentences = Labels("s", attention_pb2.LABEL_KIND_SENTENCES, 2, starts=(0, 0), ends=(5, 5), inputs=("document",))
    place = Span("document", 3, 5, sentence=1)
    assert covered(words, (place,)).tolist() == [False, False, False, True]
    assert covered(sentences, (place,)).tolist() == [False, True]
    both = Labels(
        "both", TOKENS, 2, starts=(0, 0), ends=(2, 2), inputs=("pair.first", "pair.second"), input_indices=(0, 1)
    )
    assert covered(both, (Span("pair.second", 0, 9),)).tolist() == [False, True]


def test_cells_of_a_picture_whatever_its_size() -> None:
    description = model_pb2.LabelSetDescription(name="cells", kind=attention_pb2.LABEL_KIND_GRID, input="image")
    description.grid.CopyFrom(attention_pb2.Grid(rows=2, columns=4, leading=["class"]))
    labels = grid_labels(description, attention_pb2.Region(left=0, top=0, right=80, bottom=20))  # cells of 20 x 10
    found = covered(labels, (Box("image", 21, 1, 39, 9),))
    assert found.nonzero()[0].tolist() == [2]
    assert covered(labels, (Box("image", 38, 8, 42, 12),)).nonzero()[0].tolist() == [2, 3, 6, 7]  # a quarter in each
    assert covered(labels, (Box("image", 0, 0, 24, 10),)).nonzero()[0].tolist() == [1]  # a fifth of the next cell
    assert covered(labels, (Box("image", 0, 0, 80, 20),)).sum() == 8
    assert of_the_whole(labels).tolist() == [True, *[False] * 8]
    assert not covered(grid_labels(description), (Box("image", 0, 0, 80, 20),)).any()  # no picture was sent


def test_an_axis_of_no_input_asks_for_the_whole() -> None:
    one = Labels("document", attention_pb2.LABEL_KIND_ONE, 1)
    assert of_the_whole(one).tolist() == [True]
    assert np.array_equal(covered(one, Gold((Span("text", 0, 3),)).right), [False])


def test_builtin_data_by_name() -> None:
    assert load("reverse-longer", rows.PAIRS, 1).name == "Letters: reverse"
    with pytest.raises(DataError, match="there is no builtin data 'revert'; there are dates, digits"):
        load("revert", rows.PAIRS, 0)
    with pytest.raises(DataError, match="'one-64' are texts; this model learns from pairs"):
        load("one-64", rows.PAIRS, 0)
    assert all(name == name.lower() for name in SETS)
    assert session.load(session.Source("builtin:digits", 0), recipe("vit")).name.startswith("Optical")
    with pytest.raises(DataError, match="'copy' are pairs; this model learns from images"):
        session.load(session.Source("builtin:copy", 0), recipe("vit"))
    assert (
        session.Order(model="vit", out=Path(), data="builtin:digits", changes={}).chosen()
        == recipe("vit").presets["demo"]
    )


def test_stories_with_the_facts_that_answer(tmp_path: Path) -> None:
    told = "1 Mary got the milk.\n2 John left.\n3 Where is the milk? \tkitchen\t1\n4 Mary ran.\n5 Who?\tMary\t4 1\n"
    (tmp_path / "qa_train.txt").write_text(told * 10)
    (tmp_path / "qa_test.txt").write_text(told)
    made = folder.load(tmp_path / "qa_train.txt", folder.STORIES)
    assert [len(part) for part in (made.train, made.dev, made.test)] == [18, 2, 2]
    first, second = made.test
    assert first.instance == {
        "document": Sentences(("Mary got the milk.", "John left.")),
        "question": Text("Where is the milk?"),
    }
    assert first.label == "kitchen" and first.gold == (Gold((Span("document", 0, 18, sentence=0),), in_turn=True),)
    assert [key.sentence for key in second.gold[0].keys if isinstance(key, Span)] == [2, 0]
    for wrong, message in (("1 a\tb\t7\n", "line 1: is no question"), ("one\n", "line 1: is no number")):
        (tmp_path / "qa_test.txt").write_text(wrong)
        with pytest.raises(DataError, match=message):
            folder.load(tmp_path / "qa_train.txt", folder.STORIES)
    with pytest.raises(DataError, match="is no file of stories"):
        folder.load(tmp_path / "qa_test.txt", folder.STORIES)


def test_made_up_stories_are_answered_by_the_facts_that_are_said_to() -> None:
    made = moves.dataset(seed=1)
    parts = (made.train, made.dev, made.test)
    assert len({each.instance["document"] for part in parts for each in part}) == sum(map(len, parts))
    kinds = set()
    for example in made.train:
        story, question = example.instance["document"], example.instance["question"]
        assert isinstance(story, Sentences) and isinstance(question, Text)
        facts = [key.sentence for key in example.gold[0].keys if isinstance(key, Span) and key.sentence is not None]
        asked = question.text.removeprefix("Where is ").removesuffix("?")
        if len(facts) == 2:  # somebody took the thing
            who, _, thing = story.texts[facts[0]].partition(" took ")
            assert thing == f"{asked}."
            asked = who
        moved = [number for number, fact in enumerate(story.texts) if fact.startswith(f"{asked} went")]
        assert moved[-1] == facts[-1] and story.texts[moved[-1]] == f"{asked} went to the {example.label}."
        kinds.add(len(facts))
    assert kinds == {1, 2}
