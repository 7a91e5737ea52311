#!/usr/bin/env python3
"""scripts/mutate.py [--count 200] [--seed 1] [--by-hand FILE] [--folders model,sim,..]: finds small wrong changes that no test sees.

All mutants are in one build. Each is a choice at run time, such as `(stepcast_mutant(17) ? a <= b : a < b)`, by the number in
$STEPCAST_MUTANT, so only the files with mutants are compiled again (into build/mutants). A first run without a mutant records which test
case reaches which mutant and how long it takes. Then every mutant runs the cases that reach it, the quickest first, until one fails.

  1. Files are drawn at random by their length, with several places in each (compiling costs most), and changed by CHANGES below. A
     mutant that does not compile (a constant expression, a wrong dimension) is replaced by the next one drawn.
  2. A mutant is killed when a case that reaches it fails, crashes, or takes far longer or more memory than without it. The published
     tables (shared/truth) are hidden, so that a kill needs nothing but the repository.
  3. Survivors are printed with their lines, and whether any case reached them; then the shares by folder.

--by-hand: adds your own mutants (--count 0: only these) from a file of blocks `== NAME`, `PATH`, lines `-as it is`, lines `+changed` (as
in a patch), where the word MUTANT in the changed lines is true only in the mutant. Not part of the build; needs the tests' packages.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

# The tests that see a folder: its own and those of folders that depend on it. "cli": the scripts of tests/cli with the program.
PROGRAMS = {
    "measured": ["measured", "sim", "import", "calibrate", "cli"],
    "model": ["model", "measured", "sim", "import", "reports", "calibrate", "cli"],
    "sim": ["sim", "import", "calibrate", "reports", "cli"],
    "import": ["import", "calibrate", "reports", "cli"],
    "calibrate": ["calibrate", "cli"],
    "exec": ["exec", "cli"],
    "reports": ["reports", "cli"],
    "cli": ["cli"],
}
SCRIPTS = ["basics", "bad_input", "hostile", "sweep", "trace", "docs", "manual"]
LEFT_OUT = re.compile(r"/cuda/|/presets/|cuda|mpi_|/no_|gnuplot\.cpp|host_sweep|quiet")  # need a GPU, a cluster or a quiet machine

WORK = os.path.abspath("build/mutants")  # sources with mutants and their programs
BUILD = TREE = HOME = ""                 # an ordinary build, its sources, and the installed programs with their files

MUTANT_H = """#pragma once
#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <string>
// Shared with the processes that a test starts by fork(); what is reached outside of test cases is appended on leaving.
struct StepcastMutants {
    int chosen = std::getenv("STEPCAST_MUTANT") ? std::atoi(std::getenv("STEPCAST_MUTANT")) : -1;
    unsigned char* reached = static_cast<unsigned char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    void write(double seconds, const std::string& name) {
        const char* path = std::getenv("STEPCAST_REACHED");
        if (!path) return;
        std::FILE* file = std::fopen(path, "a");
        std::fprintf(file, "%g\\t%s\\t", seconds, name.c_str());
        for (int i = 0; i < 65536; ++i)
            if (reached[i]) std::fprintf(file, "%d ", i), reached[i] = 0;
        std::fprintf(file, "\\n");
        std::fclose(file);
    }
    ~StepcastMutants() { write(0, ""); }
};
inline StepcastMutants& stepcast_mutants() { static StepcastMutants all; return all; }
inline bool stepcast_mutant(int number) {
    StepcastMutants& all = stepcast_mutants();
    if (!all.reached[number]) all.reached[number] = 1;
    return number == all.chosen;
}
"""
LISTENER = """#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
#include <chrono>
#include "mutant.h"
struct WritesReached : Catch::TestEventListenerBase {
    using TestEventListenerBase::TestEventListenerBase;
    std::chrono::steady_clock::time_point start;
    void testCaseStarting(const Catch::TestCaseInfo&) override { start = std::chrono::steady_clock::now(); }
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        const bool passed = stats.totals.assertions.allOk();
        stepcast_mutants().write(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), passed ? stats.testInfo.name : "");
    }
};
CATCH_REGISTER_LISTENER(WritesReached)
"""

# Changes of an operator or a name (the expression around it changes), of a literal, a condition, a statement.
OPERATORS = {" + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ",
             " == ": " != ", " != ": " == ", " && ": " || ", " || ": " && ", "std::max(": "std::min(", "std::min(": "std::max("}
CHANGES = [(re.compile("|".join(map(re.escape, OPERATORS))), "operator"),
           (re.compile(r"(?<![\w.'])\d+(\.\d+)?(e-?\d+)?(?![\w.'])"), "number"),
           (re.compile(r"\b(true|false)\b"), "truth"),
           (re.compile(r"\bif \("), "condition"),
           (re.compile(r"^ +(?=[a-z_][\w.:>\-\[\]]*(\(| [-+*/]?= |\+\+;)|\+\+|--)", re.M), "statement"),
           (re.compile(r"\b(continue|break);"), "jump")]
NOT_CODE = re.compile(r"^\s*(#|using |template|namespace |static_assert|case |\[\[|constexpr |static constexpr |inline constexpr )")


def hide(text):
    """The text with comments, strings and lines without statements replaced by as many spaces."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r'R"\((.|\n)*?\)"|"(\\.|[^"\\\n])*"|\'(\\.|[^\'\\\n])\'|//[^\n]*|/\*(.|\n)*?\*/', blank, text)
    return "\n".join(" " * len(line) if NOT_CODE.match(line) else line for line in text.split("\n"))


def expression_around(code, at):
    """(begin, end) of the expression that contains the operator at this place, up to the brackets, commas and statements around it."""
    depth, begin = 0, at
    while begin > 0:
        char = code[begin - 1]
        if char in ")]}":
            depth += 1
        elif char in "([{":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (char in ",;?" or (char == ":" and ":" not in (code[begin - 2], code[begin]))
                             or (char == "=" and code[begin - 2] not in "=<>!" and code[begin] != "=")):
            break
        elif depth == 0 and re.search(r"\b(return|else)$", code[max(0, begin - 6):begin]):
            break
        begin -= 1
    return begin, end_of(code, at, ",;?:")


def end_of(code, at, stops):
    depth = 0
    while at < len(code):
        char = code[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return at
            depth -= 1
        elif depth == 0 and char in stops and not (char == ":" and ":" in (code[at - 1], code[at + 1])):
            return at
        at += 1
    return at


def changed(text, code, match, kind):
    """(begin, end, the text with the mutant, the change in words) or None. @ stands for the mutant's number."""
    m, token = "stepcast_mutant(@)", match.group()
    if kind == "operator":
        begin, end = expression_around(code, match.start() if token.startswith(" ") else match.end() - 5)
        begin += len(text[begin:end]) - len(text[begin:end].lstrip())
        if token == " + " and '"' in text[begin:end]:  # strings cannot be subtracted
            return None
        was, other = text[begin:end], text[begin:match.start()] + OPERATORS[token] + text[match.end():end]
        return begin, end, f"({m} ? ({other}) : ({was}))", other
    if kind == "number":
        other = str(int(token) + 1) if token.isdigit() else f"(1.5 * {token} + 0.1)"
        return match.start(), match.end(), f"({m} ? {other} : {token})", other
    if kind == "truth":
        return match.start(), match.end(), m if token == "false" else f"!{m}", {"true": "false", "false": "true"}[token]
    if kind == "jump":
        return match.start(), match.end(), f"{{ if (!{m}) {token} }}", f"no {token}"
    if kind == "condition":
        close = end_of(code, match.end(), "")
        begin = match.end()
        while (after := end_of(code, begin, ";")) < close:  # declarations before the condition
            begin = after + 1
        return begin, close, f"{m} != static_cast<bool>({text[begin:close]})", f"!({text[begin:close]})"
    begin, end = match.end(), end_of(code, match.end(), ";")
    if code[end:end + 1] != ";" or code[:begin].rstrip()[-1:] not in ("{", "}", ";", ")") or re.match(r"(if|for|while|switch|return|else)\b", code[begin:]):
        return None
    was = text[begin:end + 1]
    if " += " in code[begin:end] and end % 2:  # half of them
        other = text[begin:end + 1].replace(" += ", " -= ", 1)
        return begin, end + 1, f"{{ if ({m}) {{ {other} }} else {{ {was} }} }}", other
    return begin, end + 1, f"{{ if (!{m}) {{ {was} }} }}", "without this statement"  # braces: an else may follow


def prepare(build_folder, programs):
    """Sets BUILD, TREE and HOME: those of the named build, or of a new one, which compiles every file on its own."""
    global BUILD, TREE, HOME
    BUILD = os.path.abspath(build_folder or "build/mutate")
    if not build_folder:
        subprocess.run(["cmake", "-S", ".", "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DWITH_CUDA=OFF", "-DWITH_PYTHON=OFF", "-DWITH_HOST=ON",
                        "-DWITH_FITTING=ON", "-DSTEPCAST_GROUPED=OFF"], check=True, stdout=subprocess.DEVNULL)
        targets = [f"test_{program}" if program != "cli" else "stepcast" for program in sorted(programs)]
        subprocess.run(["ninja", "-C", BUILD] + targets, check=True, stdout=subprocess.DEVNULL)
    TREE = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", open(BUILD + "/CMakeCache.txt").read(), re.M).group(1)
    HOME = tempfile.mkdtemp(prefix="stepcast-mutants-")  # outside of the tree, so that shared/truth is not found
    for folder in ("model/presets", "calibrate/measurements", "import/patterns", "tests"):
        shutil.copytree(os.path.join(TREE, folder), os.path.join(HOME, "share/stepcast", folder))
    os.mkdir(HOME + "/bin")
    os.environ.pop("STEPCAST_HOME", None)


class Mutant:
    def __init__(self, path, begin, end, written, words, text, name=""):
        self.path, self.begin, self.end, self.written, self.words, self.name = path, begin, end, written, words, name
        self.lines = text.count("\n", 0, begin) + 1, text.count("\n", 0, end) + 1
        self.was = " ".join(text[begin:end].split())
        self.folder = path.split("/")[0]


def draw(texts, randomness, taken, per_file):
    """Endless mutants in the order drawn; none overlaps another."""
    paths = sorted(path for path in texts if not LEFT_OUT.search("/" + path))
    sizes = [len(texts[path]) for path in paths]
    places = {}
    for path in (drawn for _ in itertools.count() for drawn in per_file * randomness.choices(paths, sizes)):
        text = texts[path]
        if path not in places:
            code = hide(text)
            places[path] = code, [(match, kind) for pattern, kind in CHANGES for match in pattern.finditer(code)]
        code, found = places[path]
        if not found:
            continue
        match, kind = found.pop(randomness.randrange(len(found)))
        change = changed(text, code, match, kind)
        if change and all(change[1] <= other.begin or other.end <= change[0] for other in taken[path]):
            mutant = Mutant(path, *change, text)
            taken[path].append(mutant)
            yield mutant


def by_hand(file, texts, taken):
    for block in re.split(r"^== ", open(file).read(), flags=re.M)[1:]:
        name, path, *lines = block.rstrip("\n").split("\n")
        was = "\n".join(line[1:] for line in lines if line.startswith("-"))
        new = "\n".join(line[1:] for line in lines if line.startswith("+"))
        if texts[path].count(was) != 1:
            sys.exit(f"{file}: {name}: what it changes is {texts[path].count(was)} times in {path}")
        begin = texts[path].index(was)
        mutant = Mutant(path, begin, begin + len(was), new.replace("MUTANT", "stepcast_mutant(@)"), new, texts[path], name)
        taken[path].append(mutant)
        yield mutant


def compiled(path, text, mutants, command):
    """Writes the file with its mutants and compiles it. Mutants that do not compile become None, and it tries again."""
    source, out = os.path.join(WORK, path), os.path.join(WORK, path) + ".o"
    os.makedirs(os.path.dirname(source), exist_ok=True)
    command = re.sub(r"-o \S+ -c \S+$", f"-O1 -w -o {out} -c {source}", command)
    while True:
        mine = sorted(((m.begin, m.end, n) for n, m in enumerate(mutants) if m and m.path == path), reverse=True)
        changed_text = text
        for begin, end, number in mine:
            written = mutants[number].written.replace("@", str(number))
            lines = text.count("\n", begin, end) - written.count("\n")  # keeps the line numbers
            changed_text = changed_text[:begin] + written + "\n" * lines + changed_text[end:]
        changed_text = f'#include "{WORK}/mutant.h"\n#line 1\n{changed_text}'
        if os.path.exists(out) and open(source).read() == changed_text:
            return out
        with open(source, "w") as file:
            file.write(changed_text)
        result = subprocess.run(command, shell=True, cwd=BUILD, capture_output=True, text=True)
        if result.returncode == 0:
            return out
        if os.path.exists(out):
            os.remove(out)
        places = {int(line) for line in re.findall(re.escape(source) + r":(\d+):\d+: +(?:error|  required from)", result.stderr)}
        wrong = [n for _, _, n in mine if places & set(range(mutants[n].lines[0], mutants[n].lines[1] + 1))] or [n for _, _, n in mine]
        for number in wrong:
            if mutants[number].name or not mine:
                sys.exit(f"{path}: does not compile\n{result.stderr[-3000:]}")
            mutants[number] = None


def build(texts, mutants, programs, jobs):
    """Links the compiled files with mutants before those of the ordinary build: of duplicates the linker takes the first."""
    for name, content in (("mutant.h", MUTANT_H), ("listener.cpp", LISTENER)):
        os.makedirs(WORK, exist_ok=True)
        with open(os.path.join(WORK, name), "w") as file:
            file.write(content)
    commands = {os.path.relpath(entry["file"], TREE): entry["command"] for entry in json.load(open(BUILD + "/compile_commands.json"))}
    paths = sorted({mutant.path for mutant in mutants if mutant} & set(commands))
    for number, mutant in enumerate(mutants):
        if mutant and mutant.path not in commands:
            mutants[number] = None  # in a part that is not built here
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        listener = pool.submit(subprocess.run, f"c++ -std=c++20 -w -I{TREE} -c {WORK}/listener.cpp -o {WORK}/listener.o", shell=True, check=True)
        objects = list(pool.map(lambda path: compiled(path, texts[path], mutants, commands[path]), paths))
        listener.result()
        links = []
        for program in sorted(programs):
            target = "stepcast" if program == "cli" else f"tests/test_{program}"
            link = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], capture_output=True, text=True, check=True).stdout
            link = link.rstrip().split("\n")[-1]
            first = " ".join(out for path, out in zip(paths, objects) if "lib{0}.a".format(path.split("/")[0]) in link)
            first += "" if program == "cli" else f" {WORK}/listener.o"
            links.append(link.replace(f" -o {target} ", f" {first} -Wl,-z,muldefs -o {HOME}/bin/{os.path.basename(target)} "))
        list(pool.map(lambda link: subprocess.run(link, shell=True, cwd=BUILD, check=True, stdout=subprocess.DEVNULL), links))


