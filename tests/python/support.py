"""What the Python tests share: the program to hold the module against."""

import json
import os
import subprocess

PROGRAM = os.environ["STEPCAST_PROGRAM"]
SOURCES = os.environ["STEPCAST_SOURCES"]


def command_line(*arguments):
    """What `stepcast ARGUMENTS` prints on stdout."""
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def json_of(*arguments):
    return json.loads(command_line(*arguments, "--json"))


def message_of(*arguments):
    """The one line that `stepcast ARGUMENTS` refuses with."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 1, done
    return done.stderr.removeprefix("stepcast: ").rstrip("\n")
