"""Which entries of an axis the groups of a request name, in one instance."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from limelight.base.counts import there_are
from limelight_bundle.descriptions import LABEL_KIND_INPUT_STEPS, LABEL_KIND_OUTPUT_STEPS
from limelight_bundle.errors import InputError, Path
from limelight_bundle.rows import Labels
from limelight_service.attention.options import Group, Grouping, Span
from limelight_service.attention.select import IndexList, resolve

Indices = npt.NDArray[np.intp]

# Overlapping groups cost time in proportion to how often they name an entry: so often in all, or so often an entry.
MOST_MEMBERS = 100_000
MOST_TIMES = 16
_MOST_KEPT = 8
_STEPS = (LABEL_KIND_INPUT_STEPS, LABEL_KIND_OUTPUT_STEPS)


@dataclass(frozen=True)
class Members:
    """The entries of each group, ascending, each once. size: of the whole axis."""

    groups: tuple[Indices, ...]
    size: int

    @cached_property
    def is_partition(self) -> bool:
        """True where every entry is in exactly one group."""
        named = np.concatenate(self.groups)
        return len(named) == self.size and bool((np.bincount(named, minlength=self.size) == 1).all())


class AxisGroups:
    """The groups of one label set, for every instance of a call: those by place are found once for each length of the
    axis, all others once for all maps of an instance.
    """

    def __init__(self, grouping: Grouping, label_set: str) -> None:
        self.grouping = grouping
        self.label_set = label_set
        self._places_alone = not any(each.spans or each.inputs for each in grouping.groups)
        # With the label set that an entry is of: it must live as long as its identity is the key.
        self._found: dict[int, tuple[Labels, Members]] = {}

    @property
    def names(self) -> list[str]:
        """Names of the groups."""
        return [each.name for each in self.grouping.groups]

    def members(self, labels: Mapping[str, Labels]) -> Members:
        """Find the entries of each group. labels: every label set of the instance.

        Raises: InputError naming the index, range, span or input that matches nothing.
        """
        own = labels[self.label_set]
        key = own.size if self._places_alone else id(own)
        found = self._found.get(key)  # lanes share it, and one may have emptied it by the time another looks again
        if found is None:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            found = self._found[key] = own, self._find(own, labels)
        return found[1]

    def _find(self, own: Labels, labels: Mapping[str, Labels]) -> Members:
        field, axis = self.grouping.field, _Axis(own, labels.get(own.parent))
        most = max(MOST_MEMBERS, MOST_TIMES * own.size)
        groups: list[Indices] = []
        named = 0
        for place, group in enumerate(self.grouping.groups):
            groups.append(axis.members(group, (*field, "groups", place)))
            named += len(groups[-1])
            if named > most:
                many = f"name more than {most} entries in all; name fewer, or fewer times"
                raise InputError((*field, "groups"), many)
        return Members(tuple(groups), own.size)


def members(group: Group, label_set: str, labels: Mapping[str, Labels], field: Path) -> Indices:
    """Find the entries of one group of a label set, ascending. Raises: InputError naming what matches nothing."""
    own = labels[label_set]
    return _Axis(own, labels.get(own.parent)).members(group, field)


def check_to_come(group: Group, labels: Labels, field: Path) -> None:
    """Check that a group of steps names what is known of them before the first. labels: of all that there may be.

    Raises: InputError naming what is counted from the end, or is of the generated text.
    """
    counted = [("indices", place, index, index + 1) for place, index in enumerate(group.indices)]
    counted += [("ranges", place, *each) for place, each in enumerate(group.ranges)]
    for name, place, start, end in counted:
        if not 0 <= start < end <= labels.size:
            said = f"{start}" if name == "indices" else f"from {start} to {end}"
            reason = f"is {said}; steps are counted from the first, and there may be {labels.size}"
            raise InputError((*field, name, place), reason)
    written = labels.inputs[-1]
    for place, span in enumerate(group.spans):
        if (span.part or labels.inputs[0]) == written:
            raise InputError((*field, "spans", place), "is of the generated text, which is not known yet")


def check_prompt(groups: AxisGroups, labels: Labels) -> None:
    """Check the spans of a prompt before anything is generated. labels: of input steps, as far as they are known.

    Raises: InputError naming the span that matches nothing.
    """
    axis, written = _Axis(labels, None), labels.inputs[-1]
    for number, group in enumerate(groups.grouping.groups):
        for place, span in enumerate(group.spans):
            if (span.part or labels.inputs[0]) != written:
                axis.span(span, (*groups.grouping.field, "groups", number, "spans", place))


class _Axis:
    """One axis of one instance, and its columns as arrays."""

    def __init__(self, labels: Labels, parent: Labels | None) -> None:
        self._labels = labels
        self._what = labels.name if labels.size == 1 else f"{labels.size} {labels.name}"
        # Of a document sent as sentences, each sentence begins at 0 of its own.
        self._sentences = parent.size if parent is not None and not any(parent.starts) else 0

    @cached_property
    def _starts(self) -> Indices:
        return np.asarray(self._labels.starts, dtype=np.intp)

    @cached_property
    def _ends(self) -> Indices:
        return np.asarray(self._labels.ends, dtype=np.intp)

    @cached_property
    def _parents(self) -> Indices:
        return np.asarray(self._labels.parents, dtype=np.intp)

    @cached_property
    def _ordinary(self) -> npt.NDArray[np.bool_]:
        """True for every entry but special tokens and those before the cells of a grid."""
        ordinary = np.ones(self._labels.size, dtype=bool)
        if len(self._labels.special):
            ordinary &= ~np.asarray(self._labels.special, dtype=bool)
        if self._labels.grid is not None:
            ordinary[: len(self._labels.grid.leading)] = False
        return ordinary

    def members(self, group: Group, field: Path) -> Indices:
        """Give the entries of a group, ascending."""
        member = np.zeros(self._labels.size, dtype=bool)
        if group.indices:
            member[resolve(IndexList((*field, "indices"), group.indices), self._labels.size, self._labels.name)] = True
        for place, (start, end) in enumerate(group.ranges):
            member[self._range(start, end, (*field, "ranges", place))] = True
        for place, span in enumerate(group.spans):
            member |= self.span(span, (*field, "spans", place))
        for place, name in enumerate(group.inputs):
            member |= self._input(name, (*field, "inputs", place))
        return np.flatnonzero(member)

    def _range(self, start: int, end: int, field: Path) -> slice:
        size = self._labels.size
        first = start + size if start < 0 else start
        last = end + size if end <= 0 else end
        if not 0 <= first < last <= size:
            raise InputError(
                field, f"is from {start} to {end}, which are no entries; {there_are(size, self._labels.name)}"
            )
        return slice(first, last)

    def span(self, span: Span, field: Path) -> npt.NDArray[np.bool_]:
        """Tell which entries share a code point with a span. Raises: InputError where none does."""
        if not len(self._labels.starts) or not self._labels.inputs:
            raise InputError(
                field, f"is of a text, and {self._labels.name} have no places in one; use indices or ranges"
            )
        if not 0 <= span.start < span.end:
            raise InputError(field, f"is from {span.start} to {span.end}, which is no part of a text")
        member = (self._starts < span.end) & (self._ends > span.start) & (self._ends > self._starts)
        member &= self._in_part(span.part, (*field, "part")) & self._in_sentence(span.sentence, (*field, "sentence"))
        if not member.any():
            raise InputError(field, f"is from {span.start} to {span.end}, where none of {self._what} stands")
        return np.asarray(member)

    def _in_part(self, part: str, field: Path) -> npt.NDArray[np.bool_]:
        parts = [name.partition(".")[2] for name in self._labels.inputs]
        if self._labels.kind in _STEPS:  # a prompt, and last the generated text, by the name of its label set
            parts = [own or name for own, name in zip(parts, self._labels.inputs, strict=True)]
            if not part and len(parts) <= 2:
                return self._of_input(0)
        there = ", ".join(parts)
        if not part and len(parts) == 1:
            return np.ones(self._labels.size, dtype=bool)
        if not part:
            raise InputError(field, f"is missing; {self._labels.name} come from {there}")
        if part not in parts:
            raise InputError(field, f"is {part!r}; {self._labels.name} come from {there or 'one text'}")
        return self._of_input(parts.index(part))

    def _in_sentence(self, sentence: int | None, field: Path) -> npt.NDArray[np.bool_]:
        everywhere = np.ones(self._labels.size, dtype=bool)
        if not self._sentences:
            if sentence is not None:
                raise InputError(
                    field, "is for a document that is sent as sentences; places are in the whole text here"
                )
            return everywhere
        if sentence is None and self._sentences > 1:
            raise InputError(field, f"is missing; the document was sent as {self._sentences} sentences")
        if not 0 <= (sentence or 0) < self._sentences:
            raise InputError(field, f"is {sentence}; the document was sent as {self._sentences} sentences")
        return everywhere if sentence is None else np.asarray(self._parents == sentence)

    def _input(self, name: str, field: Path) -> npt.NDArray[np.bool_]:
        inputs = self._labels.inputs
        found = [place for place, each in enumerate(inputs) if each == name or each.startswith(f"{name}.")]
        if not found:
            there = ", ".join(inputs) or "no input"
            raise InputError(field, f"is {name!r}; {self._labels.name} come from {there}")
        member = np.zeros(self._labels.size, dtype=bool)
        for place in found:
            member |= self._of_input(place)
        member &= self._ordinary
        is_written = self._labels.kind in _STEPS and found[-1] == len(inputs) - 1  # which may have none yet
        if not member.any() and not is_written:
            raise InputError(field, f"is {name!r}, which has none of {self._what}")
        return member

    def _of_input(self, place: int) -> npt.NDArray[np.bool_]:
        """True for the entries that come from the input of this place."""
        if not len(self._labels.input_indices):
            return np.full(self._labels.size, place == 0)
        return np.asarray(np.asarray(self._labels.input_indices) == place)
