#!/usr/bin/env python3
"""Holds README.md and docs/ to the program, or fills them from it.

    scripts/docs.py check [--stepcast BINARY] [--pages | --figures]    # pages: form, links, commands; figures: tables between markers
    scripts/docs.py renew [--stepcast BINARY] [--pages | --figures]    # writes what the program says now; read `git diff` afterwards
    scripts/docs.py count                                              # lines, words and numbers per 100 words of prose, by page

Every command after "$ " is run as printed, page by page in an empty folder, with `stepcast` on the path and STEPCAST naming the checkout.
What stands below it is its output; "..." marks lines that are left out. Verbs and options of docs/cli.md are those of --help. Tables between "<!-- figures NAME -->" and "<!-- end -->" are
made from the published tables (STEPCAST_TRUTH, else ../shared/truth); without these they stay as they are, and `check` says so. The
outputs of docs/python.md and of the notebook are tests/python/documents_test.py's, which scripts/renew-golden.sh renews.
"""

import argparse
import difflib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORDER = ["first-plan", "measure-and-compare", "search-a-layout", "cost-and-machines", "bring-your-files", "calibrate", "frameworks",
         "python", "cli", "files", "numbers-and-words", "model", "evidence", "developing", "slow-runs", "questions", "assistants"]
LONGEST, LONGEST_README, NUMBERS_PER_100_WORDS, WIDEST_COMMAND = 350, 90, 4, 100
# What a fence may show without running it: a word in capitals to be replaced, a device, tables that are not shipped.
NOT_RUN = re.compile(r"\b[A-Z][A-Z_]{2,}\b|--device|shared/truth|mpirun|torchrun")


def pages():
    return [ROOT / "README.md"] + [ROOT / "docs" / f"{name}.md" for name in ORDER]


def squeeze(line):
    return " ".join(line.split())


# ---- form: length, numbers in prose, links ----

def prose(text):
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    text = re.sub(r"<!-- figures .*?<!-- end -->", " ", text, flags=re.S)
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#", "    ", "![")))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"`[^`]*`", "code", text)


def numbers_per_100_words(text):
    words = re.sub(r"^ *\d+\. ", "", prose(text), flags=re.M).split()
    numbers = [word for word in words if re.match(r"[(\"*+~-]*\d", word)]  # a name (H100, p10, fp8) is none
    return 100 * len(numbers) / max(1, len(words)), len(words)


def anchors(text):
    found = set()
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    for title in re.findall(r"^#+ (.*)$", text, flags=re.M):
        found.add(re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).lower()).replace(" ", "-"))
    return found


def check_form():
    wrong = []
    on_disk = {path.stem for path in (ROOT / "docs").glob("*.md")}
    if on_disk != set(ORDER):
        wrong.append(f"docs/ and ORDER of scripts/docs.py differ: {sorted(on_disk ^ set(ORDER))}")
    for path in pages():
        text, name = path.read_text(), path.relative_to(ROOT)
        lines, longest = text.count("\n"), LONGEST_README if path.name == "README.md" else LONGEST
        if lines > longest:
            wrong.append(f"{name}: {lines} lines; at most {longest}")
        share, words = numbers_per_100_words(text)
        if share >= NUMBERS_PER_100_WORDS:
            wrong.append(f"{name}: {share:.1f} numbers per 100 words of prose ({words} words); below {NUMBERS_PER_100_WORDS}")
    for path in pages() + [p for pattern in ("notes/*.md", "*.md", "*/README.md", "calibrate/measurements/*/README.md")
                           for p in ROOT.glob(pattern) if p.name != "README.md" or p.parent != ROOT]:
        plain = re.sub(r"```.*?```", " ", path.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", " ", plain)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if not goal.exists():
                wrong.append(f"{path.relative_to(ROOT)}: link to {target}: no such file")
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text()):
                wrong.append(f"{path.relative_to(ROOT)}: link to {target}: no such heading")
    return wrong


# ---- docs/cli.md: verbs and options as --help lists them ----

