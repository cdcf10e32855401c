"""Values as a TOML file has them: the standard library only reads them."""

from datetime import date
from typing import Any


def written(value: Any) -> str:
    """Write a text, a number, a truth, a day, a time, or a list of those, so that it reads back as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        plain = "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped)
        return f'"{plain}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    return value.isoformat() if isinstance(value, date) else repr(value)
