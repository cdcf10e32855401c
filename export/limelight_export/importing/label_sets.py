"""Label sets of a card, and the axes that they count."""

from collections.abc import Mapping, Sequence

from limelight_export.errors import ExportError
from limelight_export.importing import cards
from limelight_export.importing.inputs import ImportedInput, check_within
from limelight_export.importing.observed import listed
from limelight_export.interface import AxisSize
from limelight_models.cards.labels import LabelSet, one

_MOST = 2**20


def label_sets_of(card: cards.Card, inputs: Sequence[ImportedInput]) -> dict[str, LabelSet]:
    """Return the label sets that maps and results can name. Raises ExportError where two have the same name."""
    found = {cards.ONE: one(cards.ONE)}
    for name, entries in card.labels.items():
        check_within(
            entries if isinstance(entries, int) else len(entries), 1, _MOST, f"the entries of the labels {name!r}"
        )
    stated = [
        LabelSet(
            name=name,
            kind="latents",
            names=tuple(entries) if not isinstance(entries, int) else tuple(f"{name} {n + 1}" for n in range(entries)),
        )
        for name, entries in card.labels.items()
    ]
    for each in (*(labels for owner in inputs for labels in owner.label_sets), *stated):
        if each.name in found and found[each.name].dimension != each.dimension:
            raise ExportError(f"two label sets of the card are called {each.name!r}")
        found.setdefault(each.name, each)
    return found


def find_labels(known: Mapping[str, LabelSet], name: str, what: str) -> LabelSet:
    """Return a label set by name. Raises ExportError, which says that `what` names it, where there is none."""
    if name not in known:
        raise ExportError(f"{what} names the label set {name!r}; the card has {listed(known)}")
    return known[name]


def axis_of(labels: LabelSet) -> AxisSize:
    """Return the axis that a label set counts, or the number of its entries."""
    if labels.kind in ("one", "output_steps"):  # a step gives one of several queries
        return 1
    if labels.grid is not None:
        rows, columns = labels.grid
        return len(labels.names) + rows * columns
    return labels.dimension or len(labels.names)
