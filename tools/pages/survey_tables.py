"""Tables of the surveys, cell by cell: which row here stands for each, or that none does.

A cell is its name in the survey, then rows of the taxonomy, of which "ROW/WORD" takes the mechanisms with that word in
their names, rows of published models, or `hf:KIND` for checkpoints that the import of Hugging Face models reads. A cell
without a row is a gap.
"""

TABLES = {
    "Brauwers and Frasincar (2021), Table 2: score functions": """
additive (concatenate) | B1 B2
multiplicative (dot product) | B3
scaled multiplicative | B4
general | B5
biased general | B6
activated general | B7
similarity | B8
""",
    "Galassi, Lippi and Torroni (2021), Table 3: compatibility functions": """
similarity | B8
multiplicative or dot | B3
scaled multiplicative | B4
general or bilinear | B5
biased general | B6
activated general | B7
concat | B2
additive | B1
deep | B9
location-based | B10
""",
    "Galassi, Lippi and Torroni (2021), Table 4: aggregation functions of co-attention": """
pooling | G7/pooling
perceptron | G7/perceptron
linear transformation | G7/linear
attention over attention | G7/over
perceptron with nested attention | G7/nested
""",
    "Chaudhari et al. (2021), Table 2: alignment functions": """
similarity | B8
dot product | B3
scaled dot product | B4
general | B5
biased general | B6
activated general | B7
generalized kernel | B12
concat | B2
additive | B1
deep | B9
location-based | B10
feature-based | B11
""",
    "Chaudhari et al. (2021), Table 3: types of attention": """
distinctive sequences | J1 J2
co-attention | G1 G2 G3
self | H3
single-level | E1
multi-level | E2 E3
soft (global) | C1
hard | C3
local | C4 C5
multi-representational | F2
multi-dimensional | B14 D2
""",
    "Chaudhari et al. (2021), Table 4: key papers": """
Bahdanau 2015, translation | J1
Xu 2015, captions | J3
Luong 2015, translation | J2
Yang 2016, documents | J5
Chan 2016, speech (listen, attend and spell) |
Lu 2016, visual questions | J4
Wang 2017, coupled multi-layer attentions |
Ying 2018, recommendation (SHAN) |
Shen 2018, language understanding | J10
Kiela 2018, text representation | J9
""",
    "Chaudhari et al. (2021), Table 5: applications": """
machine translation | J1 J2 J7 hf:Marian
summarization | hf:BART
text classification and representation | J5 J9 hf:BERT
sentiment analysis | J8 J17
question answering | J13 J14 K3 hf:BERT
pre-trained language models | L2 hf:Llama
image classification | L7 hf:ViT
image generation | J11
object detection | hf:DETR
image synthesis | J11
description of images | J3
description of films |
speech recognition | J1 J2 hf:Whisper
visual question answering | J4 K10 K22 K26
human communication comprehension |
user profiling |
item and user representations |
exploiting auxiliary information |
graph classification |
graph to sequence |
node classification | K6
hyperedge detection |
""",
    "Galassi, Lippi and Torroni (2021), Table 1: tasks": """
document classification | J5
summarization | hf:BART
language modelling | L2
question answering | J13 J14 K3 hf:BERT
question answering over a knowledge base |
machine translation | J1 J2 J7
translation quality estimation |
pun recognition |
image captioning | J3
visual question answering | J4
task-oriented language grounding |
coreference resolution |
named entity recognition | J16 hf:BERT
correction of recognised characters |
abusive content detection | hf:BERT
entity disambiguation |
natural language inference | J10 K9
semantic relatedness | hf:BERT
semantic role labelling | P15
textual entailment | J10 K9
word sense disambiguation |
constituency parsing |
dependency parsing | P15
sentiment analysis | J6 J8 J17
agreement or disagreement | hf:BERT
argumentation mining | hf:BERT
emoji prediction | K17
emotion cause analysis |
emotion classification | hf:BERT
""",
}
CELLS = {
    table: [(name, tuple(rows.split())) for name, rows in (line.split(" | ", 1) for line in cells)]
    for table, text in TABLES.items()
    if (cells := [f"{line} " for line in text.strip().splitlines()])
}
