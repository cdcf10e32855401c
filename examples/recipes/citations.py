"""Which passage each sentence of an answer leans on: by attention, and by looking away from the passage.

Attention says where the model looked. Looking away says whether it mattered: how much less probable the same sentence
is when no layer reads the passage. Cohen-Wang et al. 2024 ("ContextCite") ablate contexts in this way.

    python examples/recipes/citations.py MODEL "Who sat?" "The cat sat on the mat." "The dog ran."
"""

import re
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import limelight


def cite(
    client: limelight.Client, model: str, question: str, passages: Sequence[str]
) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """Answer a question; return each sentence with the share of each passage in its attention, and its effect.

    The effect is the log-probability that the sentence loses without the passage, in nats.
    """
    prompt = "\n".join([*passages, question, ""])
    begins = np.cumsum([0, *(len(each) + 1 for each in passages)]).tolist()
    spans = [limelight.TextSpan(begin, begin + len(each)) for begin, each in zip(begins, passages, strict=False)]
    groups = {str(place): span for place, span in enumerate(spans)}
    answer = client.attend(model, {"text": prompt}, maps="decoder.*.self", key_groups=groups, reduce="mean")
    shares = np.mean([each.weights[0] for each in answer.maps], axis=0, dtype=np.float64)
    text, steps = answer.prediction.text, answer.maps[0].query
    given = {"text": prompt, "target_ids": np.array(answer.prediction.sequences[0].token_ids)}
    names = [each.name for each in client.model(model).maps if "key_factor" in each.interventions]

    def scores(*away: limelight.TextSpan) -> NDArray[np.float64]:
        """Return the log-probability of each token of the same answer."""
        changes = [limelight.scale_keys(name, span) for span in away for name in names]
        forced = client.predict(model, given, interventions=changes)
        return np.array(forced.sequences[0].log_probabilities)

    usual, without = scores(), [scores(span) for span in spans]
    found = []
    for sentence in re.finditer(r"[^.!?]+[.!?]*\s*", text):
        inside = np.flatnonzero((steps.starts < sentence.end()) & (steps.ends > sentence.start()))
        effects = np.array([(usual - each)[inside].sum() for each in without])
        found.append((sentence[0].strip(), shares[inside].mean(0), effects))
    return found


if __name__ == "__main__":
    model, question, *passages = sys.argv[1:]
    with limelight.Client("127.0.0.1:50051") as client:
        for sentence, share, effect in cite(client, model, question, passages):
            print(sentence)
            for place in np.argsort(-effect):
                print(f"  share {share[place]:.3f}, effect {effect[place]:+.3f}: {passages[place]}")
