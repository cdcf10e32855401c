"""Table 3 of Brauwers and Frasincar (2021), which places seventeen papers, and where models here depart from it."""

from limelight.v1 import model_pb2

COLUMNS = tuple(field.name for field in model_pb2.Taxonomy.DESCRIPTOR.fields)
# As the survey has it, but for its spelling; in the order of its columns. "+" is of parts that one model has together,
# "," of what one paper tries one by one.
TABLE = """
J1 | Bahdanau | singular | single-level | single-representational | additive | global | single-dimensional | basic | singular
J2 | Luong | singular | single-level | single-representational | multiplicative, location | global, local | single-dimensional | basic | singular
J3 | Xu | singular | single-level | single-representational | additive | soft, hard | single-dimensional | basic | singular
J4 | Lu | parallel co-attention | hierarchical | single-representational | additive | global | single-dimensional | specialized | singular
J5 | Yang | singular | hierarchical | single-representational | additive | global | single-dimensional | self-attentive | singular
J6 | Li | singular | hierarchical | single-representational | additive | global | single-dimensional | self-attentive | singular
J7 | Vaswani | singular | single-level | single-representational | scaled-multiplicative | global | single-dimensional | self-attentive + basic | multi-head + multi-hop
J8 | Wallaart | rotatory | single-level | single-representational | activated general | global | single-dimensional | specialized | multi-hop
J9 | Kiela | singular | single-level | multi-representational | additive | global | single-dimensional | self-attentive | singular
J10 | Shen | singular | single-level | single-representational | additive | global | multi-dimensional | self-attentive | singular
J11 | Zhang | singular | single-level | single-representational | multiplicative | global | single-dimensional | self-attentive | singular
J12 | Li | parallel co-attention | single-level | single-representational | scaled-multiplicative | global | single-dimensional | self-attentive + specialized | singular
J13 | Yu | parallel co-attention | single-level | single-representational | multiplicative | global | single-dimensional | self-attentive + specialized | multi-head
J14 | Wang | parallel co-attention | single-level | single-representational | additive | reinforced | single-dimensional | specialized | singular
J15 | Oktay | singular | single-level | single-representational | additive | global | multi-dimensional | self-attentive + specialized | singular
J16 | Winata | singular | single-level | multi-representational | additive | global | single-dimensional | self-attentive | multi-head
J17 | Wang | singular | single-level | single-representational | multiplicative | global | single-dimensional | self-attentive | capsule-based
"""  # noqa: E501
SPELLED = {
    "specialized": "specialised",
    "scaled-multiplicative": "scaled multiplicative",
    "location": "location-based",
    "capsule-based": "capsule",
    "soft": "global",  # the survey's other word for it
}
# What of a paper is not here.
LACKS = {
    "lcr-rot-hop": "without the ontology, by whose rules the paper's hybrid answers first",
    "qanet": "without vectors of characters and layer dropout",
    "rban": "reconstructed from the survey's description, not from the paper",
}
# Where a card departs on purpose: what the model itself says in a column, and why.
DEPARTS = {
    ("luong", "scoring"): (("general",), "the paper's best score, which Table 2 lists beside the multiplicative one"),
    ("psac", "multiplicity"): (("singular", "multi-head"), "its self-attention has heads, as the authors' code"),
    ("attention-unet", "alignment"): (
        ("global", "sigmoid"),
        "each coefficient by itself (§2.1, eq. 2), so that they do not sum to 1 over the picture",
    ),
    ("attention-unet", "dimensionality"): (
        ("single-dimensional",),
        "one coefficient for all features of a cell, the paper's choice for one class of objects (§2.1)",
    ),
}
ROWS = {row: dict(zip(COLUMNS, cells, strict=True)) for row, _, *cells in (
    map(str.strip, line.split("|")) for line in TABLE.strip().splitlines()
)}  # fmt: skip
AUTHORS = {line.split("|")[0].strip(): line.split("|")[1].strip() for line in TABLE.strip().splitlines()}


def names(cell: str) -> list[str]:
    """The names in a cell of the table, as cards spell them."""
    return [SPELLED.get(each, each) for each in cell.replace("+", ",").replace(", ", ",").replace(" ,", ",").split(",")]