def limits(seconds):
    def set_limits():
        resource.setrlimit(resource.RLIMIT_CPU, (int(10 * seconds) + 20,) * 2)
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)
    return set_limits


def run(program, cases, seconds, **environment):
    """The exit status of these cases (None: all cases of the program), or -1 after far too long."""
    with tempfile.TemporaryDirectory() as folder:
        if program == "cli":
            command = ["bash", f"{TREE}/tests/cli/{cases[0]}_test.sh", HOME + "/bin/stepcast", TREE]
        else:
            command = [f"{HOME}/bin/test_{program}"] + (["--abort"] if cases else [])
            if cases:
                with open(folder + "/cases", "w") as file:
                    file.write("".join('"' + re.sub(r'([\\\\,"\[\]])', r"\\\1", case) + '"\n' for case in cases))
                command += ["-f", folder + "/cases"]
        try:
            return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=20 * seconds + 120, preexec_fn=limits(seconds), env={**os.environ, **environment}).returncode
        except subprocess.TimeoutExpired:
            return -1


def reach(programs, jobs):
    """For every test case that passes without a mutant: (program, its name) -> (seconds, the mutants that it reaches)."""
    def lines_of(part):
        program, script = part
        with tempfile.NamedTemporaryFile("r") as file:
            start = time.monotonic()
            status = run(program, [script] if script else None, 600, STEPCAST_REACHED=file.name)
            lines = [line.split("\t") for line in file.read().splitlines()]
        if status:
            print(f"{program} {script}: fails without a mutant, too", flush=True)
        if not script:
            return {(program, name): (float(seconds), {int(n) for n in numbers.split()}) for seconds, name, numbers in lines if name}
        return {} if status else {(program, script): (time.monotonic() - start, {int(n) for line in lines for n in line[2].split()})}

    parts = [(program, script) for program in sorted(programs) for script in (SCRIPTS if program == "cli" else [""])]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return {case: of for found in pool.map(lines_of, parts) for case, of in found.items()}


