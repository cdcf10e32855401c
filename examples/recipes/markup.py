"""Carry markup over in a translation: words in bold stay in bold, in the other language.

Each output token belongs to the source token that it attends to most, in the mean over layers and heads. Mistakes of
the alignment are mistakes of the markup: look at the map where it matters (Zenkel et al. 2019, "Adding Interpretable
Attention to Neural Translation Models Improves Word Alignment").

    python examples/recipes/markup.py dates "<b>7</b> March <i>2021</i>"
"""

import re
import sys

import numpy as np

import limelight

TAG = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)


def without_tags(text: str) -> tuple[str, list[tuple[str, int, int]]]:
    """Return the text without its tags, and the name, start and end of what each held. Tags do not nest."""
    plain, places, end = "", [], 0
    for found in TAG.finditer(text):
        plain += text[end : found.start()]
        places.append((found[1], len(plain), len(plain) + len(found[2])))
        plain += found[2]
        end = found.end()
    return plain + text[end:], places


def translate(client: limelight.Client, model: str, text: str, maps: str = "decoder.*cross") -> str:
    """Translate a text with tags; each tag holds the output from the first to the last token that belongs to it."""
    plain, places = without_tags(text)
    answer = client.attend(model, {"text": plain}, maps=maps, reduce="mean")
    source, steps = answer.maps[0].key, answer.maps[0].query
    weights = np.mean([each.weights[0] for each in answer.maps], axis=0)
    weights[:, source.special] = 0
    looked_at = weights.argmax(-1)
    translation, marks = answer.prediction.text, []
    for name, start, end in places:
        inside = (source.starts[looked_at] < end) & (source.ends[looked_at] > start)
        inside &= steps.ends > steps.starts  # the end token has no text
        if inside.any():
            first, last = int(steps.starts[inside].min()), int(steps.ends[inside].max())
            words = list(re.finditer(r"\w+", translation[first:last]))  # no tag begins or ends at punctuation
            if words:
                marks += [(first + words[0].start(), 1, f"<{name}>"), (first + words[-1].end(), 0, f"</{name}>")]
    for place, _, tag in sorted(marks, reverse=True):
        translation = translation[:place] + tag + translation[place:]
    return translation


if __name__ == "__main__":
    with limelight.Client("127.0.0.1:50051") as client:
        print(translate(client, *sys.argv[1:]))
