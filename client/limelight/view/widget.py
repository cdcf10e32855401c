"""An answer or its explanation in a notebook: the page's own modules, shown by anywidget, without a server."""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limelight.attended import Attended
from limelight.base.optional import package
from limelight.base.values import Image
from limelight.explanations import Explanation
from limelight.labels import Grid, LabelSet
from limelight.maps import AttentionMap, find
from limelight.predictions import Boxes, Prediction
from limelight.records import json_types
from limelight.view.files import page_files

_ENTRY = "widget.js"
# Messages between a kernel and a notebook are kept below about 10 MB.
_MOST_BYTES = 8 * 2**20
_MOST_FLOATS = 2**20

# Modules import each other by path, which text has none of: each becomes a file in the browser's memory, after those
# that it imports.
_LOADER = """const sources = %s;
const css = %s;
let loaded;
function load() {
  const urls = {};
  for (const [name, source] of sources) {
    const linked = source.replace(/ from "\\.\\/([a-z]+\\.js)"/g, (_, each) => ` from "${urls[each]}"`);
    urls[name] = URL.createObjectURL(new Blob([linked], { type: "text/javascript" }));
  }
  return import(urls["%s"]);
}
export default {
  async render(context) {
    loaded ??= load();
    return (await loaded).render(context, css);
  },
};
"""


def widget(answer: Attended | AttentionMap | Explanation, names: str = "*", *, image: Any = None) -> Any:
    """Return an interactive view of an answer's maps for a notebook: the page of `limelight view`, without a server.

    Args:
        answer: an answer, one of its maps, or an explanation, which is shown as the page's panel Why.
        names: a glob of the names of its maps.
        image: the image that was sent, to be drawn below its cells: bytes of a file, a path, or uint8 pixels.
    Returns:
        An anywidget (ipywidgets), which displays itself at the end of a cell.
    Raises:
        KeyError: no map matches.
        ValueError: the maps are larger than a notebook takes; the message says how to select.
        ModuleNotFoundError: anywidget is not installed; it comes with the extra `notebook`.
    """
    anywidget = package("anywidget", "limelight.widget()", extra="notebook")
    traitlets = package("traitlets", "limelight.widget()", extra="notebook")
    packed = _explained(answer, image) if isinstance(answer, Explanation) else _attended(answer, names, image)
    made = type(
        "AttentionWidget",
        (anywidget.AnyWidget,),
        {"_esm": _module(), "answer": traitlets.Bytes().tag(sync=True), "__module__": __name__},
    )
    return made(answer=packed)


def _attended(answer: Attended | AttentionMap, names: str, image: Any) -> bytes:
    """Write the maps that a glob names as the page reads answers."""
    maps = (answer,) if isinstance(answer, AttentionMap) else answer.maps
    chosen = [each for each in maps if fnmatchcase(each.name, names)] or [find(maps, names)]
    arrays, sets = _Arrays(), _Sets()
    is_large = sum(each.weights.size for each in chosen) > _MOST_FLOATS
    message: dict[str, Any] = {"maps": [_map(each, arrays, sets, is_large) for each in chosen]}
    if not isinstance(answer, AttentionMap):
        message |= {"heading": answer.prediction.heading, "objects": _objects(answer.prediction)}
    packed = _packed(message | {"labelSets": sets.messages()}, arrays, image)
    if len(packed) > _MOST_BYTES:
        raise ValueError(
            f"this view has {len(packed)} bytes, and a notebook takes {_MOST_BYTES} at once: select some, such as "
            f"limelight.widget(answer, {chosen[-1].name!r}), or heads=[0] where the answer is requested"
        )
    return packed


def _explained(why: Explanation, image: Any) -> bytes:
    """Write an explanation as the page reads it, and the texts that its units are in."""
    target = {"label": why.target.label, "score": why.target.score, "entry": why.target.entry}
    explanation = {
        "target": _known({**target, "scoreKind": f"SCORE_KIND_{why.target.score_kind.upper()}"}),
        "units": _label_set(why.unit_kind, why.units, False),
        "ways": [
            {"way": _way(each.way), "values": each.values.tolist(), "maps": list(each.maps)}
            for each in why.ways.values()
        ],
        "agreements": [
            {"first": _way(each.first), "second": _way(each.second)}
            | _known({"correlation": each.correlation, "low": each.low, "high": each.high})
            for each in why.agreements
        ],
        "rows": why.rows,
    }
    message = {"heading": why.prediction.heading, "explanation": explanation, "texts": dict(why.texts)}
    return _packed(message, _Arrays(), image)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out fields without a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _way(name: str) -> str:
    return f"WAY_{name.upper()}"


@cache
def _module() -> str:
    """Return the page's modules that the widget needs as one, which anywidget loads."""
    found: dict[str, str] = {}

    def read(name: str) -> None:
        source = page_files()[f"/{name}"][1].decode()
        for line in source.splitlines():
            if line.startswith(("import ", "} from ")) and (each := line.split('"./')[1].rstrip('";')) not in found:
                read(each)
        found[name] = source

    read(_ENTRY)
    css = page_files()["/view.css"][1].decode()
    return _LOADER % (json.dumps(list(found.items())), json.dumps(css), _ENTRY)


