#!/usr/bin/env python3
"""Holds tests/import/launch/reader_defaults.csv against the tools' own sources.

    scripts/reader-defaults.py FOLDER

FOLDER has the unpacked packages, each below NAME-VERSION as its row says (pip download --no-deps NAME==VERSION, unzip -d NAME-VERSION).
A row's source is "NAME VERSION PATH"; `says` is NAME=VALUE, which must stand in that file as an assignment, an argument's default or a
lookup's default, or a sentence that begins with a name that must occur there. Rows of what no package holds (a repository's commit, "from
knowledge") are counted. Prints what does not hold; fails if a row of a package that is there does not.
"""
import csv
import pathlib
import re
import sys


def folder_of(root, name, version):
    wanted = f"{name}-{version}".lower().replace("-", "_")
    return next((f for f in root.iterdir() if f.is_dir() and f.name.lower().replace("-", "_") == wanted), None)


def holds(text, says):
    stated = re.fullmatch(r"([\w.\-]+)=(\S+)", says)
    if not stated:
        return re.search(r"(?<![\w-])" + re.escape(says.split()[0].rstrip(",:").split(".")[-1]) + r"\b", text)
    name, value = stated.groups()
    before = r"(?<!\w)" + re.escape(name.split(".")[-1]) + r"\b[\"']?\]?\s*(?::\s*[^=\n]*)?(?:=|:|,|\()"
    within = r"(?:[^\n=]*\n?[^\n=]*\bdefault(?:_factory)?\s*=)?\s*\(?\s*[\"']?"
    return re.search(before + within + re.escape(value) + r"(?!\w)", text)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    table = pathlib.Path(__file__).resolve().parent.parent / "tests" / "import" / "launch" / "reader_defaults.csv"
    counts = {"held": 0, "of no package": 0, "package not here": 0}
    wrong = []
    for row in csv.DictReader(table.open(), delimiter=";"):
        source = re.fullmatch(r"(\S+) (\d+\.[\w.]+) (\S+)", row["source"])
        if not source:
            counts["of no package"] += 1
            continue
        name, version, path = source.groups()
        folder = folder_of(root, name, version)
        if folder is None:
            counts["package not here"] += 1
            continue
        files = [f for f in folder.rglob(pathlib.Path(path).name) if str(f).endswith("/" + path)]
        if any(holds(f.read_text(errors="replace"), row["says"]) for f in files):
            counts["held"] += 1
        else:
            wrong.append(f"{row['reader']}: {row['default']}: {row['source']} " + (f"does not say {row['says']}" if files else "is not there"))
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))


main()
