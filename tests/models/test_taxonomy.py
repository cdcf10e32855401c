"""Cards stand where Table 3 of Brauwers and Frasincar (2021) has their papers, or the table says why not."""

from collections.abc import Sequence

import pytest

from limelight.v1 import attention_pb2
from limelight_models.attention.features import ConcatProduct
from limelight_models.attention.score import Additive, MultiDimensional, ScaledDot, Score, SelfAttentive
from limelight_models.cards.taxonomy import Taxonomy
from limelight_models.index import ZOO, recipe, variants
from pages.table_3 import AUTHORS, COLUMNS, DEPARTS, LACKS, ROWS, names
from tests.kit import small


def said(name: str, column: str) -> list[str]:
    """The names in a column of a model's card."""
    return list(getattr(small.card(name).description.taxonomy, column))


def tried(model: str, column: str) -> set[str]:
    """Those of a model and of its variants."""
    return {each for name in (model, *variants(model)) for each in said(name, column)}


def test_every_row_of_the_table_has_a_model() -> None:
    assert set(ROWS) <= {entry.row for entry in ZOO.values()}
    assert {ZOO[model].row for model in LACKS} <= set(ROWS)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("model", [name for name, entry in ZOO.items() if entry.row in ROWS])
def test_a_card_stands_where_the_survey_has_its_paper(model: str, column: str) -> None:
    cell = ROWS[ZOO[model].row][column]
    wanted, own = names(cell), said(model, column)
    if (model, column) in DEPARTS:
        expected, why = DEPARTS[model, column]
        assert own == list(expected) != wanted and why
    elif "," in cell:  # the model is one of those that the paper tries
        assert set(own) <= set(wanted)
    else:
        assert own == wanted
    assert set(wanted) <= tried(model, column) | set(own), "some variant is each of what the paper tries"


@pytest.mark.parametrize("model", [name for name, entry in ZOO.items() if entry.row in ROWS])
def test_a_row_is_of_the_models_paper(model: str) -> None:
    authors: Sequence[str] = small.card(model).description.citation.authors
    assert authors[0] == AUTHORS[ZOO[model].row] and recipe(model)


SCORES = {ScaledDot: "scaled multiplicative", **dict.fromkeys((Additive, MultiDimensional, SelfAttentive), "additive")}


@pytest.mark.parametrize("name", ["transformer", "mcan", "attention-unet", "attention-unet-features", "psac"])
def test_a_card_says_which_scores_heads_and_features_the_network_has(name: str) -> None:
    scores = {type(each) for each in small.build(name).modules() if isinstance(each, Score)}
    maps = small.card(name).description.maps
    assert set(said(name, "scoring")) == {SCORES[each] for each in scores - {ConcatProduct}}  # in no table of scores
    assert ("multi-head" in said(name, "multiplicity")) == any(each.heads > 1 for each in maps)
    assert ("multi-dimensional" in said(name, "dimensionality")) == any(each.features for each in maps)


@pytest.mark.parametrize("name", ["transformer", "mcan", "psac"])
def test_a_card_says_who_asks(name: str) -> None:
    kinds = {each.kind for each in small.card(name).description.maps}
    own = attention_pb2.MAP_KIND_SELF
    assert own in kinds and kinds - {own}
    assert said(name, "query") == ["self-attentive", "basic" if name == "transformer" else "specialised"]


def test_a_taxonomy_is_read_from_names_and_one_of_no_column_is_refused() -> None:
    read = Taxonomy.of("additive, self-attentive, basic, alignment: sparsemax")
    assert read == Taxonomy(scoring=("additive",), query=("self-attentive", "basic"), alignment=("sparsemax",))
    for wrong in ("additive, scaled", "additive, colour: red"):
        with pytest.raises(ValueError, match="is in no column of the taxonomy; write `COLUMN: NAME`, or"):
            Taxonomy.of(wrong)
