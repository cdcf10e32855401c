"""AttentionXML, K18 (You, Zhang, Wang, Dai, Mamitsuka & Zhu 2019): many labels of a text, found along a tree of them.

Fig. 1 of the paper: words, a bidirectional LSTM, weights over the words for each label, and a network that all labels
share; first of clusters of labels, then of the labels in them. Labels are clustered by the texts that they stand on, in
two levels here; every label is scored, where the paper scores those of the likeliest clusters.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from limelight_models.attention import Attention
from limelight_models.attention.queries.label_wise import LabelLinear, LabelWise
from limelight_models.attention.score import Dot
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, Classes, LabelSet, maps_of, numbered
from limelight_models.data import rows, tokenizers, topics
from limelight_models.data.dataset import Dataset, classes
from limelight_models.data.label_tree import clusters
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, TextSizes, preset, tiny
from limelight_models.recipes.recipe import TOKENIZER
from limelight_models.tasks.several import Several


class AttentionXmlConfig(TextSizes):
    """Sizes. parents: the cluster of each label. cluster: labels of one, at most.

    label_wise: whether each label has weights of its own; else all have the same, and a last layer tells them apart.
    """

    parents: tuple[int, ...]
    cluster: int = 8
    label_wise: bool = True
    d_embedding: int = 64
    d_hidden: int = 64
    d_shared: int = 64
    dropout: float = 0.3
    max_tokens: int = 256


class Level(nn.Module):
    """Log-odds of labels: a_ij = softmax_i(h_iᵀ w_j);  m_j = Σ_i a_ij h_i;  ŷ_j = w'ᵀ relu(W m_j) (§3.3).

    Shapes: states [batch, token, 2 d_hidden], mask bool [batch, token] -> [batch, label], weights [batch, 1, label,
        token].
    """

    def __init__(self, config: AttentionXmlConfig, labels: int) -> None:
        super().__init__()
        self.labels, d = labels, 2 * config.d_hidden
        queries = labels if config.label_wise else 1
        self.attention = LabelWise(attention=Attention(score=Dot()), labels=queries, d_q=d)
        self.shared = nn.Sequential(nn.Linear(d, config.d_shared), nn.ReLU(), nn.Dropout(config.dropout))
        self.put_out = nn.Linear(config.d_shared, 1) if config.label_wise else None
        self.apart = None if config.label_wise else LabelLinear(labels=labels, d_v=config.d_shared)

    def forward(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        found, weights = self.attention(states, mask=mask)
        shared = self.shared(found)
        if self.put_out is not None:
            return self.put_out(shared).squeeze(-1), weights
        assert self.apart is not None
        return self.apart(shared.expand(-1, self.labels, -1)), weights.expand(-1, -1, self.labels, -1)


class AttentionXml(Network):
    """Text -> the log-odds of each label, with the weights of the words for it and for its cluster.

    p(j) = p(cluster of j) p(j | its cluster), each σ(ŷ) of its level

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class], ln p / (1 - p), maps
        `clusters` [batch, 1, cluster, token], `labels` [batch, 1, class, token].
    """

    parents: Tensor

    def __init__(self, config: AttentionXmlConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BiLstm(d_in=config.d_embedding, d_hidden=config.d_hidden)
        self.clusters = Level(config, 1 + max(config.parents))
        self.labels = Level(config, config.classes)
        self.register_buffer("parents", torch.tensor(config.parents), persistent=False)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        states = self.dropout(self.encoder(self.dropout(self.embedding(tensors["token_ids"])), mask))
        of_clusters, above = self.clusters(states, mask)
        own, weights = self.labels(states, mask)
        parent = of_clusters[:, self.parents]
        # ln σ(x) = -softplus(-x), in a form that every runtime computes exactly far from 0.
        both = -softplus(-parent) - softplus(-own)
        neither = torch.stack([-softplus(parent), -softplus(-parent) - softplus(own)], -1).logsumexp(-1)
        return Answer({"logits": both - neither}, {"clusters": above, "labels": weights})


def card(network: AttentionXml, blueprint: Blueprint[AttentionXmlConfig]) -> Card:
    """Describe the network."""
    config, text = network.config, blueprint.text("A text.")
    named = LabelSet(name="classes", kind="classes", names=blueprint.labels)
    groups = numbered("clusters", "classes", "cluster", 1 + max(config.parents))
    above = Attends(groups, text.tokens(), "How much each word counts for each cluster of labels.", kind="pool")
    own = Attends(named, text.tokens(), "How much each word counts for each label.", kind="pool")
    return blueprint.card(
        network,
        title="AttentionXML",
        summary="Finds the labels of a text among many, first clusters of them, weighing its words for each.",
        inputs=[text],
        results=[Classes(labels=blueprint.labels, activation="sigmoid")],
        maps={
            **maps_of(network.clusters.attention, {"clusters": above}),
            **maps_of(network.labels.attention, {"labels": own}),
        },
        taxonomy="multiplicative, self-attentive",
        citation="You, Zhang, Wang, Dai, Mamitsuka, Zhu (2019): AttentionXML: Label Tree-based Attention-Aware Deep "
        "Model for High-Performance Extreme Multi-Label Text Classification. NeurIPS",
    )


def prepare(dataset: Dataset, chosen: Preset) -> Blueprint[AttentionXmlConfig]:
    """Choices from the training part: its words, its labels, and their clusters."""
    texts = tokenizers.texts_of([example.instance["text"] for example in dataset.train])
    tokenizer, labels = tokenizers.words(texts, vocabulary=chosen.vocabulary), classes(dataset)
    numbers = {label: number for number, label in enumerate(labels)}
    held = [[numbers[label] for label in example.labels] for example in dataset.train]
    most = chosen.sizes.get("cluster", AttentionXmlConfig.cluster)
    config = AttentionXmlConfig(
        vocabulary=tokenizers.size(tokenizer),
        classes=len(labels),
        parents=clusters(texts, held, len(labels), most),
        **chosen.sizes,
    )
    return Blueprint(config, labels, {TOKENIZER: tokenizer})


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=4, d_shared=6, cluster=2, dropout=0.1),
    "demo": preset(16, 32, 2e-2, vocabulary=1200, d_embedding=32, d_hidden=32, d_shared=32, cluster=5),
    "full": preset(12, 32, 2e-3, patience=3, vocabulary=10_000, d_hidden=128, d_shared=128),
    # Table 4 of the paper, for EUR-Lex.
    "paper": preset(30, 40, 1e-3, patience=8, vocabulary=500_000, d_embedding=300, d_hidden=256, d_shared=256),
}

ATTENTION_XML = Recipe(
    AttentionXmlConfig,
    AttentionXml,
    card,
    prepare,
    PRESETS,
    task=Several(),
    data=rows.SEVERAL,
    builtin=topics.dataset,
)
# One row of weights for all labels of a level.
ATTENTION_XML_SHARED = ATTENTION_XML.changed(label_wise=False)