VERBS = re.compile(r"(?<=<!-- verbs -->\n).*(?=<!-- end -->\n)", re.S)


def help_of(stepcast, *verb):
    return subprocess.run([stepcast, *verb, "--help"], capture_output=True, text=True).stdout


HELP_COLUMN = 30  # where --help begins to say what an option means, on its own line if the option is longer


def options_of(text):
    """(option with its type, what it means) of a verb's --help."""
    lines = [told.rstrip() for told in text.splitlines()]
    for told, after in zip(lines, lines[1:] + [""]):
        if not re.match(r"  (-\w,)?(--[a-z-]+|[A-Z])", told):
            continue
        long = after.startswith(" " * HELP_COLUMN)
        words = (told if long else told[:HELP_COLUMN]).replace("-h,", "").split()
        means = (after if long else told[HELP_COLUMN:]).strip()
        if "REQUIRED" in words and words[0].startswith("-"):
            means += " (required)"
        words = [word for word in words if word not in ("REQUIRED", "TEXT", "...")]
        if means and words[0] != "--help":
            yield " ".join(words), means


def verbs_text(stepcast):
    """Tables of the verbs and of their options; one that several verbs share is named once, first."""
    verbs = re.findall(r"^  ([a-z]+) {2,}(.*)$", help_of(stepcast).split("Subcommands:")[-1], flags=re.M)
    text, of = ["| verb | does | example |", "|---|---|---|"], {}
    code = lambda words: "`" + words.replace("|", " or ") + "`"  # a bar ends a cell
    for verb, purpose in verbs:
        told = help_of(stepcast, verb)
        example, usage = (re.search(rf"^{word}: (.*)$", told, flags=re.M)[1] for word in ("Example", "Usage"))
        text.append(line(code(usage.removeprefix("stepcast ").replace("[OPTIONS] ", "").replace(" [OPTIONS]", "")), purpose, code(example)))
        for option in options_of(told):
            of.setdefault(option, []).append(verb)
    text += ["", "| of | option | means |", "|---|---|---|"]
    for (option, means), users in sorted(of.items(), key=lambda item: len(item[1]) < 2):
        name, _, kind = option.partition(" ")
        text.append(line(", ".join(users), f"{code(name)} {kind.replace('|', ', ')}".strip(), means))
    return "\n".join(text) + "\n"


def do_verbs(stepcast, renew):
    path = ROOT / "docs" / "cli.md"
    text, new = path.read_text(), verbs_text(stepcast)
    if renew:
        path.write_text(VERBS.sub(lambda _: new, text))
    elif VERBS.search(text) is None or VERBS.search(text)[0] != new:
        old = VERBS.search(text)[0] if VERBS.search(text) else ""
        differs = [d for d in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0) if d[:3] not in ("---", "+++", "@@ ")]
        return ["cli.md: verbs and options are otherwise than --help lists them (scripts/docs.py renew --pages):\n    " + "\n    ".join(differs[:12])]
    return []


def check_columns(stepcast):
    """A cases file may have every column that docs/files.md names."""
    section = (ROOT / "docs" / "files.md").read_text().split("\n## Cases")[1].split("\n## ")[0]
    columns = re.findall(r"^source,case_id.*$", section, flags=re.M)[0].split(",")
    columns += [name.strip("` ") for row in re.findall(r"^\| (`.*?) \|", section, flags=re.M) for name in row.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "documented.csv")
        file.write_text(",".join(sorted(set(columns))) + "\n")
        told = subprocess.run([stepcast, "compare", file], capture_output=True, text=True).stderr
    wrong = [] if len(set(columns)) >= 40 else [f"files.md names too few columns of a cases file: {columns}"]
    return wrong + ([f"files.md: {told.strip()}"] if "is no column" in told else [])


# ---- commands and their output ----

class Command:
    """A command of a page, and the lines below it that show its output: line numbers, first and one past the last."""

    def __init__(self, text, first, number):
        self.text, self.first, self.last, self.number = text, first, first, number


