"""Claims of papers about their models, and verdicts from the runs here."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from limelight_models.index import CONTROLS, ZOO, published
from research.mechanisms.statistics import Prior, holm
from research.replication.differences import (
    ALIGNMENT_ERRORS,
    CLAIMED,
    CONICITY,
    COSINE,
    Difference,
    differences,
    seeds_prior,
)
from research.replication.figures import FORECAST, WEIGHT, Record
from research.replication.judging import CANNOT, NOT_RUN, judged_controls, p_value, verdict

# One hop has all of it; too few to be learned, or to tell two models apart; nothing that is not in the cell itself.
_ONE_FACT, _TOO_FEW = "qa1_single-supporting-fact_train", ("nlvr_mini", "squad_small")
_DIGITS, _MASKS = "Optical recognition of handwritten digits", "Handwritten digits on a canvas: masks"
_GATE, _CROSS = f"{WEIGHT}, gate.0", f"{WEIGHT}, decoder.cross"


@dataclass(frozen=True)
class Claim:
    """That a model has more than others. better, above: names of the zoo.

    less: by how many points it may have less where the claim is that it is no worse. figure: of which it is claimed,
    where it is not the model's own (`differences`). own: a claim of this project and not of the paper, whose comparison
    the paper does not make. cannot: data that cannot show it, on which it is not judged while there are others.
    """

    paper: str
    says: str
    better: str
    above: tuple[str, ...]
    less: float = 0.0
    figure: str = ""
    own: bool = False
    cannot: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model's row of the catalogue."""
        return ZOO[published(self.better)].row


