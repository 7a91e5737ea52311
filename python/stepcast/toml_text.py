"""Plain values as TOML text, for experiments that are dicts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any

from .errors import ConfigError


def plain(value: Any) -> Any:
    """Arrays and numbers of numpy as lists and numbers of Python."""
    return value.tolist() if hasattr(value, "tolist") else value


def value_text(value: Any, where: str) -> str:
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_text(v, where) for v in value) + "]"
    raise ConfigError(f"{where}: found {type(value).__name__}, expected a text, a number, a truth value or a list of these")


def _key_text(key: str) -> str:
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part, ensure_ascii=False) for part in key.split("."))


def _lines(table: Mapping[str, Any], above: str) -> Iterator[str]:
    for key, value in table.items():
        where = above + str(key)
        if isinstance(value, Mapping):
            yield from _lines(value, where + ".")
        else:
            yield f"{_key_text(where)} = {value_text(value, where)}\n"


def toml_text(experiment: Mapping[str, Any]) -> str:
    """One line a key, tables within tables as dotted keys. Raises ConfigError on values that TOML has no words for."""
    return "".join(_lines(experiment, ""))