class _Arrays:
    """The bytes of arrays, one after the other, and the messages that say where each is."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._length = 0

    def add(self, kind: str, array: NDArray[Any]) -> Mapping[str, Any]:
        data = array.tobytes()
        made = {
            "dataType": f"DATA_TYPE_{kind}",
            "shape": list(array.shape),
            "offset": self._length,
            "bytes": len(data),
        }
        self.parts.append(data)
        self._length += len(data)
        return made


class _Sets:
    """Label sets by name; sets of the same name that differ get names of their own."""

    def __init__(self) -> None:
        self._sets: dict[str, LabelSet] = {}

    def name(self, labels: LabelSet) -> str:
        name, number = labels.name, 1
        while (there := self._sets.setdefault(name, labels)) is not labels and there != labels:
            number += 1
            name = f"{labels.name} {number}"
        return name

    def messages(self) -> list[Mapping[str, Any]]:
        return [_label_set(name, labels, self._has_parents(labels)) for name, labels in self._sets.items()]

    def _has_parents(self, labels: LabelSet) -> bool:
        """Return whether the whole set is here that the entries of another lie in."""
        parent = self._sets.get(labels.parent)
        if not len(labels.parents) or parent is None or parent.indices is not None:
            return False
        return bool((labels.parents < len(parent)).all())


def _objects(prediction: Prediction) -> Mapping[str, Any] | None:
    """Return the objects that were found, as the protocol's JSON; None for none, or without edges in pixels."""
    for each in prediction.results.values():
        if isinstance(each, Boxes) and not each.relative:
            return {"labelSet": each.label_set, "boxes": json_types(each.boxes)}
    return None


def _packed(message: Mapping[str, Any], arrays: _Arrays, image: Any) -> bytes:
    """Write a message as the page reads it: the length of the JSON and a line end, the JSON, the bytes of arrays."""
    if image is not None:
        pixels = Image(image).data()
        message = {**message, "image": arrays.add("UINT8", np.frombuffer(pixels, np.uint8))}
    header = json.dumps(message).encode()
    return b"".join([b"%d\n" % len(header), header, *arrays.parts])


def _map(each: AttentionMap, arrays: _Arrays, sets: _Sets, is_large: bool) -> Mapping[str, Any]:
    """Return the message of a map. The features of a weight become their mean, those of a value its length."""
    values = each.without_features(absent=np.nan)
    there = each.present()
    # Shares of a row are told only where all its keys are here.
    is_whole = each.quantity == "weights" and each.key_index is None and each.key.indices is None
    message: dict[str, Any] = {
        "name": each.name,
        "kind": f"MAP_KIND_{each.kind.upper()}",
        "normalised": each.normalised and is_whole and each.left_out is None and each.key.kind != "ranges",
        "signed": each.signed or each.quantity == "scores",
        "heads": list(each.heads),
        "headReduction": each.head_reduction or "",
        "queryLabels": sets.name(each.query),
        "keyLabels": sets.name(each.key),
    }
    if each.head_labels is not None:
        message["headLabels"] = sets.name(each.head_labels)
    scales = None
    if is_large and not message["signed"]:
        scales = np.nanmax(np.where(there, values, 0), axis=2, initial=0).astype(np.float32) / np.float32(255)
        values = np.round(values / np.where(scales > 0, scales, 1)[:, :, None])
        message["scales"] = arrays.add("FLOAT32", scales)
    if not there.all():
        query, key = np.nonzero(there.any(axis=0))
        values = np.where(there, values, np.nan if scales is None else 0)[:, query, key]
        message["queryIndex"] = arrays.add("INT32", query.astype("<i4"))
        message["keyIndex"] = arrays.add("INT32", key.astype("<i4"))
    kind, dtype = ("FLOAT32", "<f4") if scales is None else ("UINT8", "u1")
    return message | {"weights": arrays.add(kind, values.astype(dtype))}


def _label_set(name: str, labels: LabelSet, has_parents: bool) -> Mapping[str, Any]:
    """Return the message of a label set. A cut grid is no grid: its entries are shown by name."""
    columns = {
        "starts": labels.starts,
        "ends": labels.ends,
        "parents": labels.parents if has_parents else (),
        "special": labels.special,
        "inputIndices": labels.input_indices,
        "words": labels.words,
    }
    grid = labels.grid if labels.indices is None else None
    return {
        "name": name,
        "kind": f"LABEL_KIND_{labels.kind.upper()}",
        "size": len(labels),
        "texts": list(labels.labels),
        "parent": labels.parent if has_parents or labels.kind == "ranges" else "",
        "inputs": list(labels.inputs),
        "grid": _grid(grid) if grid else None,
        **{key: np.asarray(column).tolist() for key, column in columns.items() if len(column)},
    }


def _grid(grid: Grid) -> Mapping[str, Any]:
    return _known(json_types(grid))
