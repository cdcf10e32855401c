"""Dhingra et al. (2017), §3.1; of one hop Kadlec et al. (2016), §3, but for who asks."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways_gru, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, ids = array(network.words.weight), tensors["second_ids"]
    sentence, x = table[tensors["first_ids"]], table[ids]
    found = {}
    for number, hop in enumerate(network.hops):
        document, query = both_ways_gru(hop.read_document, x), both_ways_gru(hop.read_sentence, sentence)
        alpha = np.array([softmax(query @ d) for d in document])  # eq. 6
        x = np.array([d * (row @ query) for d, row in zip(document, alpha, strict=True)])  # eq. 7, 8
        found[f"hop.{number}.cross"] = alpha[None]
    document, query = both_ways_gru(network.read_document, x), both_ways_gru(network.read_sentence, sentence)
    blanks = [place for place, word in enumerate(tensors["first_ids"]) if word == network.config.blank]
    s = softmax(document @ query[blanks or slice(None)].mean(0))  # eq. 9
    total = [sum(s[i] for i, word in enumerate(ids) if word == each) for each in network.config.answers]  # eq. 10
    return {"logits": np.log(np.array(total, float) + 1e-6), "document": s[None, None], **found}
