"""What scripts/mutate.sh runs: one small wrong change after the other, each built and tested.

A mutant is killed when its folder's test program fails, crashes or takes too long; it survives when all tests pass; one that
does not compile counts for nothing. Every survivor is printed with its line.
"""

import os
import random
import re
import subprocess
import sys

copy, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FOLDERS = ["model", "sim", "calibrate", "exec", "reports"]
# Which tests see a folder: its own, and those of what is built on it.
PROGRAMS = {
    "model": ["model", "sim", "reports", "calibrate"],
    "sim": ["sim", "calibrate"],
    "calibrate": ["calibrate"],
    "exec": ["exec"],
    "reports": ["reports"],
}
CHANGES = [
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "), (r" / ", " * "),
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
    (r" && ", " || "), (r" \|\| ", " && "), (r"std::max\(", "std::min("), (r"std::min\(", "std::max("),
    (r"\bif \(", "if (!("), (r"(?<![\w.])([1-9]\d*)(?![\w.])", None), (r"\+= ", "-= "), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
]


def sources():
    for folder in FOLDERS:
        for root, _, names in os.walk(os.path.join(copy, folder)):
            if "/cuda" in root or "/presets" in root:
                continue  # needs a GPU or its emulation
            for name in names:
                if name.endswith(".cpp") and not name.startswith("no_") and "mpi" not in name and name != "gnuplot.cpp":
                    yield folder, os.path.join(root, name)


def candidates(text):
    """(line, column, pattern, replacement) of every place that can be changed; comments, messages and includes are not."""
    for number, line in enumerate(text.split("\n")):
        code = line.split("//")[0]
        if code.lstrip().startswith(("#", "*", "[[", "template", "namespace", "using", "throw", "refuse(")) or '"' in code:
            continue
        for pattern, replacement in CHANGES:
            for match in re.finditer(pattern, code):
                yield number, match, replacement


def changed(line, match, replacement):
    if replacement is None:
        return line[: match.start()] + str(int(match.group(1)) + 1) + line[match.end() :]
    if replacement == "if (!(":
        depth, at = 1, match.end()
        while at < len(line) and depth:
            depth += {"(": 1, ")": -1}.get(line[at], 0)
            at += 1
        return None if depth else line[: match.start()] + "if (!(" + line[match.end() : at] + ")" + line[at:]
    return line[: match.start()] + replacement + line[match.end() :]


def run(command, limit):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return -1


def survives(folder):
    """None when it does not compile."""
    for program in PROGRAMS[folder]:
        target = "test_" + program
        if run(["ninja", "-C", copy + "/build", target], 900) != 0:
            return None
        # Tests of minutes are hidden; the two that need a quiet machine are left out.
        if run([copy + "/build/tests/" + target, "--abort"], 300) != 0:
            return False
    return True


def main():
    randomness = random.Random(seed)
    files = list(sources())
    sizes = [os.path.getsize(path) for _, path in files]
    killed, survivors, broken = 0, [], 0
    while killed + len(survivors) < count:
        folder, path = randomness.choices(files, sizes)[0]
        with open(path) as file:
            original = file.read()
        places = list(candidates(original))
        if not places:
            continue
        number, match, replacement = randomness.choice(places)
        lines = original.split("\n")
        before, after = lines[number], changed(lines[number], match, replacement)
        if after is None or after == before:
            continue
        lines[number] = after
        with open(path, "w") as file:
            file.write("\n".join(lines))
        alive = survives(folder)
        with open(path, "w") as file:
            file.write(original)
        if alive is None:
            broken += 1
            continue
        killed += not alive
        name = f"{os.path.relpath(path, copy)}:{number + 1}"
        print(f"{'SURVIVED' if alive else 'killed'}  {name}\n    - {before.strip()}\n    + {after.strip()}", flush=True)
        if alive:
            survivors.append(name)
    print(f"{killed} of {count} killed ({100 * killed / count:.0f} %), {len(survivors)} survived, {broken} did not compile")


main()
