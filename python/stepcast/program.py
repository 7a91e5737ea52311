"""The command line program: where it is, and `stepcast` of an installed package."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

from .errors import ConfigError

_package = Path(__file__).parent


def _own() -> Optional[tuple[str, Mapping[str, str]]]:
    path = _package / "bin" / "stepcast"
    return (str(path), {"STEPCAST_HOME": str(_package / "share"), **os.environ}) if path.is_file() else None


def program() -> tuple[str, Mapping[str, str]]:
    """The program's path and environment: $STEPCAST_PROGRAM, else the package's own, else the first `stepcast` on PATH."""
    if named := os.environ.get("STEPCAST_PROGRAM"):
        return named, os.environ
    if own := _own():
        return own
    if found := shutil.which("stepcast"):
        return found, os.environ
    raise ConfigError("the program is neither in the package nor on PATH; expected pip install ., or STEPCAST_PROGRAM=FILE")


def main() -> None:
    """Becomes the package's own program."""
    own = _own()
    if own is None:
        sys.exit("stepcast: the package holds no program; expected pip install .")
    path, environment = own
    os.execve(path, [path, *sys.argv[1:]], dict(environment))
