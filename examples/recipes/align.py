"""Which words of two sentences belong together, by hidden states of an encoder and by maps of a translation.

By hidden states two words are linked if each is the other's nearest (Jalili Sabet et al. 2020, "SimAlign": the method
*Argmax*; a middle layer of a multilingual encoder does best there). By maps each output token is linked to the source
token with most weight. Links are between tokens of words: a word of several is linked by any.

    python examples/recipes/align.py MODEL "the house is blue" "das Haus ist blau" 8
"""

import sys

import numpy as np

import limelight

Links = list[tuple[str, str]]


def by_states(client: limelight.Client, model: str, one: str, other: str, layer: int) -> Links:
    """Link words whose tokens are each other's nearest by the cosine of a layer's hidden states."""
    asked = limelight.Hidden(stacks="encoder", layers=layer)
    pieces, vectors = [], []
    for text in (one, other):
        answer = client.predict(model, {"text": text}, hidden=asked)
        (state,) = answer.hidden.values()
        labels = answer.label_sets[state.label_set]
        places = np.flatnonzero(~labels.special)
        vectors.append(np.asarray(state)[places])
        pieces.append([_word(text, *labels.offsets[place]) for place in places.tolist()])
    there, back = limelight.maxsim(vectors[0], vectors[1]).best, limelight.maxsim(vectors[1], vectors[0]).best
    found = [(pieces[0][place], pieces[1][best]) for place, best in enumerate(there.tolist()) if back[best] == place]
    return list(dict.fromkeys(found))


def by_maps(client: limelight.Client, model: str, text: str, translation: str, maps: str = "decoder.*cross") -> Links:
    """Link the words of a given translation with those that they attend to most, in the mean over layers and heads."""
    answer = client.attend(model, {"text": text, "target": translation}, maps=maps, reduce="mean")
    source, steps = answer.maps[0].key, answer.maps[0].query
    weights = np.mean([each.weights[0] for each in answer.maps], axis=0)
    weights[:, source.special] = 0
    written = answer.prediction.text
    found = [
        (_word(text, *source.offsets[best]), _word(written, start, end))
        for best, (start, end) in zip(weights.argmax(-1).tolist(), steps.offsets, strict=True)
        if end > start
    ]
    return list(dict.fromkeys(found))


def _word(text: str, start: int, end: int) -> str:
    """Widen a piece of a text to the white space around it."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return text[text.rfind(" ", 0, start) + 1 : start] + text[start:].split(" ")[0]


if __name__ == "__main__":
    model, one, other, *layer = sys.argv[1:]
    with limelight.Client("127.0.0.1:50051") as client:
        links = by_states(client, model, one, other, int(layer[0])) if layer else by_maps(client, model, one, other)
        print("\n".join(f"{word} - {partner}" for word, partner in links))
