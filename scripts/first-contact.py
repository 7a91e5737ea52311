#!/usr/bin/env python3
"""What widens p10 .. p90 of a source that nothing here has met (scatter.toml, trait first_contact).

    build/release/stepcast compare ../shared/truth/new/*.csv --json > met.json
    scripts/first-contact.py met.json [notes/first_contact.csv]

notes/first_contact.csv holds forecasts that were frozen before their errors were looked at. They alone would say too much: few
sources, chosen by us. Forecasts of the sources that stand in scatter.toml's classes say too little: the model was made with them in
view. A source to come is taken to be like either with the same chance: the width, added in squares, leaves a tenth of the mean of both
shares beyond each end. Rows of a source have the weight 1 / sqrt(n) each, as in the fit; rows of trust C are left out."""
import csv
import json
import math
import sys
from collections import Counter

TAIL = 0.1


def frozen(path):
    with open(path, newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["trust"] != "C"]
    return [(r["source"], float(r["measured_s"]), *(float(r[k]) for k in ("p10_s", "p50_s", "p90_s"))) for r in rows]


def met(path):
    with open(path) as file:
        rows = [r for r in json.load(file)["rows"] if r["predicted_s"]]
    return [(r["source"], r["measured_s"], r["p10_s"], r["p50_s"], r["p90_s"]) for r in rows]


def share_beyond(rows, width, slower):
    count = Counter(r[0] for r in rows)
    total = beyond = 0.0
    for source, measured, p10, p50, p90 in rows:
        weight = 1 / math.sqrt(count[source])
        total += weight
        off = math.log(measured / p50) if slower else math.log(p50 / measured)
        end = math.log(p90 / p50) if slower else math.log(p50 / p10)
        beyond += weight * (off > math.hypot(end, width))
    return beyond / total


def width_of(sets, slower):
    low, high = 0.0, 4.0
    if sum(share_beyond(s, low, slower) for s in sets) / len(sets) <= TAIL:
        return low
    while high - low > 1e-4:
        middle = (low + high) / 2
        if sum(share_beyond(s, middle, slower) for s in sets) / len(sets) <= TAIL:
            high = middle
        else:
            low = middle
    return high


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return
    first = frozen(sys.argv[2] if len(sys.argv) > 2 else "notes/first_contact.csv")
    sets = [first, met(sys.argv[1])]
    print(f'[[trait]]\nname = "first_contact"\nrows = {len(first)}\nsources = {len({r[0] for r in first})}')
    print(f"faster = {width_of(sets, False):.4f}\nslower = {width_of(sets, True):.4f}")


main()
