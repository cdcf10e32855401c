"""Names of operators that mark attention in an exported program; who reads a graph needs no PyTorch for them."""

DOMAIN = "limelight"
INTERVENTION, EDGE_INTERVENTION = "Intervention", "EdgeIntervention"
EFFECTIVE, QUERY_INDEX = "EffectiveMap", "QueryIndex"
