"""The data that need no download."""

import datetime
import sys
from pathlib import Path

from bundle.values import Image, Sentences, Text
from models.data import dates, digits, docstrings, names
from models.data.dataset import Dataset
from models.tasks.entities import entities


def texts(dataset: Dataset, part: str, name: str) -> list[str]:
    return [value.text for each in getattr(dataset, part) if isinstance(value := each.instance[name], Text)]


def test_no_date_is_in_two_parts_and_every_target_is_its_iso_form() -> None:
    made = dates.dataset(seed=3, training=300, held_out=40)
    targets = [texts(made, part, "target") for part in ("train", "dev", "test")]
    assert [len(part) for part in targets] == [300, 40, 40]
    assert len({target for part in targets for target in part}) == 380
    for part in targets:
        for target in part:
            assert datetime.date.fromisoformat(target).isoformat() == target
    assert made == dates.dataset(seed=3, training=300, held_out=40)
    assert made.fingerprint != dates.dataset(seed=4, training=300, held_out=40).fingerprint


def test_every_way_to_write_a_date() -> None:
    date = datetime.date(1998, 3, 3)
    written = [dates.write(date, form)[0] for form in dates.LONG + dates.NUMERIC + dates.SHORT]
    assert len(set(written)) == len(written)
    for wanted in ("March 3rd, 1998", "Tuesday, 3 March 1998", "mardi 3 mars 1998", "Dienstag, den 3. März 1998"):
        assert wanted in written
    assert "martes, 3 de marzo de 1998" in written and "3/3/98" in written
    assert [dates.ordinal(day) for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23)] == (
        "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd".split()
    )


def library(root: Path) -> Path:
    """A small library: twelve modules of each of two families, one of which cannot be parsed or imported."""
    sentence = "This {0} number {1} says something about {0} at some length, so that it counts."
    for family in ("http", "tkinter"):
        (root / family / "test").mkdir(parents=True)
        for number in range(12):
            doc = "\n\n".join(sentence.format(family, f"{number} {line}") for line in range(5))
            code = f'"""{doc}"""\nraise SystemExit("imported")\n\n\ndef f():\n    """Short."""\n'
            (root / family / f"m{number}.py").write_text(code)
        (root / family / "test" / "m.py").write_text(
            '"""' + "A test says nothing of what a family is for. " * 9 + '"""'
        )
    (root / "http" / "broken.py").write_text("def (:")
    return root


def test_documents_are_docstrings_of_whole_modules_never_imported(tmp_path: Path) -> None:
    made = docstrings.dataset(seed=1, library=library(tmp_path))
    assert made.labels == ("graphics", "internet")
    where = [
        {text.split("number ")[1].split()[0] + text[:9] for text in texts(made, part, "document")}
        for part in ("train", "dev", "test")
    ]
    assert not (where[0] & where[1] or where[0] & where[2] or where[1] & where[2])
    assert [len(getattr(made, part)) for part in ("train", "dev", "test")] == [20, 2, 2]
    assert all("Short." not in text and "A test" not in text for text in texts(made, "train", "document"))
    assert made == docstrings.dataset(seed=1, library=tmp_path)


def test_this_python_has_documents_of_every_family() -> None:
    before = set(sys.modules)
    made = docstrings.dataset()
    assert made.labels == tuple(sorted(docstrings.FAMILIES))
    assert {each.label for each in made.test} == {each.label for each in made.dev} == set(made.labels)
    assert len(made.train) > 800
    assert not {"tkinter", "turtle", "idlelib"} & (set(sys.modules) - before)


def test_digits_are_png_files_and_every_class_is_held_out() -> None:
    made = digits.dataset()
    assert (len(made.train), len(made.dev), len(made.test)) == (1437, 180, 180)
    assert {each.label for each in made.test} == {str(digit) for digit in range(10)}
    image = made.train[0].instance["image"]
    assert isinstance(image, Image) and image.data.startswith(b"\x89PNG")


def test_made_up_names_are_tagged_and_in_one_part_only() -> None:
    made = names.dataset(seed=3, training=200, held_out=60)
    assert made.fingerprint == names.dataset(seed=3, training=200, held_out=60).fingerprint
    assert made.labels == tuple(sorted(["O", *(f"{how}-{kind}" for how in "BI" for kind in names.KINDS)]))
    used = []
    for part in (made.train, made.dev, made.test):
        found = set()
        for each in part:
            words = each.instance["document"]
            assert isinstance(words, Sentences) and len(words.texts) == len(each.labels)
            found |= {" ".join(words.texts[begin:end]).lower() for _, begin, end in entities(each.labels)}
        used.append(found)
    assert not used[0] & (used[1] | used[2]) and not used[1] & used[2]
