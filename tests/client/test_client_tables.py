"""Maps as pandas and xarray objects hold the values of the maps, at their labels."""

import dataclasses
import subprocess
import sys
import warnings

import numpy as np
import pytest

import limelight
from tests.client.served import DOCUMENT, SENTENCES, TEXT, tiny

pytest.importorskip("pandas", reason="pandas is not installed")
pytest.importorskip("xarray", reason="xarray is not installed")


@pytest.fixture(autouse=True)
def strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_frame_has_a_row_for_each_weight(client: limelight.Client):
    answer = client.attend("tiny", TEXT)
    frame = answer.to_pandas()
    assert list(frame) == "map layer head query query_label key key_label weight".split()
    assert len(frame) == 2 * 2 * 3 * 3 + 3
    one = frame[(frame["map"] == "encoder.1.self") & (frame["head"] == 1) & (frame["query_label"] == "sat")]
    np.testing.assert_array_equal(one["weight"], answer["encoder.1.self"].head(1)[2])
    assert list(one["key_label"]) == TEXT.split() and list(one["key"]) == [0, 1, 2]
    assert set(one["layer"]) == {1}
    assert len(answer.to_pandas("encoder.0.*")) == 18
    with pytest.raises(KeyError, match="no map 'decoder"):
        answer.to_pandas("decoder.*")


def test_a_frame_of_edges_or_the_largest_weights_has_those_alone(client: limelight.Client):
    edges = client.attend("paper", DOCUMENT)["word"].to_pandas()
    assert list(edges["query_label"]) == [SENTENCES[0]] * 4 + [SENTENCES[1]] * 4
    assert list(edges["key_label"]) == DOCUMENT.split() and edges["layer"].isna().all()
    cut = client.attend("tiny", TEXT, top_k=1, reduce="mean")["encoder.1.self"].to_pandas()
    best = tiny().maps["encoder.1.self"].weights.mean(axis=0).argmax(axis=1)
    assert list(cut["head"]) == ["mean"] * 3 and list(cut["key"]) == best.tolist()


def test_a_selection_keeps_the_numbers_of_its_entries(client: limelight.Client):
    whole = client.attend("tiny", TEXT)["encoder.0.self"]
    part = dataclasses.replace(whole, weights=whole.weights[:, 1:3], query=whole.query.take([1, 2]))
    assert set(part.to_pandas()["query"]) == {1, 2}
    assert part.to_xarray()["query"].values.tolist() == [1, 2]


def test_features_and_scores_that_are_not_possible(client: limelight.Client):
    whole = client.attend("tiny", TEXT)["encoder.0.self"]
    weights = np.stack([whole.weights, whole.weights * 2], axis=-1)
    frame = dataclasses.replace(whole, weights=weights).to_pandas()
    assert list(frame["feature"][:2]) == [0, 1] and frame["weight"][1] == 2 * frame["weight"][0]
    scores = whole.weights.copy()
    scores[:, 0, 1:] = np.finfo(np.float32).min
    cut = dataclasses.replace(whole, weights=scores, quantity="scores")
    assert len(cut.to_pandas()) == 18 - 4 and "score" in cut.to_pandas()
    assert np.isnan(cut.to_xarray().values[:, 0, 1:]).all() and not np.isnan(cut.to_xarray().values[:, 1:]).any()


def test_an_array_has_labelled_axes(client: limelight.Client):
    answer = client.attend("tiny", TEXT)
    array = answer["encoder.0.self"].to_xarray()
    assert array.dims == ("head", "query", "key") and array.attrs["kind"] == "self"
    np.testing.assert_array_equal(array.values, answer["encoder.0.self"].weights)
    assert array.query_label.values.tolist() == TEXT.split()
    layers = answer.to_xarray("encoder.*")
    assert layers.dims == ("map", "head", "query", "key")
    np.testing.assert_array_equal(layers.sel(map="encoder.1.self").values, answer["encoder.1.self"].weights)
    edges = client.attend("paper", DOCUMENT)
    assert np.isnan(edges["word"].to_xarray().values[0, 0, 4:]).all()
    with pytest.raises(ValueError, match="'word' and 'sentence' have different axes"):
        edges.to_xarray()


@pytest.mark.parametrize("method", ["to_pandas", "to_xarray"])
def test_a_missing_package_is_named_in_one_line(method: str):
    package = method.removeprefix("to_")
    code = f"""
import sys
sys.modules[{package!r}] = None
import numpy as np, limelight
from limelight.labels import plain
one = plain("one", "one", ["one"])
each = limelight.AttentionMap(name="m", kind="self", heads=(0,), weights=np.ones((1, 1, 1), "f4"), query=one, key=one)
try:
    each.{method}()
except ModuleNotFoundError as error:
    print(error)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    needs = f"{method}() needs {package}, which is not installed: pip install {package}, or limelight-client[data]"
    assert printed == needs + "\n"
