"""The command line program: where it is, and `stepcast` of an installed package."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from .errors import ConfigError

_package = Path(__file__).parent


def program() -> tuple[str, Mapping[str, str]]:
    """The program's path and environment: $STEPCAST_PROGRAM, else the package's own, else the first `stepcast` on PATH."""
    own = _package / "bin" / "stepcast"
    if named := os.environ.get("STEPCAST_PROGRAM"):
        return named, os.environ
    if own.is_file():
        return str(own), {"STEPCAST_HOME": str(_package / "share"), **os.environ}
    if found := shutil.which("stepcast"):
        return found, os.environ
    raise ConfigError("stepcast: the program is neither in the package nor on PATH; expected pip install ., or STEPCAST_PROGRAM=FILE")


def main() -> None:
    """Becomes the program."""
    path, environment = program()
    os.execve(path, [path, *sys.argv[1:]], dict(environment))
