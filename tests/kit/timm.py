"""Classes of timm, of which single files are read, not the package: it wants torchvision, and there may be none."""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

TIMM = find_spec("timm")
needs_timm = pytest.mark.skipif(TIMM is None, reason="timm is not installed")
_IMPORTS = "from typing import *\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


def of_timm(file: str, *names: str, **known: Any) -> list[Any]:
    """Classes and functions of a file alone. known: what else they read."""
    assert TIMM is not None and TIMM.submodule_search_locations
    path = Path(TIMM.submodule_search_locations[0]) / file
    wanted = [node for node in ast.parse(path.read_text()).body if getattr(node, "name", "") in names]
    exec(compile(ast.Module([*ast.parse(_IMPORTS).body, *wanted], []), str(path), "exec"), known)
    return [known[name] for name in names]