CLAIMS = (
    Claim("Bahdanau 2015", "an alignment for each word beats one vector", "bahdanau", ("bahdanau-last",)),
    Claim("Bahdanau 2015", "coverage (Tu 2016) helps", "bahdanau-coverage", ("bahdanau",), own=True),
    Claim("Zhang 2020", "a source read anew before each token beats one that stays", "gru-gated", ("bahdanau",)),
    Claim("Luong 2015", "a window around a predicted place is no worse (by a point)", "luong-local-p", ("luong",), 1),
    Claim(
        "Luong 2015",
        "a window around a predicted place aligns as well (by a point)",
        "luong-local-p",
        ("luong",),
        1,
        ALIGNMENT_ERRORS,
    ),
    Claim("Cheng 2016", "two directions that agree rewrite better than apart", "agreement", ("agreement-apart",)),
    Claim(
        "Cheng 2016",
        "two directions that agree look more where they should",
        "agreement",
        ("agreement-apart",),
        figure=_CROSS,
    ),
    Claim("Luong 2015", "input feeding helps", "luong", ("luong-unfed",)),
    Claim(
        "Xu 2015",
        "hard attention is no worse than soft (by a point)",
        "show-attend-tell-hard",
        ("show-attend-tell",),
        1,
    ),
    Claim(
        "Xu 2015",
        "attention beats equal weights, and frozen ones",
        "show-attend-tell",
        ("show-attend-tell-uniform", "show-attend-tell-frozen"),
        own=True,
    ),
    Claim(
        "Chan 2016",
        "a pyramid that halves the steps beats as many layers over every frame",
        "listen-attend-spell",
        ("listen-attend-spell-flat",),
    ),
    Claim("Kim 2017", "CTC beside attention beats attention alone", "joint-ctc", ("joint-ctc-attention",)),
    Claim(
        "Chan 2016",
        "seeing where it looked before (Chorowski 2015) helps",
        "listen-attend-spell-location",
        ("listen-attend-spell",),
        own=True,
    ),
    Claim(
        "Lu 2016",
        "co-attention beats the question's or the picture's alone",
        "hiecoatt",
        ("hiecoatt-question", "hiecoatt-image"),
        cannot=_TOO_FEW,
    ),
    Claim("Yang 2016", "attention beats averages of words and sentences", "han", ("han-mean",)),
    Claim(
        "Li 2018", "transfer beats the labelled domain alone, and pivots alone", "hatn", ("hatn-source", "hatn-pnet")
    ),
    Claim("Vaswani 2017", "attention alone beats recurrence with attention", "transformer", ("bahdanau",)),
    Claim(
        "Vaswani 2017",
        "what it answers by is the attention that it learned",
        "transformer",
        ("transformer-uniform", "transformer-frozen"),
        own=True,
    ),
    Claim("Ma 2020", "several heads that move beat one", "monotonic-multihead", ("monotonic-multihead-one",)),
    Claim(
        "Correia 2019",
        "learned sparsity costs no accuracy (no worse by a point)",
        "adaptively-sparse",
        ("transformer",),
        1,
    ),
    Claim(
        "Bhojanapalli 2020",
        "many heads of a fixed size beat as many that share",
        "fixed-heads",
        ("fixed-heads-divided",),
    ),
    Claim("Tay 2021", "weights without comparisons do as well (by a point)", "synthesizer", ("transformer",), 1),
    Claim("Tay 2021", "weights of places alone do as well (by a point)", "synthesizer-random", ("transformer",), 1),
    Claim("Bapna 2018", "a mixture of layers trains deep encoders better", "transparent", ("transparent-last",)),
    Claim("Dehghani 2019", "steps as a token needs them beat the same number", "universal", ("universal-fixed",)),
    Claim("Veličković 2018", "GATv2's score (Brody 2022) beats the paper's", "gat-v2", ("gat",), own=True),
    Claim("Zhang 2018", "a gate of each head beats heads that all count in full", "gaan", ("gaan-ungated",)),
    Claim("Zhang 2018", "in a recurrent unit as well", "ggru", ("ggru-ungated",), figure=FORECAST),
    Claim("Nie 2018", "co-attention beats averages of both", "entity-co-attention", ("entity-co-attention-uniform",)),
    Claim("He 2018", "near in the tree beats near in the text", "syntax-attention", ("syntax-attention-text",)),
    Claim(
        "Zhang 2018",
        "attention to the head word of a span helps",
        "coreference",
        ("coreference-uniform",),
        figure="antecedents found",
        own=True,
    ),
    Claim("Strubell 2018", "a head that is taught the parse helps", "lisa", ("lisa-free",)),
    Claim(
        "Touvron 2021",
        "a teacher's classes teach better than the label twice",
        "deit",
        ("deit-label",),
        cannot=(_DIGITS,),
    ),
    Claim(
        "Touvron 2021",
        "a teacher's classes teach better than its softened probabilities",
        "deit",
        ("deit-soft",),
        cannot=(_DIGITS,),
    ),
    Claim(
        "El-Nouby 2021",
        "attention between channels adds to neighbouring patches",
        "xcit",
        ("xcit-local",),
        cannot=(_DIGITS,),
    ),
    Claim("Pan 2021", "the average of the last tokens beats a class token", "hvt-whole", ("vit",), cannot=(_DIGITS,)),
    Claim(
        "Pan 2021",
        "half of the tokens on the way do nearly as well as all (by two points)",
        "hvt",
        ("hvt-whole",),
        2,
        cannot=(_DIGITS,),
    ),
    Claim(
        "Wang 2020",
        "learning a teacher's last layer first beats the task alone",
        "minilm",
        ("minilm-alone",),
        cannot=(_DIGITS,),
    ),
    Claim("Wallaart 2019", "more hops beat one", "lcr-rot-hop", ("lcr-rot-hop-one",)),
    Claim(
        "Wallaart 2019",
        "targets of one sentence are told apart",
        "lcr-rot-hop",
        ("lcr-rot-hop-uniform",),
        figure="told apart",
        own=True,
    ),
    Claim("Kiela 2018", "several embeddings beat each alone", "dme", ("dme-neighbours", "dme-spelling", "dme-learned")),
    Claim("Kiela 2018", "several embeddings, weighed, beat the same beside each other", "dme", ("dme-concatenated",)),
    Claim(
        "Kiela 2018",
        "several embeddings beat each alone where the sentence decides",
        "dme-contextualised",
        ("dme-neighbours", "dme-spelling", "dme-learned"),
    ),
    Claim("Shen 2018", "self-attention beats a BiLSTM of its size", "disan", ("disan-bilstm",)),
    Claim("Shen 2018", "attention among chosen tokens beats that among all", "resan", ("resan-soft",)),
    Claim(
        "Shen 2018",
        "blocks are no worse than all pairs (by a point; 85.7 % beside 85.6 % on SNLI)",
        "bi-blosan",
        ("disan",),
        1,
    ),
    Claim("Shen 2018", "attention among blocks adds to that within", "bi-blosan", ("bi-blosan-within",)),
    Claim("Sukhbaatar 2015", "several hops beat one", "memn2n", ("memn2n-one",), cannot=(_ONE_FACT,)),
    Claim("Kumar 2016", "several passes beat one", "dmn", ("dmn-one",), cannot=(_ONE_FACT,)),
    Claim("Kumar 2016", "gates that are taught answer better", "dmn", ("dmn-free",), own=True),
    Claim("Le 2020", "relations add to items", "associative-memory", ("associative-memory-items",), own=True),
    Claim("He 2017", "attention beats the average of words", "abae", ("abae-uniform",), figure="purity"),
    Claim("Cheng 2016", "attention to all tokens before beats an LSTM", "lstmn", ("lstmn-plain",)),
    Claim("Graves 2014", "a memory beats its controller alone", "ntm", ("ntm-lstm",)),
    Claim("Graves 2014", "where heads were adds to what stands in a slot", "ntm", ("ntm-content",), own=True),
    Claim(
        "Dhingra 2017",
        "several hops that filter beat one (77.9 % beside 69.5 % of the attention-sum reader on CNN)",
        "gated-reader",
        ("gated-reader-one",),
    ),
    Claim(
        "Dhingra 2017",
        "adding up a word's places beats a weighted mean (69.5 % beside 63.0 % on CNN)",
        "gated-reader-one",
        ("attentive-reader",),
    ),
    Claim(
        "Daniluk 2017",
        "states cut in three beat those that serve all ends",
        "key-value-predict",
        ("key-value-predict-one",),
    ),
    Claim(
        "Sordoni 2016",
        "a search of several steps beats one attention (73.3 % beside 69.5 % of the attention-sum reader on CNN)",
        "iterative-reader",
        ("iterative-reader-one", "gated-reader-one"),
    ),
    Claim("Sordoni 2016", "gates on what a step has found help", "iterative-reader", ("iterative-reader-ungated",)),
    Claim("Cui 2017", "a second attention beats the average of the first", "aoa-reader", ("aoa-reader-average",)),
    Claim(
        "Barbieri 2018",
        "weights for each label beat one row of weights for all",
        "label-wise-lstm",
        ("label-wise-lstm-shared",),
    ),
    Claim("You 2019", "weights for each label beat one row of weights", "attention-xml", ("attention-xml-shared",)),
    Claim(
        "Mohankumar 2020",
        "states differ more, by conicity, which its loss lowers",
        "diversity-lstm",
        ("diversity-lstm-plain",),
        figure=CONICITY,
    ),
    # Conicity can be low though states are alike, where few long ones point away from many short.
    Claim(
        "Mohankumar 2020",
        "states differ more, pair by pair",
        "diversity-lstm",
        ("diversity-lstm-plain",),
        figure=COSINE,
    ),
    Claim(
        "Mohankumar 2020",
        "states that differ more cost little accuracy (two points at most)",
        "diversity-lstm",
        ("diversity-lstm-plain",),
        2,
    ),
    Claim("Zhang 2019", "attention lowers the Fréchet distance", "sagan", ("sagan-plain",)),
    Claim("Li 2019", "both co-attentions count", "psac", ("psac-question", "psac-video")),
    Claim("Yu 2018", "self-attention adds to convolutions", "qanet", ("qanet-convolved",), cannot=_TOO_FEW),
    Claim(
        "Yu 2018", "what attention learns adds to frozen weights", "qanet", ("qanet-frozen",), own=True, cannot=_TOO_FEW
    ),
    Claim("Yang 2016", "two attention layers beat one", "san", ("san-one",)),
    Claim(
        "Vinyals 2015",
        "pointing beats reading what attention found (72.6 % beside 38.9 % of hulls of 50 points)",
        "pointer-network",
        ("pointer-network-fixed",),
    ),
    Claim(
        "See 2017",
        "copying beats writing alone (ROUGE-1 36.4 beside 31.3)",
        "pointer-generator",
        ("pointer-generator-writing",),
    ),
    Claim(
        "See 2017", "coverage helps (ROUGE-1 39.5 beside 36.4)", "pointer-generator", ("pointer-generator-uncovered",)
    ),
    Claim(
        "Rush 2015",
        "attention beats a bag of words (perplexity 27.1 beside 43.6)",
        "attention-summary",
        ("attention-summary-uniform",),
    ),
    Claim(
        "Vinyals 2015",
        "attention parses better than the last state alone (F1 88.3 beside less than 70)",
        "sequence-parser",
        ("sequence-parser-last",),
        figure="bracket F1",
    ),
    Claim(
        "Dozat 2017",
        "states that are stripped first parse better",
        "biaffine",
        ("biaffine-shallow",),
        figure="unlabelled attachment",
    ),
    Claim("Tan 2019", "more layers in which the streams meet are better", "lxmert", ("lxmert-one",)),
    Claim("Tan 2019", "two streams beat one, as Lu 2019 has it of ViLBERT", "lxmert", ("visualbert",), own=True),
    Claim(
        "Li 2019", "regions from the first layer on beat regions in the last alone", "visualbert", ("visualbert-late",)
    ),
    Claim("Yu 2019", "two layers beat one, and their encoder beats stacking", "mcan", ("mcan-one", "mcan-stacked")),
    Claim("Yu 2019", "four layers beat two", "mcan-four", ("mcan",)),
    Claim("Wang 2019", "two samplers beat soft attention", "rban", ("rban-soft",)),
    Claim("Oktay 2018", "gates segment better", "attention-unet", ("attention-unet-uniform",), cannot=(_MASKS,)),
    Claim(
        "Oktay 2018", "a gate learns what is sought", "attention-unet", ("attention-unet-frozen",), 0, _GATE, own=True
    ),
    Claim(
        "Winata 2019",
        "several embeddings of words beat each alone",
        "mme-words",
        ("mme-neighbours", "mme-spelling", "mme-learned"),
        cannot=("ner_wnut17",),  # one embedding alone tags no name at all
    ),
    Claim("Winata 2019", "words, subwords and characters beat words alone", "mme", ("mme-words",)),
    Claim("Wang 2018", "reconstruction in the loss helps", "rnn-capsule", ("rnn-capsule-probability",)),
    Claim(
        "Parikh 2016",
        "attention within sentences adds to that between them (86.8 % beside 86.3 % on all of SNLI)",
        "decomposable-attention-within",
        ("decomposable-attention",),
    ),
    Claim(
        "Sukhbaatar 2019",
        "a span that is learned is no worse than all (by a point)",
        "dynamic-span",
        ("dynamic-span-none",),
        1,
    ),
    Claim(
        "Yang 2018",
        "a Gaussian around a predicted place helps",
        "localness",
        ("localness-none",),
    ),
    Claim("Yang 2018", "a width that follows from the query beats a fixed one", "localness", ("localness-fixed",)),
    Claim(
        "Rocktäschel 2016",
        "each word's attention beats that of the last state (83.5 % beside 82.3 % on all of SNLI)",
        "word-by-word",
        ("word-by-word-once",),
    ),
    Claim("Wang 2017", "aspects and opinions that look for each other beat those that do not", "cmla", ("cmla-apart",)),
    Claim("Tang 2016", "words count as they are near, which helps", "deep-memory", ("deep-memory-none",)),
    Claim(
        "Yin 2016",
        "attention in the input and in pooling beats neither (MAP 0.692 on WikiQA)",
        "abcnn",
        ("abcnn-plain",),
    ),
    Claim("Yin 2016", "attention in pooling beats that in the input", "abcnn-pooling", ("abcnn-input",)),
    Claim(
        "dos Santos 2016",
        "weights by the other text beat the largest of each feature",
        "attentive-pooling",
        ("attentive-pooling-largest",),
    ),
    Claim(
        "Parmar 2018",
        "pixels near by are no worse than all before (by a point of tokens)",
        "image-transformer",
        ("image-transformer-whole",),
        1,
    ),
    Claim("Lin 2017", "the penalty between rows helps", "structured", ("structured-free",)),
    Claim("Lin 2017", "several rows beat one", "structured", ("structured-one",)),
    Claim("Shen 2021", "as good as softmax (by a point)", "efficient-attention", ("linear-transformer-softmax",), 1),
    Claim("Peng 2021", "as good as softmax (by a point)", "random-features", ("linear-transformer-softmax",), 1),
    Claim("Peng 2021", "a gate helps where tokens look back", "random-features-gated", ("random-features-causal",)),
    Claim(
        "Katharopoulos 2020",
        "as good as softmax (by a point)",
        "linear-transformer",
        ("linear-transformer-softmax",),
        1,
    ),
    Claim("Katharopoulos 2020", "sums decode as well as all keys (by a point)", "linear-gpt", ("gpt",), 1),
    Claim("Choromanski 2021", "as good as softmax (by a point)", "performer", ("linear-transformer-softmax",), 1),
    Claim("Choromanski 2021", "positive features beat trigonometric ones", "performer", ("performer-trigonometric",)),
    Claim("Choromanski 2021", "orthogonal features beat independent ones", "performer", ("performer-independent",)),
    Claim("Luo 2021", "numbers of distances add to random features", "relative-kernel", ("performer",)),
    Claim("Luo 2021", "as good as softmax (by a point)", "relative-kernel", ("linear-transformer-softmax",), 1),
    Claim(
        "Luo 2021",
        "queries and keys of length 1 are better estimated",
        "relative-kernel",
        ("relative-kernel-unnormalised",),
    ),
    Claim(
        "Wang 2020",
        "projected keys and values are no worse than all (by a point)",
        "linformer",
        ("linear-transformer-softmax",),
        1,
    ),
    Claim("Wang 2020", "one projection of both is no worse (by a point)", "linformer-shared", ("linformer",), 1),
    Claim(
        "Xiong 2021",
        "landmarks are no worse than softmax over all (by a point)",
        "nystromformer",
        ("linear-transformer-softmax",),
        1,
    ),
    Claim(
        "Lee 2019",
        "a set through points is judged as well as whole (by a point)",
        "set-transformer",
        ("set-transformer-whole",),
        1,
    ),
    Claim("Lee 2019", "a trained seed pools better than an average", "set-transformer", ("set-transformer-mean",)),
    Claim(
        "Ma 2021",
        "a pack that tokens read is no worse than softmax over all (by a point)",
        "luna",
        ("linear-transformer-softmax",),
        1,
    ),
    Claim(
        "Chen 2021",
        "a Gaussian kernel by Nyström is no worse than softmax (by a point)",
        "skyformer",
        ("linear-transformer-softmax",),
        1,
    ),
    Claim(
        "Lu 2021",
        "a Gaussian kernel through landmarks is no worse than softmax (by a point)",
        "softmax-free",
        ("linear-transformer-softmax",),
        1,
    ),
    Claim(
        "Ramachandran 2019",
        "scores that know distances beat those that do not",
        "stand-alone",
        ("stand-alone-unplaced",),
    ),
    Claim("Wang 2020", "places in queries, keys and values beat none", "axial", ("axial-unplaced",)),
    Claim("Wang 2020", "whole columns and rows beat a window", "axial", ("stand-alone",), cannot=(_DIGITS,)),
    Claim("Jaegle 2021", "asking the picture again beats one look", "perceiver", ("perceiver-once",)),
    Claim("Jaegle 2021", "rounds that share weights beat those of their own", "perceiver", ("perceiver-apart",)),
    Claim(
        "Zaheer 2020",
        "random blocks add to a window (85.1 F1 beside 76.4 on SQuAD)",
        "bigbird-random",
        ("bigbird-window",),
    ),
    Claim("Zaheer 2020", "as good as full attention (by a point)", "bigbird", ("linear-transformer-softmax",), 1),
    Claim(
        "Nguyen 2021",
        "better than full attention (60.7 % beside 58.7 % on the Long Range Arena)",
        "fmmformer",
        ("linear-transformer-softmax",),
    ),
    Claim("Zhu 2021", "better than full attention", "long-short", ("linear-transformer-softmax",)),
    Claim("Zhu 2021", "summaries add to a window", "long-short", ("routing-transformer-local",)),
    Claim("Zhu 2021", "norms of near and far keys help", "long-short", ("long-short-plain",)),
    Claim("Nguyen 2021", "what is near adds to kernels", "fmmformer", ("fmmformer-far",)),
    Claim(
        "Roy 2021",
        "clusters add to windows (perplexity 15.8 beside 18.3 on WikiText-103)",
        "routing-transformer",
        ("routing-transformer-local",),
    ),
    Claim("Kitaev 2020", "more rounds of hashing are better", "reformer", ("reformer-one",)),
    Claim("Kitaev 2020", "as good as full attention (by a point)", "reformer", ("linear-transformer-softmax",), 1),
    Claim("Zeng 2021", "as good as softmax (by a point)", "yoso", ("linear-transformer-softmax",), 1),
    Claim("Zeng 2021", "samples are no worse than expected weights (by a point)", "yoso", ("yoso-expected",), 1),
    Claim("Tay 2020", "sorted blocks add to a window", "sinkhorn", ("routing-transformer-local",)),
    Claim(
        "Child 2019",
        "on text, fixed patterns beat strided ones (0.99 bits beside 1.13 on Enwik8)",
        "sparse-transformer",
        ("sparse-transformer-strided",),
    ),
    Claim(
        "Child 2019",
        "as good as full attention (by a point; 0.99 bits beside 1.00 on Enwik8)",
        "sparse-transformer",
        ("linear-transformer-softmax",),
        1,
    ),
    Claim("Dao 2024", "fading as each token says beats fading alike", "mamba-2", ("mamba-2-fixed",)),
    Claim(
        "Dao 2024",
        "recalls as well as softmax does (by a point)",
        "mamba-2",
        ("linear-transformer-softmax-causal",),
        1,
    ),
    Claim(
        "Yang 2024",
        "a gate helps the delta rule (perplexity 16.42 beside 17.71)",
        "gated-deltanet",
        ("gated-deltanet-ungated",),
    ),
    Claim(
        "Yang 2024",
        "the delta rule helps a state that fades (perplexity 16.42 beside Mamba-2's 16.56)",
        "gated-deltanet",
        ("mamba-2",),
    ),
    Claim("Lin 2025", "forget gates help", "forgetting-transformer", ("forgetting-transformer-ungated",)),
    Claim(
        "Lin 2025",
        "as good as softmax with positions, without (by a point)",
        "forgetting-transformer",
        ("linear-transformer-softmax-causal",),
        1,
    ),
    Claim(
        "Tan 2024",
        "a stick replaces positions and softmax (by a point)",
        "stick-breaking",
        ("linear-transformer-softmax-causal",),
        1,
    ),
    Claim(
        "Ye 2024",
        "the difference of two softmaxes beats one",
        "differential-transformer",
        ("differential-transformer-softmax",),
    ),
    Claim(
        "Xiao 2023", "with a sink a window serves (no worse than softmax, by a point)", "sinks", ("sinks-softmax",), 1
    ),
    Claim("Su 2021", "turning by places beats adding them", "rotary", ("linear-transformer-softmax-causal",)),
    Claim(
        "DeepSeek-AI 2024",
        "short vectors serve better than separate heads (59.0 % beside 57.5 % on MMLU)",
        "latent-attention",
        ("latent-attention-separate",),
    ),
    Claim(
        "Yuan 2025",
        "no worse than softmax over all (by a point; 0.456 beside 0.443 on nine benchmarks)",
        "native-sparse",
        ("linear-transformer-softmax-causal",),
        1,
    ),
    Claim("Yuan 2025", "chosen blocks and blocks in brief add to a window", "native-sparse", ("native-sparse-window",)),
    Claim(
        "DeepSeek-AI 2025",
        "chosen keys are no worse than all (by a point)",
        "deepseek-sparse",
        ("linear-transformer-softmax-causal",),
        1,
    ),
    Claim(
        "DeepSeek-AI 2025",
        "keys that an index chooses beat the last ones",
        "deepseek-sparse",
        ("deepseek-sparse-last",),
    ),
    Claim("Qiu 2025", "gates behind heads help", "gated-attention", ("gated-attention-ungated",)),
)


