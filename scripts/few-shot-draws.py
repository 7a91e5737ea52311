#!/usr/bin/env python3
"""Tests what a user's own runs are worth: fits a framework to drawn rows of published tables and forecasts the rows left out.

scripts/few-shot-draws.py [OUT.json]    # half an hour of one core; prints the tables of notes/few-shot.md

From each set (rows of one device; the fit begins at another framework than theirs) it draws three times 5, 10 and 20 rows at random,
5 rows of one model and 5 rows on one number of ranks, and forecasts up to 30 other rows. A draw that determines nothing counts as
its base. The rule of when to keep a fit was chosen on the sets CHOSEN; the other sets judge it.
"""
import collections
import concurrent.futures
import csv
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPCAST = os.environ.get("STEPCAST", str(ROOT / "build/release/stepcast"))
TRUTH = pathlib.Path(os.environ.get("STEPCAST_TRUTH", ROOT / "../shared/truth"))
CHOSEN = ("nanotron", "mosaic-h100", "mosaic-a100")
SETS = {  # name: tables, cluster, frameworks whose rows count (empty: all), bases
    "nanotron": (["nanotron"], "dgx-h100", [], ["default", "eager"]),
    "mosaic-h100": (["mosaic_mpt", "mosaic_lengths"], "dgx-h100", [], ["default", "fsdp"]),
    "mosaic-a100": (["mosaic_mpt", "mosaic_lengths"], "dgx-a100", [], ["default", "fsdp"]),
    "bloom": (["bloom_topology"], "dgx-a100", [], ["default", "megatron-deepspeed"]),
    "vtrain": (["vtrain_multi", "vtrain_512"], "dgx-a100", [], ["default", "megatron-lm"]),
    "cclbench-megatron": (["cclbench"], "dgx-a100", ["megatron-lm-profiled"], ["default", "megatron-core"]),
    "cclbench-all": (["cclbench"], "dgx-a100", [], ["default"]),
    "torchtitan": (["pytorch_jax_fsdp", "pytorch_jax_2"], "dgx-h100", [], ["fsdp"]),
    "dgxc": (["dgxc_benchmarking", "dgxc_2"], "dgx-h100", ["nemo", "nemo-2"], ["default", "megatron-core"]),
    "bridge-h100": (["megatron_bridge_perf", "megatron_bridge_2", "megatron_bridge_ablations"], "dgx-h100", [], ["default", "nemo"]),
    "bridge-gb300": (["blackwell_megatron_bridge_perf"], "gb300-nvl72", [], ["nemo"]),
    "papers": (["megatron_papers", "megatron_papers_2"], "dgx-a100", [], ["megatron-lm"]),
    "simumax": (["simumax_b200", "simumax_2"], "b200-sxm-x8", [], ["megatron-core"]),
}
KINDS = (("random", 5), ("random", 10), ("random", 20), ("model", 5), ("ranks", 5))
SEEDS, MOST_OTHERS = 3, 30


