"""Brute-force transcriptions of the papers' equations, in NumPy with plain loops.

`ORACLES` maps a mechanism's name in the registry to what it must give: (module, inputs) -> outputs by name.
"""

from tests.oracles.align_cases import ALIGN_ORACLES
from tests.oracles.cases import Oracle
from tests.oracles.general_cases import GENERAL_ORACLES
from tests.oracles.score_cases import SCORE_ORACLES

ORACLES: dict[str, Oracle] = {**GENERAL_ORACLES, **SCORE_ORACLES, **ALIGN_ORACLES}