def kill(number, folder, cases):
    """The first batch of cases that fails, as (program, cases); None if none fails."""
    mine = sorted((of[0], case) for case, of in cases.items() if number in of[1] and case[0] in PROGRAMS[folder])
    batches, spent = collections.defaultdict(list), 0.0
    for seconds, (program, case) in mine:  # quick ones together, slow ones alone
        spent += seconds
        batches[int(spent), program, case if program == "cli" or seconds > 5 else ""].append((seconds, case))
    for (_, program, _), batch in batches.items():
        names = [case for _, case in batch]
        if run(program, names, sum(seconds for seconds, _ in batch), STEPCAST_MUTANT=str(number)) != 0:
            return program, names
    # Code that runs once per process (the tables of keys) is reached only by the first case, so all cases of the folder's own tests try.
    if mine and run(folder, None, sum(of[0] for case, of in cases.items() if case[0] == folder), STEPCAST_MUTANT=str(number)) != 0:
        return folder, ["some case, of all"]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-file", type=int, default=3, help="places drawn in each file drawn (3)")
    parser.add_argument("--by-hand")
    parser.add_argument("--folders", default=",".join(PROGRAMS), help="or folders in them, as sim/bounds")
    parser.add_argument("--build", help="a build that is there and whole, with every file on its own (a compiler cache was set, or -DSTEPCAST_GROUPED=OFF)")
    parser.add_argument("--without", default="", help="test programs that are not run, as cli,exec")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="numbers of mutants of an earlier run with the same sources, as 3,17")
    options = parser.parse_args()
    folders = options.folders.split(",")
    programs = {program for folder in folders for program in PROGRAMS[folder.split("/")[0]]} - set(options.without.split(","))
    prepare(options.build, programs)
    texts = {}
    for folder in folders:
        for root, _, names in os.walk(os.path.join(TREE, folder)):
            for path in [os.path.join(root, name) for name in names if name.endswith(".cpp")]:
                texts[os.path.relpath(path, TREE)] = open(path).read()

    taken = collections.defaultdict(list)
    mutants = list(by_hand(options.by_hand, texts, taken)) if options.by_hand else []
    drawn = draw(texts, random.Random(options.seed), taken, options.per_file)
    wanted = len(mutants) + options.count
    while True:
        missing = wanted - sum(map(bool, mutants))
        mutants += [next(drawn) for _ in range(missing + missing // 3)]  # more, as some usually do not compile
        build(texts, mutants, programs, options.jobs)
        if sum(map(bool, mutants)) >= wanted:
            break
    numbers = [number for number, mutant in enumerate(mutants) if mutant][:wanted]
    if options.only:
        numbers = [number for number in numbers if str(number) in options.only.split(",")]
    cases = reach(programs, options.jobs)
    print(f"{len(numbers)} mutants, {len(cases)} test cases", flush=True)

    killed, of = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, killers in zip(numbers, pool.map(lambda n: kill(n, mutants[n].folder, cases), numbers)):
            mutant = mutants[number]
            of[mutant.folder] += 1
            killed[mutant.folder] += killers is not None
            by = sum(number in reached for _, reached in cases.values())
            fate = f"killed by {killers[0]}: {killers[1][0] if len(killers[1]) == 1 else f'one of {len(killers[1])} cases'}" if killers else \
                f"SURVIVED {by} cases" if by else "SURVIVED, not reached"
            print(f"{number} {mutant.path}:{mutant.lines[0]} {mutant.name or ''} {fate}\n    - {mutant.was}\n    + {' '.join(mutant.words.split())}", flush=True)
    shutil.rmtree(HOME)
    for folder in sorted(of):
        print(f"{folder:<10} {killed[folder]} of {of[folder]} killed")
    print(f"all        {sum(killed.values())} of {sum(of.values())} killed ({100 * sum(killed.values()) / sum(of.values()):.0f} %)")


main()