def run(*words):
    return subprocess.run([STEPCAST, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def forecasts(path, *words):
    return {r["case_id"]: r for r in json.loads(run("compare", path, *words, "--json").stdout)["rows"] if not r["refused_because"]}


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows_of(name, base, folder):
    """The set's rows by case_id, and the base's forecasts of them."""
    tables, cluster, frameworks, _ = SETS[name]
    path = write(folder / f"{name}-{base}.csv", [row for t in tables for row in csv.DictReader(open(TRUTH / f"{t}.csv"))])
    own = {i: r for i, r in forecasts(path).items() if r["cluster"]["name"] == cluster and (not frameworks or r["framework"] in frameworks)}
    begun = forecasts(path, "--cluster", cluster, "--framework", base)
    return {row["case_id"]: row for row in csv.DictReader(open(path)) if row["case_id"] in own and row["case_id"] in begun}, begun


def draw(rows, kind, count, seed, salt):
    rng = random.Random(f"{salt}/{kind}/{count}/{seed}")
    ids = sorted(rows)
    if kind != "random":
        groups = collections.defaultdict(list)
        for i in ids:
            groups[rows[i]["model" if kind == "model" else "gpus"]].append(i)
        large = [g for g in sorted(groups) if len(groups[g]) >= count]
        if len(groups) < 2 or not large:
            return None
        ids = groups[rng.choice(large)]
        others = [i for i in sorted(rows) if i not in ids]
        if len(others) < 5:
            return None
        return rng.sample(ids, count), rng.sample(others, min(MOST_OTHERS, len(others)))
    if len(ids) < count + 5:
        return None
    some = rng.sample(ids, count)
    others = [i for i in ids if i not in some]
    return some, rng.sample(others, min(MOST_OTHERS, len(others)))


def one(job):
    name, base, kind, count, seed, rows, begun, some, others, folder = job
    cluster = SETS[name][1]
    stem = folder / f"{name}-{base}-{kind}-{count}-{seed}"
    fit = run("calibrate", "--measurements", write(f"{stem}.csv", [rows[i] for i in some]), "--cluster", cluster, "--framework", base,
              "--fit", "framework", "--out", f"{stem}.toml")
    wrote = fit.returncode == 0
    then = forecasts(write(f"{stem}-others.csv", [rows[i] for i in others]), "--cluster", cluster, "--framework",
                     f"{stem}.toml" if wrote else base)
    off = lambda by, ids: [abs(by[i]["error"]) for i in ids]
    half = statistics.median((then[i]["p90_s"] - then[i]["p10_s"]) / 2 / then[i]["p50_s"] for i in others)
    return {"set": name, "base": base, "kind": kind, "count": count, "seed": seed, "wrote": wrote, "others": len(others),
            "before": statistics.mean(off(begun, others)), "after": statistics.mean(off(then, others)),
            "median_before": statistics.median(off(begun, others)), "median_after": statistics.median(off(then, others)),
            "base_on_rows": statistics.mean(off(begun, some)), "base_bias": statistics.mean(begun[i]["error"] for i in some),
            "inside": statistics.mean(then[i]["inside"] for i in others), "half": half, "says": fit.stdout + fit.stderr}


def summary(results):
    for part, some in (("chosen on", [r for r in results if r["set"] in CHOSEN]), ("checked on", [r for r in results if r["set"] not in CHOSEN])):
        print(f"\n{part}: {len(some)} draws, {sum(r['wrote'] for r in some)} written")
        print(f"{'rows':<12} {'draws':>5} {'before':>7} {'after':>7} {'worse':>6} {'>2':>4} {'better>2':>8} {'inside':>7} {'half':>6}")
        for kind, count in (*KINDS, ("all", 0)):
            of = [r for r in some if kind == "all" or (r["kind"], r["count"]) == (kind, count)]
            if not of:
                continue
            mean = lambda key: sum(statistics.mean(r[key] for r in of if r["set"] == s) for s in {r["set"] for r in of}) / len({r["set"] for r in of})
            moved = [r["after"] - r["before"] for r in of]
            print(f"{kind + ' ' + str(count or ''):<12} {len(of):>5} {100 * mean('before'):>6.1f}% {100 * mean('after'):>6.1f}% "
                  f"{sum(m > 5e-4 for m in moved):>6} {sum(m > 0.02 for m in moved):>4} {sum(m < -0.02 for m in moved):>8} "
                  f"{100 * mean('inside'):>6.0f}% {100 * statistics.median(r['half'] for r in of):>5.0f}%")
        for key in sorted({(r["set"], r["base"]) for r in some}):
            of = [r for r in some if (r["set"], r["base"]) == key]
            moved = [r["after"] - r["before"] for r in of]
            print(f"  {key[0] + ' from ' + key[1]:<36} {len(of):>3} {100 * statistics.mean(r['before'] for r in of):>6.1f}% "
                  f"{100 * statistics.mean(r['after'] for r in of):>6.1f}%  worse {sum(m > 5e-4 for m in moved):>2}  >2 {sum(m > 0.02 for m in moved):>2}  "
                  f"worst {100 * max(moved):>+5.1f}  inside {100 * statistics.mean(r['inside'] for r in of):>3.0f}%")


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder, jobs = pathlib.Path(temporary), []
        for name, (_, _, _, bases) in SETS.items():
            for base in bases:
                rows, begun = rows_of(name, base, folder)
                for kind, count in KINDS:
                    for seed in range(SEEDS):
                        if drawn := draw(rows, kind, count, seed, f"{name}/{base}"):
                            jobs.append((name, base, kind, count, seed, rows, begun, *drawn, folder))
        results = list(pool.map(one, jobs))
    summary(results)
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