def commands_of(lines):
    """(commands, what is wrong). A here-document and a continued line belong to their command."""
    found, wrong, fenced, at = [], [], False, 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("```"):
            fenced = not fenced
        elif fenced and line.startswith("$ "):
            number, text = at, line[2:]
            while text.endswith("\\"):
                text = text[:-1] + lines[at].strip()
                at += 1
            end = re.search(r"<<'(\w+)'", text)
            while end and lines[at - 1] != end[1]:
                text += "\n" + lines[at]
                at += 1
            wrong += [f"line {n + 1}: a command of more than {WIDEST_COMMAND} columns is cut off where pages are shown"
                      for n in range(number - 1, at if not end else number) if len(lines[n]) > WIDEST_COMMAND]
            found.append(Command(text, at, number))
            while not lines[at].startswith(("```", "$ ")):
                at += 1
            found[-1].last = at
        elif fenced and re.match(r"\s*stepcast ", line) and not NOT_RUN.search(line):
            wrong.append(f"line {at}: neither run (\"$ stepcast ..\") nor with a word in capitals to be replaced: {line}")
    return found, wrong


def run_page(path, stepcast):
    """Runs the commands of a page; yields each with what it printed and its exit code."""
    lines = path.read_text().splitlines()
    found, wrong = commands_of(lines)
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder, ".tools")
        tools.mkdir()
        (tools / "stepcast").symlink_to(Path(stepcast).resolve())
        environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", STEPCAST=str(ROOT))
        for command in found:
            done = subprocess.run(["bash", "-c", command.text], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True)
            command.output = [line for line in done.stdout.splitlines() if line.strip()]
            if done.returncode != 0:
                wrong.append(f"line {command.number}: exit code {done.returncode}: {command.text}\n    {done.stderr.strip()[:400]}")
    return lines, [c for c in found if hasattr(c, "output")], wrong


def is_verdict(line):
    return "DOES NOT FIT" in line or re.match(r"fits\b.*\bNO\b", squeeze(line))


def check_shown(command, lines):
    """What the page shows is what was printed, in order; only "..." leaves lines out."""
    output, at, cut, wrong = [squeeze(line) for line in command.output], 0, False, []
    shown = [line for line in lines[command.first:command.last] if line.strip()]
    if not shown:
        return []
    for line in shown:
        if line.strip() == "...":
            cut = True
            continue
        try:
            next_at = output.index(squeeze(line), at)
        except ValueError:
            near = difflib.get_close_matches(squeeze(line), output[at:], 1, 0.3)
            return [f"line {command.number}: shows: {line}\n    but the program prints: {near[0] if near else 'no line like it'}"]
        if next_at != at and not cut:
            wrong.append(f"line {command.number}: lines are left out before \"{line.strip()}\" without \"...\"")
        at, cut = next_at + 1, False
    if at != len(output) and not cut:
        wrong.append(f"line {command.number}: lines are left out after \"{shown[-1].strip()}\" without \"...\"")
    kept = {squeeze(line) for line in shown}
    wrong += [f"line {command.number}: the page hides: {line}" for line in output if is_verdict(line) and line not in kept]
    return wrong


def renewed(command, lines):
    """The lines that a page shows, as they are printed now: the same ones, the verdict on memory, and "..." where others are left out."""
    shown = [line for line in lines[command.first:command.last] if line.strip()]
    if not shown:
        return lines[command.first:command.last]
    output, plain, chosen, at = command.output, [squeeze(line) for line in command.output], [], 0
    mask = [re.sub(r"\d[\d.,]*", "#", line) for line in plain]
    for line in shown:
        if line.strip() == "...":
            continue
        wanted, masked = squeeze(line), re.sub(r"\d[\d.,]*", "#", squeeze(line))
        later = range(at, len(plain))
        place = next((i for i in later if plain[i] == wanted), None)
        if place is None:
            place = next((i for i in later if mask[i] == masked), None)
        if place is None:
            place = next((i for i in later if mask[i].startswith(masked)), None)
        if place is None and later:
            score, best = max((difflib.SequenceMatcher(None, masked, mask[i]).ratio(), -i) for i in later)
            place = -best if score > 0.5 else None
        if place is None:
            print(f"    dropped, nothing like it is printed: {line}")
            continue
        chosen.append(place)
        at = place + 1
    chosen = sorted(set(chosen) | {i for i, line in enumerate(output) if is_verdict(line)})
    text, before = [], -1
    for place in chosen:
        if place != before + 1:
            text.append("...")
        text.append(output[place].rstrip())
        before = place
    if before != len(output) - 1:
        text.append("...")
    return text


