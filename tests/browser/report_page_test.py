#!/usr/bin/env python3
"""Every report.html in a headless browser: 1280 and 400 pixels wide, light and dark, with scripts and without. Nothing may be
complained of, asked for, overlapping or cut off; the map of a sweep is driven. Screenshots stay in the last argument's folder.
Arguments: the program, the sources, a folder for pictures, other pages to look at (out/demo/report.html)."""
import csv
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find_browser  # noqa: E402

PROGRAM, SOURCES, PICTURES = (os.path.abspath(a) for a in sys.argv[1:4])
failures = []


def check(good, what):
    if not good:
        failures.append(what)
        print("FAILED:", what)


# What is visible of every element that holds text itself; two of them must not cover each other.
OVERLAPS = """
const seen = [];
for (const e of document.querySelectorAll('body *')) {
  if (!['SCRIPT', 'STYLE', 'OPTION'].includes(e.tagName) && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) {
    if (!e.checkVisibility()) continue;
    const range = document.createRange(); range.selectNodeContents(e);
    let {left, top, right, bottom} = range.getBoundingClientRect();
    if (e.ownerSVGElement) ({left, top, right, bottom} = e.getBoundingClientRect());
    for (let a = e.parentElement; a; a = a.parentElement) {
      if (getComputedStyle(a).overflowX === 'visible') continue;
      const r = a.getBoundingClientRect();
      left = Math.max(left, r.left); right = Math.min(right, r.right); top = Math.max(top, r.top); bottom = Math.min(bottom, r.bottom);
    }
    if (right - left > 1 && bottom - top > 1) seen.push({e, left, top, right, bottom});
  }
}
seen.sort((a, b) => a.top - b.top);
const found = [];
for (let i = 0; i < seen.length; ++i)
  for (let j = i + 1; j < seen.length && seen[j].top < seen[i].bottom; ++j) {
    const a = seen[i], b = seen[j];
    if (a.e.contains(b.e) || b.e.contains(a.e)) continue;
    const plot = a.e.ownerSVGElement ? 0.3 : 0; // of small print: a letter's box is larger than the letter
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && high > 2 + plot * Math.min(a.bottom - a.top, b.bottom - b.top))
      found.push(a.e.textContent.trim().slice(0, 40) + ' | ' + b.e.textContent.trim().slice(0, 40));
  }
return found.slice(0, 5);
"""


# Columns that the window would hide.
CUT_TABLES = """
return [...document.querySelectorAll('.table')].filter((t) => t.checkVisibility() && t.scrollWidth > t.clientWidth + 1)
  .map((t) => t.getAttribute('aria-label') + ': ' + t.scrollWidth + ' of ' + t.clientWidth);
"""
SHEET = (186 * 96) / 25.4  # of A4 between its margins, in pixels


def look_at_print(browser, name, path):
    """As a printer gets it: nothing is cut off, since paper does not scroll; all is unfolded; the map is left out."""
    browser.open(path, int(SHEET), medium="print")
    cut = browser.run("return [...document.querySelectorAll('.table, figure, pre')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.slice(0, 60))")
    check(not cut, f"{name} on paper: cut off: {cut}")
    check(not browser.run("return [...document.querySelectorAll('.map-place')].some((e) => e.checkVisibility())"), f"{name} on paper: a map to click")
    check(browser.run("return [...document.querySelectorAll('.map figure')].every((e) => e.checkVisibility())"), f"{name} on paper: no map")
    check(browser.run("return [...document.querySelectorAll('details pre, details table')].every((e) => e.checkVisibility())"), f"{name} on paper: folded")
    overlapping = browser.run(OVERLAPS)
    check(not overlapping, f"{name} on paper: overlapping: {overlapping}")
    browser.print(os.path.join(PICTURES, name + ".pdf"))


def look(browser, name, path):
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            where = f"{name} at {width}, {scheme}"
            browser.open(path, width, scheme)
            own = "file://" + os.path.abspath(path)
            check(not browser.troubles, f"{where}: {browser.troubles}")
            others = [url for url in browser.requests if url != own and not url.startswith("data:")]
            check(not others, f"{where}: asked for {others}")
            check(browser.run("return document.documentElement.scrollWidth <= innerWidth"), f"{where}: wider than the window")
            overlapping = browser.run(OVERLAPS)
            check(not overlapping, f"{where}: overlapping: {overlapping}")
            cut = browser.run(CUT_TABLES) if width > 1000 else []
            check(not cut, f"{where}: columns are hidden: {cut}")
            browser.picture(os.path.join(PICTURES, f"{name}-{width}-{scheme}.png"))
    look_at_print(browser, name, path)
    browser.open(path, scripts=False)
    count = len(browser.call("DOM.querySelectorAll", nodeId=browser.call("DOM.getDocument")["root"]["nodeId"], selector="h1, td, svg.plot")["nodeIds"])
    check(count > 3, f"{name}: without scripts there are {count} headings, cells and plots")
    browser.open(path)


def sort_a_table(browser):
    browser.click("section table thead th:nth-child(3) button")
    values = browser.run("return [...document.querySelector('section table').tBodies[0].rows].map((r) => Number(r.cells[2].dataset.v))")
    check(len(values) > 2 and values == sorted(values), f"sorting by the third column gives {values}")
    browser.click("section table thead th:nth-child(3) button")
    check(browser.run("return document.querySelector('section table th[aria-sort]').getAttribute('aria-sort')") == "descending", "a second press turns the order")


