"""The outputs shown in docs/python.md and docs/what_if_70b.ipynb are those that come out. `--renew` writes them anew
(scripts/renew-golden.sh calls it)."""

import ast
import contextlib
import doctest
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

DOCS = Path(os.environ["STEPCAST_SOURCES"], "docs").resolve()
TUTORIAL, NOTEBOOK = DOCS / "python.md", DOCS / "what_if_70b.ipynb"


class Collector(doctest.DocTestRunner):
    """Every example that says something else than it shows."""

    def __init__(self):
        super().__init__(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        self.wrong = []

    def report_failure(self, out, test, example, got):
        self.wrong.append((example, got))

    def report_unexpected_exception(self, out, test, example, raised):
        kind, error, _ = raised
        self.wrong.append((example, f"Traceback (most recent call last):\n    ...\n{kind.__module__}.{kind.__qualname__}: {error}\n"))


def examples_that_differ(text):
    # A fence ends what an example shows; the line numbers stay.
    plain = "".join("\n" if line.startswith("```") else line for line in text.splitlines(keepends=True))
    runner = Collector()
    runner.run(doctest.DocTestParser().get_doctest(plain, {}, TUTORIAL.name, str(TUTORIAL), 0), clear_globs=False)
    return runner.wrong, runner.tries


def renewed(text):
    lines = text.splitlines(keepends=True)
    for example, got in reversed(examples_that_differ(text)[0]):
        start = example.lineno + example.source.count("\n")
        lines[start:start + example.want.count("\n")] = [got]
    return "".join(lines)


def outputs_of(cell, names):
    """What a notebook shows below a code cell: its prints, then the value of a last expression."""
    body = ast.parse("".join(cell["source"])).body
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            value = eval(compile(last, "cell", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": [repr(value)]}
        picture = value._repr_svg_() if hasattr(value, "_repr_svg_") else None
        if picture:
            data = {"image/svg+xml": picture.splitlines(keepends=True), **data}
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def as_read(outputs):
    """Without the pictures' text, which holds gnuplot's version, and the cells' numbers."""
    plain = {"image/svg+xml": "picture", "execution_count": 0}
    return json.loads(json.dumps(outputs), object_hook=lambda d: {k: plain.get(k, v) for k, v in d.items()})


def run(notebook):
    names = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [(cell, outputs_of(cell, names)) for cell in cells]


class Documents(unittest.TestCase):
    maxDiff = None

    def test_tutorial(self):
        wrong, tries = examples_that_differ(TUTORIAL.read_text())
        self.assertGreater(tries, 10)
        self.assertEqual([], [f"line {e.lineno + 1}: {e.source}shows\n{e.want}but says\n{got}" for e, got in wrong])

    def test_notebook(self):
        notebook = json.loads(NOTEBOOK.read_text())
        for number, (cell, outputs) in enumerate(run(notebook), 1):
            self.assertEqual(as_read(cell["outputs"]), as_read(outputs), f"cell {number}")
        self.assertEqual(number, 10)


def renew():
    TUTORIAL.write_text(renewed(TUTORIAL.read_text()))
    notebook = json.loads(NOTEBOOK.read_text())
    for number, (cell, outputs) in enumerate(run(notebook), 1):
        cell["execution_count"] = number
        for output in outputs:
            if "execution_count" in output:
                output["execution_count"] = number
        cell["outputs"] = outputs
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        renew() if "--renew" in sys.argv else unittest.main()