def outputs_of(text):
    """Folders and files that the commands of a page write, by name, with what here-documents put into them."""
    found = {}
    for command in commands_of(text.splitlines())[0]:
        line = command.text.splitlines()[0]
        for name in re.findall(r"--(?:out|save|trace)[ =](\S+)", line) + re.findall(r"(?<!<)> ?(\w\S*)", line):
            found[name] = command.text
    return found


def do_pages(stepcast, renew):
    wrong, written, commands = [], {}, 0
    for path in pages():
        text = path.read_text()
        for name, body in outputs_of(text).items():
            if written.setdefault(name, body) != body:
                wrong.append(f"{path.name}: writes {name}, which an earlier page fills otherwise; both may be followed in one folder")
        lines, found, amiss = run_page(path, stepcast)
        wrong += [f"{path.name}: {text}" for text in amiss]
        commands += len(found)
        if renew:
            for command in reversed(found):
                lines[command.first:command.last] = renewed(command, lines)
            path.write_text("\n".join(lines) + "\n")
        else:
            wrong += [f"{path.name}: {text}" for command in found for text in check_shown(command, lines)]
    if commands < 50:
        wrong.append(f"only {commands} commands were found in README and docs")
    print(f"{commands} commands of {len(pages())} pages were run")
    return wrong


# ---- figures: tables between markers ----

BLOCK = re.compile(r"^<!-- figures ([a-z-]+) -->\n(.*?)^<!-- end -->$", re.M | re.S)


def percent(share):
    return f"{100 * share:.1f} %"


def whole(share):
    return f"{100 * share:.0f} %"


def truth_folder():
    return Path(os.environ.get("STEPCAST_TRUTH", ROOT.parent / "shared" / "truth"))


class Figures:
    """What the program says of measured steps. Each command runs once, when a table asks for it."""

    def __init__(self, stepcast):
        self.stepcast, self.kept = stepcast, {}

    def run(self, *arguments):
        if arguments not in self.kept:
            done = subprocess.run([self.stepcast, *map(str, arguments)], capture_output=True, text=True, cwd=tempfile.gettempdir())
            if done.returncode != 0:
                sys.exit(f"docs: stepcast {' '.join(map(str, arguments))[:200]}: {done.stderr.strip()[-600:]}")
            self.kept[arguments] = done.stdout
        return self.kept[arguments]

    def tables(self):
        script = [str(ROOT / "scripts" / "step-tables.sh")]
        named = subprocess.run(script, capture_output=True, text=True, check=True, env=dict(os.environ, STEPCAST_TRUTH=str(truth_folder())))
        return named.stdout.split()

    def rows(self, *arguments):
        return [row for row in json.loads(self.run("compare", *arguments, "--json"))["rows"] if not row["refused_because"]]

    def published(self):
        return self.rows(*self.tables())

    def one_gpu(self):
        """Steps of frameworks that were measured on one H100 and one H200 (calibrate/measurements)."""
        rows = []
        for gpu in ("h100", "h200"):
            files = sorted((ROOT / "calibrate" / "measurements" / gpu).glob("*_cases.csv"))
            rows += self.rows(*files, "--cluster", f"{gpu}-x1")
        return rows

    def left_out(self):
        """Blocks of `calibrate --cross-validate source`: name to (rows, median, mean, inside), of sources, devices and classes."""
        text = self.run("calibrate", "--measurements", *self.tables(), *sorted((truth_folder() / "new").glob("*.csv")), "--cross-validate", "source")
        found = {}
        for line in text.splitlines():
            cells = re.match(r"  (\S.*?)\s+(\d+)\s+([\d.]+) %\s+([\d.]+) %\s+[-+][\d.]+ %\s+[-+][\d.]+ %\s+(\d+) %$", line)
            if cells:
                found.setdefault(cells[1], (f"{int(cells[2]):,}", f"{cells[3]} %", f"{cells[4]} %", f"{cells[5]} %"))
        return found

    def sources(self):
        text = self.run("calibrate", "--measurements", *self.tables(), *sorted((truth_folder() / "new").glob("*.csv")), "--cross-validate", "source")
        return sum(1 for line in text.split("\n\n")[0].splitlines()[1:] if line.strip() and not line.startswith("  all "))