def best_of(data, row, column, limit):
    """As the page should find it: by cell, the smallest step of what fits."""
    count, best = len(data["keys"]), {}
    for p in data["points"]:
        if p[count + 1] <= limit * (1 + 1e-4):
            at = (p[row], p[column])
            best[at] = min(best.get(at, float("inf")), p[count])
    return best


def choose(browser, field, value, event="change"):
    browser.run(f"const e = document.querySelector('.{field}'); e.value = {value}; e.dispatchEvent(new Event('{event}'));")


def drive_map(browser, folder):
    data = json.loads(browser.run("return document.querySelector('.map-data').textContent"))
    names = [key["key"].split(".")[-1] for key in data["keys"]]
    with open(os.path.join(folder, "top.csv"), encoding="utf-8") as file:
        first = float(next(csv.DictReader(file))["step_s"])
    check(abs(min(p[len(names)] for p in data["points"]) / first - 1) < 1e-4, "the map's best is not that of top.csv")
    check(browser.run("return document.querySelectorAll('.map figure').length === 1 && !document.querySelector('.map figure').checkVisibility()"), "the map stands twice")
    row, column = names.index("tp"), names.index("micro_batch")
    choose(browser, "row", row)
    choose(browser, "column", column)
    for limit in (len(data["limits_bytes"]) - 1, len(data["limits_bytes"]) // 2):
        choose(browser, "limit", limit, "input")
        best = best_of(data, row, column, data["limits_bytes"][limit])
        shown = browser.run("return document.querySelectorAll('.heat .cell text').length")
        check(shown == len(best), f"under limit {limit} the map shows {shown} cells of {len(best)}")
    check(len(best) > 0, "the filter leaves nothing to point at")
    (r, c), step = min(best.items(), key=lambda item: item[1])
    cell = f".heat .cell:nth-of-type(n)[aria-label^='tp {data['keys'][row]['values'][r]}, micro_batch {data['keys'][column]['values'][c]}:']"
    browser.point_at(cell)
    said = browser.run("return document.querySelector('.split').innerText")
    check(f"tp = {data['keys'][row]['values'][r]}" in said, f"pointing at a cell says: {said}")
    check(f"{step:.2f} s" in said, f"pointing at the cell of {step} says: {said}")
    check(all(name in said for name in names), f"the split lacks a key: {said}")
    browser.picture(os.path.join(PICTURES, "map-driven.png"))
    dots = browser.run("return document.querySelectorAll('.front-dot').length")
    check(dots > 1, f"the Pareto front has {dots} points")
    browser.point_at(".front-dot")
    check("Pareto" in browser.run("return document.querySelector('.split').innerText"), "pointing at the front says nothing of it")
    check(not browser.troubles, f"driving the map: {browser.troubles}")


def stepcast(*arguments):
    done = subprocess.run([PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 0, f"stepcast {' '.join(arguments)}: {done.stderr}")


EVIL = "</script><script>alert(1)</script>\"'`<img src=x onerror=alert(1)>${alert(1)}{{title}}"


def write_evil(path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("source", "case_id", "model", "step_s"))
        for name in (EVIL, "two\nlines"):
            rows.writerow(("own", name, "moe_layer_fast_moe", "0.05"))


def main():
    program = find_browser()
    if not program:
        print("skipped: chromium is not here")
        return 0
    os.makedirs(PICTURES, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        write_evil(os.path.join(work, "evil.csv"))
        made = {name: os.path.join(work, name) for name in ("compare", "sweep", "simulate", "schedules", "execute", "evil", "counts")}
        stepcast("compare", SOURCES + "/calibrate/measurements/moe_layer_bench.csv", "--out", made["compare"])
        stepcast("sweep", "gpt3_175b_a100", "--vary", "parallelism=all", "--top", "5", "--out", made["sweep"])
        stepcast("sweep", "llama3_8b_h100_fsdp", "--vary", "parallelism=all", "--vary", "cluster.nodes=1,2,4", "--top", "3", "--out", made["counts"])
        stepcast("simulate", "llama_1b_pp8", "--explain", "--out", made["simulate"])
        stepcast("simulate", "gpt3_175b_a100", "--set", "parallelism.vp=1", "--set", "parallelism.global_batch=64", "--set", "parallelism.schedule=1f1b",
                 "--set", "parallelism.schedule=zb-h1", "--out", made["schedules"])
        stepcast("execute", "host_moe", "--device", "host", "--ranks", "2", "--steps", "3", "--out", made["execute"])
        stepcast("compare", os.path.join(work, "evil.csv"), "--out", made["evil"])
        browser = Browser(program, work)
        try:
            for number, path in enumerate(sys.argv[4:]):
                look(browser, f"page-{number}", path)
            for name, folder in made.items():
                look(browser, name, os.path.join(folder, "report.html"))
                if name == "compare":
                    sort_a_table(browser)
                if name == "sweep":
                    drive_map(browser, folder)
                if name == "evil":
                    check(EVIL in browser.run("return document.querySelector('td').textContent"), "the name of a case is not shown as it is")
                    check(browser.run("return document.querySelectorAll('img').length") == 0, "a case's name became markup")
        finally:
            browser.close()
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


sys.exit(main())
