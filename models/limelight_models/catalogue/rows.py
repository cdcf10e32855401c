"""Rows A to I of the catalogue: what the surveys describe, whether it is here or not."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row: its id, the survey's name, and where the survey has it."""

    id: str
    name: str
    source: str


def rows(*entries: tuple[str, str, str]) -> tuple[Row, ...]:
    """Rows from plain triples."""
    return tuple(Row(*entry) for entry in entries)


ROWS: tuple[Row, ...] = rows(
    ("A1", "task model", "BF Fig. 1"),
    ("A2", "general attention module", "BF eq. 1–4"),
    ("A3", "weighted values, gated combination", "G eq. 8–9"),
    ("A4", "Nadaraya–Watson regression as attention", "C §2"),
    ("B1", "additive", "BF T2, G T3, C T2"),
    ("B2", "concat", "G T3, C T2"),
    ("B3", "multiplicative (dot)", "BF T2, G T3, C T2"),
    ("B4", "scaled multiplicative", "BF T2, G T3, C T2"),
    ("B5", "general (bilinear)", "BF T2, G T3, C T2"),
    ("B6", "biased general", "BF T2, G T3, C T2"),
    ("B7", "activated general", "BF T2, G T3, C T2"),
    ("B8", "similarity", "BF T2, G T3"),
    ("B9", "deep", "G T3, C T2"),
    ("B10", "location-based", "G T3, C T2"),
    ("B11", "feature-based", "C T2"),
    ("B12", "generalised kernel", "C T2"),
    ("B13", "self-attentive (query-free)", "BF eq. 33–34"),
    ("B14", "multi-dimensional", "BF eq. 31"),
    ("B15", "importance matrix (several outputs)", "G §3.4.1"),
    ("B16", "location-aware (hybrid)", "C §6.3"),
    ("B17", "relation-aware", "S §5.1"),
    ("B18", "outer-product", "S §5.1"),
    ("B19", "coverage-aware", "G §4.2"),
    ("C1", "soft (global)", "BF eq. 25"),
    ("C2", "sigmoid", "G §3.3"),
    ("C3", "hard", "BF eq. 26"),
    ("C4", "local, monotonic", "BF eq. 27"),
    ("C5", "local, predictive", "BF eq. 28–29"),
    ("C6", "reinforced", "BF §3.2.2, S §5.1"),
    ("C7", "sparsemax", "G §3.3, C §3"),
    ("C8", "α-entmax", "C §3, S §5.3"),
    ("C9", "positional mask", "G §3.3, S §5.1"),
    ("C10", "selective grid of Gaussians", "G §3.3"),
    ("C11", "self-adaptive temperature", "G §3.3"),
    ("C12", "compositional de-attention", "C §3"),
    ("C13", "constrained softmax, constrained sparsemax", "G §4.3"),
    ("C14", "adaptive span", "S §5.1, C §8.8"),
    ("C15", "hard monotonic, monotonic chunkwise", "C §8.1"),
    ("C16", "distance-aware", "G §4.3"),
    ("C17", "random features, Gaussian kernel (softmax-free)", "S §5.3"),
    ("D1", "single-dimensional", "BF §3.2.3"),
    ("D2", "multi-dimensional", "BF §3.2.3, S §5.1"),
    ("E1", "single-level", "BF §3.1.2"),
    ("E2", "attention-via-attention", "BF §3.1.2"),
    ("E3", "hierarchical", "BF §3.1.2"),
    ("E4", "target-object hierarchy", "G §3.1.1"),
    ("F1", "single-representational", "BF §3.1.3"),
    ("F2", "multi-representational", "BF §3.1.3, eq. 21–22"),
    ("G1", "alternating co-attention", "BF eq. 7–9"),
    ("G2", "interactive co-attention", "BF eq. 10–11"),
    ("G3", "parallel co-attention", "BF eq. 12–15"),
    ("G4", "parallel co-attention, max-pooled", "BF eq. 16, G T4"),
    ("G5", "multi-grained co-attention", "BF §3.1.1"),
    ("G6", "rotatory", "BF eq. 17–20"),
    ("G7", "aggregation functions", "G T4"),
    ("G8", "co-compatibility", "G §3.4.2"),
    ("H1", "basic query", "BF §3.3.1"),
    ("H2", "specialised query", "BF §3.3.1"),
    ("H3", "self-attentive query", "BF eq. 33–37"),
    ("H4", "multi-head", "BF eq. 38–40"),
    ("H5", "multi-hop", "BF eq. 41–42"),
    ("H6", "capsule-based", "BF eq. 43–45"),
    ("H7", "label-wise", "G §3.4.1"),
    ("H8", "disagreement regularisation", "G §3.4.1"),
    ("I1", "supervised attention", "G §4.1"),
    ("I2", "preliminary training from rationales", "G §4.1.1"),
    ("I3", "auxiliary head", "G §4.1.2"),
    ("I4", "attention transfer", "G §4.1.3"),
    ("I5", "coverage tracking", "G §4.2"),
    ("I6", "doubly stochastic attention", "S §3"),
    ("I7", "REINFORCE with a baseline", "S §3"),
)
