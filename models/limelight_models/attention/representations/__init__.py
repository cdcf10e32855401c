"""Several representations of one token (BF §3.1.3). One representation is `Attention` itself."""

from limelight_models.attention.representations.meta_embedding import MetaEmbedding

__all__ = ["MetaEmbedding"]