def errors_of(rows):
    """steps, median, mean, inside"""
    off = [abs(row["error"]) for row in rows]
    return f"{len(rows):,}", percent(statistics.median(off)), percent(statistics.fmean(off)), whole(statistics.fmean(row["inside"] for row in rows))


def line(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


# Steps forecast by files that were committed before they were measured (commits f0ff1e4b, 190ea2e1; notes/pytorch.md): a record of
# November 2026, which no later program can make again.
FROZEN = ("81", "-", "10.3 %", "65 %")


def readme_table(figures):
    left_out, published = figures.left_out(), figures.published()
    long_runs = figures.rows(ROOT / "docs" / "published_runs.csv")
    return ["| forecasts of | steps | median | mean | inside |", "|---|---:|---:|---:|---:|",
            line(f"published steps, each of {figures.sources()} sources left out in turn", *left_out["all"]),
            line("of these, users' threads", *left_out["thread"]),
            line("one-GPU steps, forecast before they were measured", *FROZEN),
            line("long runs on 96 to 12,288 GPUs", *errors_of(long_runs)),
            line("published steps that a fit has read", *errors_of([r for r in published if r["evidence"] == "fitted"]))]


def kinds_table(figures):
    left_out, published = figures.left_out(), figures.published()
    long_runs = figures.rows(ROOT / "docs" / "published_runs.csv")
    names = {"named": ".. in a framework that other sources ran, named", "unnamed": ".. in no framework that can be named",
             "untuned": ".. in Megatron-LM that follows no recipe", "thread": ".. of users' threads",
             "complaint": ".. of users who say that it is slow"}
    return (["| forecasts of | steps | median | mean | inside |", "|---|---:|---:|---:|---:|",
             line(f"**test**: {figures.sources()} sources, each left out in turn", *left_out["all"])] +
            [line(text, *left_out[name]) for name, text in names.items()] +
            [line("**test**: one-GPU steps, forecast before they were measured", *FROZEN),
             line("**development**: long runs on 96 to 12,288 GPUs, in no table and no fit", *errors_of(long_runs)),
             line("**development**: published steps that no fit has read", *errors_of([r for r in published if r["evidence"] == "seen"])),
             line("**training**: published steps that a fit has read", *errors_of([r for r in published if r["evidence"] == "fitted"]))])


def grouped(rows, key, least):
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [(name, some) for name, some in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])) if len(some) >= least]


def furthest(rows):
    return f"{100 * max((row['error'] for row in rows), key=abs):+.0f} %"


def grid_table(figures):
    return grid_of([row for row in figures.published() if row["framework"]], 5)


def one_gpu_table(figures):
    return grid_of(figures.one_gpu(), 3)


