"""The lookback ratio of each sentence that a model generates: how much it reads the prompt, and not its own words.

Ratios by head tell answers that hold to the prompt from invented ones (Chuang et al. 2024, "Lookback Lens: Detecting
and Mitigating Contextual Hallucinations in LLMs Using Only Attention Maps"); a classifier over them is yours to train.

    python examples/recipes/lookback.py MODEL "The cat sat on the mat. Where did the cat sit?"
"""

import re
import sys

import numpy as np
from numpy.typing import NDArray

import limelight


def lookback(answer: limelight.Attended) -> NDArray[np.float64]:
    """Return the ratio of each head at each output step, [step, layer, head]: 1 where only the prompt is read.

    The ratio is of the mean weight of a prompt's token to that and the mean weight of a generated one; 1 at the first
    step, which has generated none.
    """
    key, steps = answer.maps[0].key, answer.maps[0].query
    prompt = len(key) - key.origins.count(steps.name)  # generated tokens have the name of the output
    ratios = []
    for each in answer.maps:
        read = each.weights[:, :, :prompt].mean(-1, dtype=np.float64)
        own = each.weights[:, :, prompt:].sum(-1, dtype=np.float64) / np.maximum(np.arange(len(steps)), 1)
        ratios.append(read / (read + own))
    return np.stack(ratios).transpose(2, 0, 1)


def sentences(answer: limelight.Attended) -> list[tuple[str, NDArray[np.float64]]]:
    """Return each sentence of the generated text with its mean ratios, [layer, head]: features of a classifier."""
    ratios, steps = lookback(answer), answer.maps[0].query
    found = []
    for sentence in re.finditer(r"[^.!?]+[.!?]*\s*", answer.prediction.text):
        inside = (steps.starts < sentence.end()) & (steps.ends > sentence.start())
        if inside.any():
            found.append((sentence[0].strip(), ratios[inside].mean(0)))
    return found


if __name__ == "__main__":
    model, prompt = sys.argv[1:]
    with limelight.Client("127.0.0.1:50051") as client:
        for text, ratio in sentences(client.attend(model, {"text": prompt}, maps="decoder.*.self")):
            print(f"{ratio.mean():.3f} {text}")
