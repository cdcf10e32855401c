"""Builds SentencePiece's compiled character maps: a double array and the texts that stand behind it."""

import base64
from collections.abc import Mapping


def charsmap(replacements: Mapping[str, str], *, texts: bytes | None = None) -> str:
    """Compile what each text is replaced by. texts: what stands behind the array instead, to break it."""
    behind, values = bytearray(), {}
    for source, target in replacements.items():
        values[source.encode()] = len(behind)
        behind += target.encode() + b"\0"
    units = _double_array(values)
    data = b"".join(unit.to_bytes(4, "little") for unit in units)
    return base64.b64encode(
        len(data).to_bytes(4, "little") + data + (bytes(behind) if texts is None else texts)
    ).decode()


def _double_array(values: Mapping[bytes, int]) -> list[int]:
    """Place the states of a trie so that state ^ byte is free for each child; 256 units a state are simple."""
    prefixes = sorted({key[:end] for key in values for end in range(len(key) + 1)})
    state = {prefix: 256 * (number + 1) for number, prefix in enumerate(prefixes)}
    units = [0] * (256 * (len(prefixes) + 1))
    units[0] = _unit(0, state[b""], leaf=False)
    for prefix in prefixes[1:]:
        place = state[prefix[:-1]] ^ prefix[-1]
        units[place] = _unit(prefix[-1], place ^ state[prefix], leaf=prefix in values)
        if prefix in values:
            units[state[prefix]] = values[prefix] | 1 << 31
    return units


def _unit(label: int, offset: int, *, leaf: bool) -> int:
    if offset < 1 << 21:
        return label | leaf << 8 | offset << 10
    assert offset % 256 == 0
    return label | leaf << 8 | 1 << 9 | offset >> 8 << 10
