"""Brute-force transcriptions of the papers' equations, in NumPy with plain loops.

`ORACLES` maps a mechanism's name in the registry to what it must give: (module, inputs) -> outputs by name.
"""

from tests.oracles.align_cases import ALIGN_ORACLES
from tests.oracles.cases import Oracle
from tests.oracles.feature_cases import FEATURE_ORACLES
from tests.oracles.general_cases import GENERAL_ORACLES
from tests.oracles.level_cases import LEVEL_ORACLES
from tests.oracles.query_cases import QUERY_ORACLES
from tests.oracles.score_cases import SCORE_ORACLES
from tests.oracles.signal_cases import SIGNAL_ORACLES

ORACLES: dict[str, Oracle] = {
    **GENERAL_ORACLES, **SCORE_ORACLES, **ALIGN_ORACLES,
    **LEVEL_ORACLES, **FEATURE_ORACLES, **QUERY_ORACLES, **SIGNAL_ORACLES,
}  # fmt: skip
