"""Order documents for a query by the attention of a language model: how much the query's words look at each.

The score is the sum over heads and layers of the weights from the query's tokens to a document's, less the same with
a query without meaning, which takes away what draws attention by itself (Chen et al. 2024, "Attention in Large Language
Models Yields Efficient Zero-Shot Re-Rankers"). Nothing is generated beyond one token; two calls order any number.

    python examples/recipes/rerank.py MODEL "where does the cat sleep" "The cat sleeps here." "Dogs run fast."
"""

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import limelight

NO_QUERY = "N/A"


def attention(client: limelight.Client, model: str, query: str, documents: Sequence[str]) -> NDArray[np.float64]:
    """Return the attention that each document gets from the query's tokens, [document]."""
    prompt, places = "Here are some paragraphs:\n", {}
    for number, document in enumerate(documents):
        prompt += f"[{number + 1}] "
        places[str(number)] = limelight.TextSpan(len(prompt), len(prompt) + len(document))
        prompt += f"{document}\n"
    prompt += "Please find the paragraphs that are relevant to the query.\nQuery: "
    asked = limelight.TextSpan(len(prompt), len(prompt) + len(query))
    answer = client.attend(
        model,
        {"text": prompt + query},
        maps="prompt.*.self",
        query_groups={"query": asked},
        key_groups=places,
        generation=limelight.Generation(max_new_tokens=1),
    )
    return np.sum([each.weights.sum(0, dtype=np.float64)[0] for each in answer.maps], axis=0)


def rerank(client: limelight.Client, model: str, query: str, documents: Sequence[str]) -> list[tuple[float, str]]:
    """Return score and document, best first."""
    scores = attention(client, model, query, documents) - attention(client, model, NO_QUERY, documents)
    order = np.argsort(-scores, kind="stable")
    return [(float(scores[place]), documents[place]) for place in order]


if __name__ == "__main__":
    model, query, *documents = sys.argv[1:]
    with limelight.Client("127.0.0.1:50051") as client:
        for score, document in rerank(client, model, query, documents):
            print(f"{score:+.4f} {document}")