def grid_of(rows, least):
    text = ["| framework | machine | steps | of them fitted | median | mean | furthest | inside |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    for (framework, cluster), some in grouped(rows, lambda r: (r["framework"], r["cluster"]["name"]), least):
        steps, median, mean, inside = errors_of(some)
        fitted = sum(row["evidence"] == "fitted" for row in some)
        text.append(line(f"`{framework}`", f"`{cluster}`", steps, fitted, median, mean, furthest(some), inside))
    return text


def totals_table(figures):
    told = json.loads(figures.run("compare", *figures.tables(), "--json"))
    return ["| published rows, as shipped | |", "|---|---:|",
            line("rows; forecast; refused with a reason", f"{told['cases']}; {told['predicted']}; {told['refused_count']}"),
            line("median error", percent(told["median_ape"])), line("mean error", percent(told["mape"])),
            line("bias", f"{100 * told['bias']:+.1f} %"), line("inside p10 .. p90", whole(told["inside_interval"])),
            line("rows that state peak memory", told["with_peak"]), line("mean error of peak memory", percent(told["peak_mape"])),
            line("jobs measured in several layouts", told["decisions"]),
            line("of these, the fastest was forecast the fastest", told["best_chosen"]),
            line("time lost by the forecast's choice, in the mean", percent(told["regret"])),
            line("time lost by the forecast's choice, at worst", percent(told["regret_worst"])),
            line("rank correlation within a model", f"{told['rank_correlation']:.2f}")]


MODELS = [("BLOOM and its trials, 176 to 200B", "gpt-bloom"), ("gpt-oss 120B", "gpt-oss"), ("single MoE layer", "single-moe"), ("GPT, Megatron", "megatron"),
          ("GPT, Megatron", "gpt"), ("MPT", "mpt"), ("Llama 4 Maverick", "llama4"), ("Llama 3.1 405B", "llama3.1-405b"), ("Llama, dense", "llama"), ("DeepSeek-V3", "deepseek-v3"),
          ("DeepSeek-V2, V2-Lite", "deepseek-v2"), ("Qwen3 235B-A22B", "qwen3-235b"), ("Qwen3 30B-A3B", "qwen3-30b"), ("Nemotron 3 Nano", "nemotron_3"),
          ("Nemotron, dense and hybrid", "nemotron"), ("BERT large", "bert"), ("Transformer-XL", "transformer-xl"), ("Grok-1", "grok1"),
          ("Kimi K2", "kimi"), ("Moonlight 16B", "moonlight")]


def models_table(figures):
    def model(row):
        return next((name for name, start in MODELS if row["series"].lower().startswith(start)), row["series"])
    text = ["| model | machines | steps | median | mean | furthest | inside |", "|---|---|---:|---:|---:|---:|---:|"]
    for name, some in grouped(figures.published(), model, 2):
        steps, median, mean, inside = errors_of(some)
        machines = ", ".join(f"`{m}`" for m, _ in grouped(some, lambda r: r["cluster"]["name"], 1)[:4])
        text.append(line(name, machines, steps, median, mean, furthest(some), inside))
    return text


def filled(old, key_of, cells_of, width):
    """Rows whose words are kept and whose last cells are filled anew."""
    lines = old.splitlines()
    for at, text in enumerate(lines[2:], 2):
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        lines[at] = line(*cells[:-width], *cells_of(key_of(cells)))
    return lines


def code_word(cells, column):
    return re.search(r"`([^`]+)`", cells[column])[1]


THREADS = "users' threads, complaints too"  # one row, which names its sources in the second cell


def pooled(blocks):
    """Steps, median, mean and inside of one source; of several the mean by steps, without a median."""
    if len(blocks) < 2:
        return blocks[0] if blocks else ("-",) * 4
    steps = [int(block[0].replace(",", "")) for block in blocks]
    mean, inside = (sum(n * float(block[at].rstrip(" %")) for n, block in zip(steps, blocks)) / sum(steps) for at in (2, 3))
    return f"{sum(steps):,}", "-", f"{mean:.1f} %", f"{inside:.0f} %"


def sources_table(figures, old):
    left_out, published = figures.left_out(), figures.published()
    def names_of(cells):
        return cells[1].split(", ") if cells[0] == THREADS else [cells[0]]

    text = filled(old, names_of, lambda names: pooled([left_out[name] for name in names if name in left_out]), 4)
    told = {name for row in text[2:] for name in names_of([cell.strip() for cell in row.split("|")[1:]])}
    listed = figures.run("calibrate", "--measurements", *figures.tables(), *sorted((truth_folder() / "new").glob("*.csv")), "--cross-validate", "source")
    for name in re.findall(r"^  (\S+)\s+\d+ ", listed.split("\n\n")[0], flags=re.M):
        if name not in told and name != "all" and name != "left":
            text.append(line(name, THREADS, *left_out[name]))
    return text


def frameworks_table(figures, old):
    measured = figures.published() + figures.one_gpu()

    def cells(name):
        some = [row for row in measured if row["framework"] == name]
        if not some:
            return "-", "-", "-", "-"
        steps, median, _, inside = errors_of(some)
        return len({row["source"] for row in some}), steps, median, inside
    return filled(old, lambda row: code_word(row, 1), cells, 4)


def folds_table(figures):
    text = ["| cluster | steps | fitted, median | fitted, mean | left out, median | left out, mean | left out, furthest |", "|---|---:|---:|---:|---:|---:|---:|"]
    for name in ("dgx-a100", "dgx-h100", "b200-sxm-x8"):
        rows = re.findall(r'\{kind = "step", method = "(.*?)", (.*?)\}', (ROOT / "model" / "presets" / "clusters" / f"{name}.toml").read_text())
        fields = {how: dict(re.findall(r"(\w+) = ([-\d.e]+)", some)) for how, some in rows}
        fitted = next(v for k, v in fields.items() if k.startswith("fitted"))
        out = next(v for k, v in fields.items() if "five folds by model and layout" in k or "left out by model" in k)
        value = lambda some, key: percent(float(some.get(key, 0)))
        text.append(line(f"`{name}`", out["samples"], value(fitted, "median"), value(fitted, "mape"), value(out, "median"), value(out, "mape"),
                         f"{100 * float(out['worst']):+.0f} %"))
    return text


# Name of a block: what fills it, whether it needs the published tables, whether it keeps the words of its rows.
BLOCKS = {"readme": (readme_table, True, False), "kinds": (kinds_table, True, False), "totals": (totals_table, True, False), "grid": (grid_table, True, False),
          "models": (models_table, True, False), "sources": (sources_table, True, True), "frameworks": (frameworks_table, True, True),
          "folds": (folds_table, False, False), "one-gpu": (one_gpu_table, False, False)}


def do_figures(stepcast, renew):
    figures, wrong, absent, found = Figures(stepcast), [], not truth_folder().is_dir(), set()
    for path in pages():
        text = path.read_text()

        def fill(match):
            name, old = match[1], match[2]
            found.add(name)
            make, needs_tables, keeps = BLOCKS[name]
            if needs_tables and absent:
                return match[0]
            new = "\n".join(make(figures, old) if keeps else make(figures)) + "\n"
            if not renew and new != old:
                differs = [f"    {d}" for d in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0) if d[:3] not in ("---", "+++")]
                wrong.append(f"{path.name}: table {name} says otherwise than the program:\n" + "\n".join(differs[:12]))
            return f"<!-- figures {name} -->\n{new}<!-- end -->"
        filled_text = BLOCK.sub(fill, text)
        if renew:
            path.write_text(filled_text)
    if found != set(BLOCKS):
        wrong.append(f"tables without a place in README or docs, or without a source: {sorted(found ^ set(BLOCKS))}")
    if absent and not wrong:
        print(f"skipped: {truth_folder()} is not here")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "renew", "count"])
    parser.add_argument("--stepcast", default=ROOT / "build" / "release" / "stepcast")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    if options.what == "count":
        for path in pages():
            text = path.read_text()
            share, words = numbers_per_100_words(text)
            print(f"{text.count(chr(10)):5} lines {words:6} words {share:5.1f} numbers per 100 words  {path.relative_to(ROOT)}")
        return
    both, renew = options.pages == options.figures, options.what == "renew"
    wrong = []
    if options.figures or both:
        wrong += do_figures(str(Path(options.stepcast).resolve()), renew)
    if options.pages or both:
        wrong += do_verbs(options.stepcast, renew)
        wrong += do_pages(options.stepcast, renew)
        wrong += check_form() + check_columns(options.stepcast)
    for text in wrong:
        print(text)
    print(f"{len(wrong)} faults" if wrong else "all passed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
