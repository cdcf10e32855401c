"""Words with tags, a line a word and a blank line behind each sentence, as the shared tasks of CoNLL have them.

The first column is the word and the last its tag (`B-person`, `I-person`, `O`), parted by tabs or spaces; what stands
between them is not read, nor are lines of `-DOCSTART-`.
"""

from collections.abc import Iterator
from pathlib import Path

from limelight_models.data.dataset import DataError
from limelight_models.data.lines import whole_lines

SUFFIXES = (".conll", ".conll.gz")
_BEGIN = "-DOCSTART-"


def sentences(path: Path) -> Iterator[dict[str, list[str]]]:
    """The `words` and the `tags` of each sentence. Raises: DataError naming the line that is wrong."""
    words: list[str] = []
    tags: list[str] = []
    for number, line in whole_lines(path):
        fields = line.split()
        if fields and fields[0] != _BEGIN:
            if len(fields) < 2:
                raise DataError(f"{path}, line {number}: is no word and its tag")
            words.append(fields[0])
            tags.append(fields[-1])
        elif words:
            yield {"words": words, "tags": tags}
            words, tags = [], []
    if words:
        yield {"words": words, "tags": tags}