def is_compared(figure: str, metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a claim may be about a figure of a run that has these: only of such are examples kept."""
    return figure == metrics[0]["name"] or figure in {each.figure for each in CLAIMS} | CLAIMED


@dataclass(frozen=True)
class Compared:
    """A claim on one set of data: the verdict of docs/results.md, and what it is made of.

    found: the model beside each that the claim puts below; empty where nothing was trained. prior: of the seeds'
    variance. aside: not judged, as the data cannot show it. learned: whether the model needs what its attention learns
    (`judging.LEARNED`). adjusted: the p value among those of all claims; 1 where there is none.
    """

    claim: Claim
    found: Mapping[str, Difference]
    prior: Prior
    aside: bool
    learned: str
    adjusted: float = 1.0

    @property
    def least(self) -> Difference | None:
        """The difference that says least for the claim, of several models below; None where nothing was trained."""
        return min(self.found.values(), key=lambda each: each.gain, default=None)

    @property
    def p_value(self) -> float | None:
        """By itself; None where it is not judged, or of one seed."""
        return None if self.aside else p_value(self.found.values(), self.claim.less, self.prior)

    @property
    def verdict(self) -> str:
        """The verdict on the claim, as the page writes it."""
        if self.aside:
            return CANNOT
        if len(self.found) < len(self.claim.above):
            return NOT_RUN
        return verdict(self.found.values(), self.claim.less, self.prior, self.adjusted, self.learned)


def compared(record: Record) -> list[Compared]:
    """Judge every claim on every set of data that can show it; p values are adjusted for being many (Holm)."""
    by_data = {claim: _by_data(record, claim) for claim in CLAIMS}
    controls = {
        (claim.better, data): [each for each in _of_controls(record, claim.better) if each.data == data]
        for claim, each in by_data.items()
        for data in each
    }
    found = [beside.values() for each in by_data.values() for beside in each.values()]
    of = seeds_prior(chain(*found, *controls.values()))
    learned = judged_controls(controls, of)
    judged = [
        Compared(
            claim, beside, of, data in claim.cannot and not set(each) <= set(claim.cannot), learned[claim.better, data]
        )
        for claim, each in by_data.items()
        for data, beside in each.items()
    ]
    adjusted = holm([each.p_value for each in judged])
    return [replace(each, adjusted=p) for each, p in zip(judged, adjusted, strict=True)]


def _by_data(record: Record, claim: Claim) -> dict[str, dict[str, Difference]]:
    """The differences of a claim, for each set of data by the model below; one of no name where there is none."""
    by_data: dict[str, dict[str, Difference]] = defaultdict(dict)
    for other in claim.above:
        for each in differences(record, claim.better, other, claim.figure):
            by_data[each.data][other] = each
    return by_data or {"": {}}


def _of_controls(record: Record, model: str) -> list[Difference]:
    return [each for control in CONTROLS for each in of_control(record, model, control)]


def of_control(record: Record, model: str, control: str) -> list[Difference]:
    """A model beside one of its controls, on each set of data."""
    return differences(record, model, f"{model}-{control}")
