"""stepcast-mcp over stdio: an assistant asks what people ask in the field's trackers (docs/questions.md). Each answer has the figures
of a command line that was written for the question by hand, holds what arithmetic says beside, says what it rests on, and its
`command` run by a shell gives it again. What cannot be answered is refused with a remedy, or nothing is found."""

import asyncio
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

try:
    from mcp import Client, StdioServerParameters, stdio_client
except ModuleNotFoundError as missing:
    if missing.name != "mcp":
        raise
    print("skipped: mcp is not here")  # pip install mcp; scripts/test.sh does where it can
    sys.exit(0)

from support import PROGRAM

RECIPE = {
    "workload": {"preset": "llama3-8b", "seq": 8192},
    "cluster": {"preset": "dgx-h100", "nodes": 8},
    "framework": {"preset": "torchtitan"},
    "parallelism": {"dp": 64, "zero": 3, "micro_batch": 2, "global_batch": 128, "recompute": "alternate"},
}
RUN = {**RECIPE, "parallelism": {**RECIPE["parallelism"], "micro_batch": 1, "recompute": "full"}}
NCCL = """\
# nThread 1 nGpus 1 minBytes 268435456 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   268435456      67108864     float     sum      -1   50000.0    5.37   10.07      0   50000.0    5.37   10.07      0
  1073741824     268435456     float     sum      -1  200000.0    5.37   10.07      0  200000.0    5.37   10.07      0
"""
LINKS = "op,ranks,nodes,bytes,time_us,gpu\nall_reduce,16,2,1073741824,200000,\n"
CASES = """\
source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu,tp,pp,dp,zero,mbs,gbs,precision,step_s
mine,short,llama3-8b,32,4096,32,8,14336,128256,4096,8,H100,1,1,8,3,1,16,bf16,1.1
mine,long,llama3-8b,32,4096,32,8,14336,128256,8192,8,H100,1,1,8,3,1,16,bf16,2.3
"""
SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 \\
  --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --tensor-model-parallel-size $TP \\
  --vocab-size 32000 --swiglu --bf16
"""
QUIET, LATE = ["2.6s"] * 4, ["2.6s", "2.9s", "2.6s", "2.6s", "3.3s", "2.6s", "2.6s", "3.0s", "2.6s", "2.6s", "2.6s", "3.6s", "2.6s", "2.6s", "3.1s"]
STALLS = (["2.6s"] * 9 + ["6.0s"]) * 3
GIB = 2**30


def toml(tables):
    return "".join(f"[{table}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items()) for table, keys in tables.items())


def log(ms):
    """Twelve steps of a Megatron-LM run, up to 18 ms apart."""
    return "".join(f" iteration {s}/100 | consumed samples: {128 * s} | elapsed time per iteration (ms): {ms + s * 7919 % 19}.0 |"
                   f" global batch size: 128 | lm loss: 2.0E+00 |\n" for s in range(1, 13))


def at(found, path):
    """at({"a": [{"b": 1}]}, "a.0.b") == 1"""
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


@dataclass
class Q:
    """A question, how an assistant asks it, the command line by hand and where both must be the same (answer=--json), what else must hold."""

    question: str
    tool: str
    asked: dict
    line: str
    same: list = field(default_factory=list)
    holds: object = lambda a: True
    code: int = 0

    def wrong(self, answer, error, json_of):
        if error:
            return f"refused: {error}"
        expected, again = json_of("stepcast " + self.line, self.code), json_of(answer["command"], self.code)
        for path in self.same:
            ours, _, theirs = path.partition("=")
            found = {"answered": at(answer, ours), "by hand": at(expected, theirs or ours), "by its command": at(again, theirs or ours)}
            if not found["answered"] == found["by hand"] == found["by its command"]:
                return f"{path}: {found}"
        return "" if self.holds(answer) else "does not hold what arithmetic says"


@dataclass
class Refused:
    """A question without an answer: the refusal says what was found and what to do."""

    question: str
    tool: str
    asked: dict
    says: list

    def wrong(self, answer, error, json_of):
        return "" if error and all(text in error for text in self.says) else f"expected a refusal with {self.says}, found {error or answer}"


@dataclass
class NoKey:
    """A question that the program has no word for: the list of keys is empty, and that is said."""

    question: str
    word: str
    tool = "list_keys"

    @property
    def asked(self):
        return {"word": self.word}

    def wrong(self, answer, error, json_of):
        return "" if not error and not answer["entries"] and "no line has" in answer["said"][0] else f"found {error or answer}"


FSDP70 = {"experiment": "llama3-70b", "cluster": "H100", "framework": "fsdp"}
FSDP70_LINE = "simulate llama3-70b --cluster H100 --framework fsdp --set seq=4096 --set zero=3 "
SPLIT = ["top.0.settings", "top.0.step_s.p50=top.0.interval_s.p50", "top.0.step_s.p90=top.0.interval_s.p90", "top.1.behind_first", "proven",
         "counts.legal"]
STEP = ["step_s.p10", "step_s.p50", "step_s.p90", "fits"]
CAUSES = ["verdict", "causes.0.name", "causes.0.probability", "causes.0.costs_s", "forecast.p50", "measured_s"]
MIXTRAL_SLOW = {"tp": 4, "dp": 4, "ep": 4}
SMALL = {"experiment": "gpt2-124m", "cluster": "h100-x1", "framework": "transformers"}
SMALL_LINE = "simulate gpt2-124m --cluster h100-x1 --framework transformers --set seq=1024 "
FLOP_A_TOKEN = 6 * (8.0303e9 - 128256 * 4096) + 12 * 32 * 4096 * 8192  # Llama 3 8B without its embedding; scores in full

QUESTIONS = [
    # ---- which split
    Q("Which split is best for Llama 3 8B on eight H100?", "sweep", {"experiment": "llama3_8b_h100_fsdp", "vary": {"parallelism": "all"}, "top": 3},
      "sweep llama3_8b_h100_fsdp --vary parallelism=all --top 3", SPLIT),
    Q("The same below 70 GiB?", "sweep",
      {"experiment": "llama3_8b_h100_fsdp", "vary": {"parallelism": "all"}, "where": ["memory.peak < 70 GiB"]},
      "sweep llama3_8b_h100_fsdp --vary parallelism=all --where 'memory.peak < 70 GiB' --top 5", SPLIT,
      lambda a: all(row["peak_bytes"] < 70 * GIB for row in a["top"])),
    Q("Does recompute cost me more than a smaller micro-batch?", "sweep",
      {"experiment": RUN, "vary": {"micro_batch": [1, 2], "recompute": ["full", "none"]}},
      "sweep run.toml --vary micro_batch=1,2 --vary recompute=full,none --top 5", SPLIT,
      lambda a: a["counts"]["infeasible"] == {"does not fit into the device's memory": 1}),
    Refused("tp = 7 on eight nodes?", "simulate", {"experiment": "gpt3_175b_a100", "set": {"tp": 7}}, ["= 56 ranks", "cluster has 64"]),
    Refused("Which split on one GPU for 70B?", "sweep",
            {"experiment": "llama3-70b", "cluster": "h100-x1", "set": {"seq": 4096}, "vary": {"micro_batch": [1, 2]}},
            ["does not fit into the device's memory (2)", "expected a larger space"]),
    # ---- does it fit
    # 70.55e9 parameters over eight ranks, in fp32: FSDP makes 16-bit weights of a module when it gathers it
    Q("Does Llama 3 70B fit on eight H100?", "simulate", {**FSDP70, "gpus": 8, "set": {"seq": 4096, "zero": 3}}, FSDP70_LINE + "--gpus 8",
      [*STEP, "memory_bytes.peak"], lambda a: not a["fits"] and math.isclose(a["memory_bytes"]["weights"], 70.55e9 * 4 / 8, rel_tol=0.01)),
    Q("On 32 with recompute?", "simulate", {**FSDP70, "gpus": 32, "set": {"seq": 4096, "zero": 3, "recompute": "full"}},
      FSDP70_LINE + "--gpus 32 --set recompute=full", [*STEP, "memory_bytes.peak"],
      lambda a: a["memory_bytes"]["peak"] + a["memory_bytes"]["overheads"] < a["memory_bytes"]["capacity"] < 80 * GIB and a["fits"]),
    Q("8B on eight RTX 4090?", "simulate", {"experiment": "llama3-8b", "cluster": "RTX 4090", "gpus": 8, "set": {"seq": 4096, "zero": 3}},
      "simulate llama3-8b --cluster 'RTX 4090' --gpus 8 --set seq=4096 --set zero=3", STEP,
      lambda a: not a["fits"] and not a["evidence"]["calibrated"]),
    Q("What is the largest micro-batch?", "sweep",
      {"experiment": "llama3_8b_h100_fsdp", "vary": {"micro_batch": "1..16*2"}, "set": {"global_batch": 128}},
      "sweep llama3_8b_h100_fsdp --vary micro_batch=1,2,4,8,16 --set global_batch=128", ["top.0.settings", "counts.infeasible"]),
    # ---- reserved above allocated
    Q("What comes on top of the tensors?", "simulate", {"experiment": "llama3_8b_h100_fsdp"}, "simulate llama3_8b_h100_fsdp",
      ["memory_bytes.overheads", "memory_bytes.capacity"],
      lambda a: math.isclose(a["memory_bytes"]["peak"], sum(v for k, v in a["memory_bytes"].items() if k not in ("peak", "overheads", "reserved", "capacity")))),
    # ---- less than the recipe
    Q("My run takes 3.9 s, what does each difference from the recipe cost?", "waterfall",
      {"first": RUN, "second": RECIPE, "measured": ["3.9s", None]}, "compare run.toml recipe.toml --waterfall --measured 3.9s,-",
      ["bars.0", "bars.1", "unexplained_s"],
      lambda a: math.isclose(3.9 + sum(b["cost_s"] for b in a["bars"]) + a["unexplained_s"], a["to"]["forecast_s"])),
    Q("And if nobody measured?", "waterfall", {"first": RUN, "second": RECIPE}, "compare run.toml recipe.toml --waterfall", ["bars"],
      lambda a: a["unexplained_s"] is None and math.isclose(1 + a["difference"]["p50"], a["to"]["forecast_s"] / a["from"]["forecast_s"])),
    Q("Two rows of a table?", "waterfall", {"first": "rows.csv:short", "second": "rows.csv:long"},
      "compare rows.csv:short rows.csv:long --waterfall", ["bars", "unexplained_s"], lambda a: a["evidence"] == [None, None]),
    Refused("A row that is not there?", "waterfall", {"first": "rows.csv:shrt", "second": "rows.csv:long"}, ['no case "shrt"', "short"]),
    # ---- MFU
    Q("What MFU should it have?", "simulate", {"experiment": RUN}, "simulate run.toml", ["model_flops_utilization.p50=model_flops_utilization"],
      lambda a: math.isclose(a["model_tflops_per_gpu"]["p50"], a["tokens_per_s_per_gpu"]["p50"] * FLOP_A_TOKEN / 1e12, rel_tol=0.002)),
    Q("38 % of MFU: is that right?", "diagnose", {"run": RUN, "measured": "38%MFU"}, "diagnose run.toml --measured 38%MFU",
      ["verdict", "measured_s"], lambda a: a["verdict"] == "nothing_wrong"),
    Q("74 % of MFU?", "diagnose", {"run": RUN, "measured": "74%MFU"}, "diagnose run.toml --measured 74%MFU", CAUSES,
      lambda a: a["verdict"] == "too_fast" and {c["name"] for c in a["causes"]} >= {"a micro-batch taken for a step", "wrong count in the MFU"}),
    Q("25 % with experts?", "simulate", {"experiment": "mixtral_8x7b_h100", "set": MIXTRAL_SLOW},
      "simulate mixtral_8x7b_h100 --set tp=4 --set dp=4 --set ep=4", [*STEP, "model_flops_utilization.p50=model_flops_utilization"],
      lambda a: 0.2 < a["model_flops_utilization"]["p50"] < 0.3),
    Q("Where does the rest go?", "explain", {"experiment": "mixtral_8x7b_h100", "set": MIXTRAL_SLOW},
      "simulate mixtral_8x7b_h100 --set tp=4 --set dp=4 --set ep=4 --explain", ["critical_path=explain.critical_path", "idle=explain.idle"],
      lambda a: math.isclose(sum(p["time_s"] for p in a["critical_path"]), a["step_s"]["p50"])
      and math.isclose(sum(a["breakdown_s"].values()), a["step_s"]["p50"])),
    # Mixtral on 64 GPUs with tp 4: with tp 2 there are twice the replicas.
    Q("Which switch would help?", "levers", {"experiment": "mixtral_8x7b_h100", "set": MIXTRAL_SLOW},
      "simulate mixtral_8x7b_h100 --set tp=4 --set dp=4 --set ep=4 --levers", ["levers"],
      lambda a: any(one["set"] == {"parallelism.tp": "2", "parallelism.dp": "8"} and one["from"] == "4" for one in a["levers"])
      and all(one["step_s"]["p10"] <= one["step_s"]["p50"] for one in a["levers"])),
    # ---- does EP pay
    Q("Does EP pay?", "sweep", {"experiment": "mixtral_8x7b_h100", "vary": {"ep": [1, 8], "tp": [1, 2], "dp": "rest"}},
      "sweep mixtral_8x7b_h100 --vary ep=1,8 --vary tp=1,2 --vary dp=rest --top 5", SPLIT,
      lambda a: [row["behind_first"]["distinguishable"] for row in a["top"][1:]] == [False, True]),
    Refused("ep = 16?", "simulate", {"experiment": "mixtral_8x7b_h100", "set": {"ep": 16}}, ["16 does not divide dp x cp = 8"]),
    # ---- slower on more nodes, bus bandwidth
    Q("Should two nodes be slower than one?", "sweep",
      {"experiment": "llama3_8b_h100_fsdp", "vary": {"nodes": [1, 2], "dp": "rest"}, "set": {"global_batch": 32, "micro_batch": 1}},
      "sweep llama3_8b_h100_fsdp --vary nodes=1,2 --vary dp=rest --set global_batch=32 --set micro_batch=1 --top 5",
      ["scaling.0.step_s.p50=scaling.0.step_s", "scaling.1.step_s.p50=scaling.1.step_s"],
      lambda a: 1.8 < a["scaling"][0]["step_s"]["p50"] / a["scaling"][1]["step_s"]["p50"] < 2),
    Q("It takes 4 s, why?", "diagnose", {"run": RUN, "measured": "4s"}, "diagnose run.toml --measured 4s", CAUSES,
      lambda a: a["verdict"] == "cannot_tell"),
    Q("With nccl-tests?", "diagnose", {"run": RUN, "measured": "8s", "nccl_tests": {"name": "nccl.txt", "text": NCCL}},
      "diagnose run.toml --measured 8s --nccl-tests nccl.txt", CAUSES,
      lambda a: (a["verdict"], a["causes"][0]["name"]) == ("likely", "network between nodes")),
    # 2 x 15/16 x 1 GiB in 0.2 s are 10 GB/s; eight NICs of 50 GB/s carry at most 400
    Q("Is 10 GB/s of bus bandwidth normal on two nodes?", "compare", {"inputs": [{"name": "links.csv", "text": LINKS}], "cluster": "H100"},
      "compare links.csv --cluster H100", ["kernel_rows.0.predicted_s", "kernels.0.bias"],
      lambda a: 100e9 < 2 * 15 / 16 * GIB / a["kernel_rows"][0]["predicted_s"] < 400e9),
    Refused("The raw output?", "compare", {"inputs": [{"name": "nccl.txt", "text": NCCL}]}, ["nccl.txt"]),
    # ---- scaling, money
    Q("How does it scale to 32 nodes?", "sweep",
      {"experiment": "llama3_8b_h100_fsdp", "vary": {"nodes": [1, 8, 32], "dp": "rest"}, "set": {"global_batch": 512, "micro_batch": 1}},
      "sweep llama3_8b_h100_fsdp --vary nodes=1,8,32 --vary dp=rest --set global_batch=512 --set micro_batch=1 --top 5", SPLIT,
      lambda a: [row["ranks"] for row in a["scaling"]] == [8, 64, 256]),
    # 16 x 8192 tokens a step; eight GPUs at the list price
    Q("How long and how much for 100B tokens?", "simulate", {"experiment": "llama3_8b_h100_fsdp", "tokens": "100B"},
      "simulate llama3_8b_h100_fsdp --tokens 100B", ["training.time_s", "training.money", "training.energy_j"],
      lambda a: a["training"]["steps"] == math.ceil(100e9 / (16 * 8192)) and math.isclose(
          a["training"]["money"]["p50"], 8 * a["training"]["price_per_gpu_hour"] * a["training"]["time_s"]["p50"] / 3600)),
    Q("How many nodes to end in five days?", "sweep",
      {"experiment": "llama3_8b_h100_fsdp", "vary": {"nodes": "1..8*2", "dp": "rest"}, "set": {"global_batch": 256, "micro_batch": 1},
       "tokens": "100B", "within": "5d", "top": 1},
      "sweep llama3_8b_h100_fsdp --vary nodes=1..8*2 --vary dp=rest --set global_batch=256 --set micro_batch=1 --tokens 100B --within 5d --top 1",
      ["of_each.0.training.time_s", "of_each.2.training.time_s"],
      lambda a: min(row["ranks"] for row in a["of_each"] if row["training"]["time_s"]["p50"] < 5 * 86400) == 32),
    Q("H100 or A100?", "sweep",
      {"experiment": "llama3_8b_h100_fsdp", "vary": {"machines": ["8xdgx-h100", "8xdgx-a100"]}, "set": {"zero": 3}},
      "sweep llama3_8b_h100_fsdp --vary machines=8xdgx-h100,8xdgx-a100 --set zero=3 --top 5", SPLIT,
      lambda a: a["top"][0]["settings"] == {"machines": "8xdgx-h100"}),
    # ---- full, LoRA, QLoRA
    Q("LoRA of 70B on eight H100?", "simulate",
      {**FSDP70, "gpus": 8, "set": {"seq": 4096, "zero": 3, "recompute": "full", "adapter_rank": 16}},
      FSDP70_LINE + "--gpus 8 --set recompute=full --set adapter_rank=16", [*STEP, "memory_bytes.optimizer"], lambda a: a["fits"]),
    Q("And full fine-tuning?", "simulate", {**FSDP70, "gpus": 8, "set": {"seq": 4096, "zero": 3, "recompute": "full"}},
      FSDP70_LINE + "--gpus 8 --set recompute=full", STEP, lambda a: not a["fits"]),
    NoKey("QLoRA?", "quantized"),
    # ---- fp8
    Q("Why is fp8 hardly faster?", "sweep", {"experiment": RUN, "vary": {"dtype": ["bf16", "fp8"]}},
      "sweep run.toml --vary dtype=bf16,fp8 --top 5", SPLIT, lambda a: 1 < a["top"][1]["step_s"]["p50"] / a["top"][0]["step_s"]["p50"] < 2),
    Refused("fp8 on A100?", "simulate", {"experiment": "gpt3_175b_a100", "set": {"dtype": "fp8"}}, ["has no such rate", "choose another"]),
    # ---- schedule and bubble: 1F1B of p = 8 stages and m = 64 micro-batches loses (p - 1) / m of the work
    Q("How large is the bubble?", "simulate", {"experiment": "gpt3_175b_a100", "set": {"vp": 1}}, "simulate gpt3_175b_a100 --set vp=1",
      [*STEP, "breakdown_s"], lambda a: math.isclose(
          a["breakdown_s"]["bubble"] / (a["step_s"]["p50"] - a["breakdown_s"]["bubble"]), 7 / 64, rel_tol=0.1)),
    Q("Which schedule?", "sweep", {"experiment": "gpt3_175b_a100", "vary": {"schedule": ["gpipe", "1f1b", "zb-h1"]}, "set": {"vp": 1}},
      "sweep gpt3_175b_a100 --vary schedule=gpipe,1f1b,zb-h1 --set vp=1 --top 5", SPLIT,
      lambda a: len(a["top"]) == 2 and a["counts"]["infeasible"] == {"does not fit into the device's memory": 1}),
    # ---- 128k, packed lengths
    Q("Ring or gathered at 128k?", "sweep",
      {"experiment": "llama3-8b", "cluster": "H100", "gpus": 32, "framework": "megatron-core", "vary": {"context_exchange": ["ring", "all-gather"]},
       "set": {"seq": 131072, "global_batch": 8, "tp": 4, "cp": 8, "dp": 1}},
      "sweep llama3-8b --cluster H100 --gpus 32 --framework megatron-core --set seq=131072 --set global_batch=8 --set tp=4 --set cp=8"
      " --set dp=1 --vary context_exchange=ring,all-gather --top 5", SPLIT),
    NoKey("Ulysses?", "ulysses"),
    NoKey("Packed documents?", "packed"),
    # ---- straggler
    Q("Is one rank slow?", "diagnose", {"run": RUN, "measured": "3.2s", "rank_times": ["2.2s", "2.2s", "2.2s", "2.9s"]},
      "diagnose run.toml --measured 3.2s --rank-times 2.2s,2.2s,2.2s,2.9s", CAUSES,
      lambda a: (a["verdict"], a["causes"][0]["name"]) == ("likely", "one slow rank")),
    Q("We changed that node", "diagnose", {"run": RUN, "measured": "4s", "ruled_out": ["one slow rank", "waits for data"]},
      "diagnose run.toml --measured 4s --ruled-out 'one slow rank' --ruled-out 'waits for data'", CAUSES,
      lambda a: not {"one slow rank", "waits for data"} & {c["name"] for c in a["causes"]}),
    Q("One node is as fast as it should be", "diagnose", {"run": RUN, "measured": "4s", "beside": ["gpus=8,global_batch=16:2.6s"], "seen": ["busy=95%"]},
      "diagnose run.toml --measured 4s --seen busy=95% --beside gpus=8,global_batch=16:2.6s", CAUSES, lambda a: a["causes"]),
    # ---- slower since the release: 2740 against 2612.5 ms
    Q("Slower since the upgrade?", "gate", {"run": {"name": "slow.log", "text": log(2730)}, "history": "before", "model": "run.toml"},
      "compare slow.log --gate --history before --model run.toml", ["verdict", "because", "slower"],
      lambda a: a["verdict"] == "fail" and math.isclose(a["slower"], 2740 / 2612.5 - 1, rel_tol=1e-3), code=4),
    Q("And yesterday's?", "gate", {"run": "now.log", "history": "before", "model": "run.toml"},
      "compare now.log --gate --history before --model run.toml", ["verdict", "slower"], lambda a: a["verdict"] == "pass"),
    Refused("Without a history?", "gate", {"run": "now.log", "history": "nowhere", "model": "run.toml"}, ["is no folder", "expected one of run files"]),
    # ---- host-bound
    Q("Is it bound by the host?", "explain", {**SMALL, "set": {"seq": 1024, "micro_batch": 1}}, SMALL_LINE + "--set micro_batch=1 --explain",
      ["idle=explain.idle", "breakdown_s.host"], lambda a: a["breakdown_s"]["host"] > 0.6 * a["step_s"]["p50"]),
    # ---- checkpoints, data
    Q("Do checkpoints stall it?", "diagnose", {"run": RUN, "measured": STALLS}, "diagnose run.toml --measured " + ",".join(STALLS), CAUSES,
      lambda a: a["causes"][0]["name"] == "checkpoints" and a["causes"][0]["in_some_steps"]),
    Q("Does it wait for data?", "diagnose", {"run": RUN, "measured": LATE}, "diagnose run.toml --measured " + ",".join(LATE), CAUSES,
      lambda a: a["causes"][0]["name"] == "waits for data"),
    # ---- what people bring
    Q("What does this script take?", "simulate", {"experiment": {"name": "train.sh", "text": SCRIPT}, "cluster": "H100", "env": {"TP": "2"}},
      "simulate train.sh --cluster H100 --env TP=2", [*STEP, "tokens_per_s.p50=tokens_per_s"]),
    Refused("Why is this log slow?", "diagnose", {"run": "now.log", "cluster": "H100"}, ["What is missing is the configuration", "--model"]),
]


class Server(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work, self.temporary, bin_ = (Path(folder.name, name) for name in ("work", "temporary", "bin"))
        for path in (self.work / "before", self.temporary, bin_):
            path.mkdir(parents=True)
        (bin_ / "stepcast").symlink_to(PROGRAM)
        files = {"run.toml": toml(RUN), "recipe.toml": toml(RECIPE), "rows.csv": CASES, "nccl.txt": NCCL, "links.csv": LINKS, "train.sh": SCRIPT,
                 "now.log": log(2604), "slow.log": log(2730), **{f"before/{i}.log": log(2600 + i) for i in range(1, 5)}}
        for name, text in files.items():
            (self.work / name).write_text(text)
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), "PATH": f"{bin_}:{os.environ['PATH']}"}

    def server(self, changed="pass"):
        code = f"import stepcast.mcp_server as server; {changed}; server.main()"
        return Client(stdio_client(StdioServerParameters(command=sys.executable, args=["-c", code], env=self.environment, cwd=self.work)))

    def json_of(self, command, code):
        """What a person's shell prints, in a folder of its own with the person's files."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self.work, folder, dirs_exist_ok=True)
            done = subprocess.run(["bash", "-c", command + " --json"], cwd=folder, env=self.environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, code, f"{command}: {done.stderr}")
            return json.loads(done.stdout)

    def check_evidence(self, question, answer):
        """Every step and rate has its interval; forecasts say what they rest on."""
        with self.subTest(question):
            def ranges(found):
                for value in found.values() if isinstance(found, dict) else found if isinstance(found, list) else []:
                    if isinstance(value, dict) and value.keys() == {"p10", "p50", "p90"}:
                        yield value
                    yield from ranges(value)
            for each in ranges(answer):
                self.assertTrue(each["p10"] <= each["p50"] <= each["p90"], each)
            evidence = answer.get("evidence")
            for one in evidence if isinstance(evidence, list) else [evidence]:
                if one is not None:
                    self.assertTrue(one["cluster"] and one["framework"] and one["rests_on"] and one["interval_log"], one)

    async def answers(self, questions):
        wrong = []
        async with self.server() as client:
            for q in questions:
                result = await client.call_tool(q.tool, q.asked)
                error = result.content[0].text if result.is_error else ""
                answer = result.structured_content
                found = q.wrong(answer, error, self.json_of)
                if not error:
                    self.check_evidence(q.question, answer)
                if found:
                    wrong.append(f"{q.question} ({q.tool} {q.asked}): {found}\n")
        return wrong

    def test_fifty_questions(self):
        self.assertGreaterEqual(len(QUESTIONS), 50)
        before = sorted(str(path) for path in self.work.rglob("*"))
        wrong = asyncio.run(self.answers(QUESTIONS))
        print(f"{len(QUESTIONS) - len(wrong)} of {len(QUESTIONS)} questions are answered rightly, or refused")
        self.assertFalse(wrong, "".join(wrong))
        self.assertEqual(sorted(str(path) for path in self.work.rglob("*")), before)
        self.assertEqual(list(self.temporary.iterdir()), [])

    async def refusals(self, *calls, changed="pass"):
        async with self.server(changed) as client:
            results = [await client.call_tool(tool, asked) for tool, asked in calls]
            self.assertTrue(all(result.is_error for result in results), results)
            return [result.content[0].text for result in results]

    def test_no_argument_becomes_an_option_or_a_file_elsewhere(self):
        option, place, value = asyncio.run(self.refusals(
            ("simulate", {"experiment": "--out=x"}), ("simulate", {"experiment": {"name": "../x.toml", "text": "a = 1"}}),
            ("simulate", {"experiment": "gpt3_175b_a100", "cluster": "--out=x"})))
        self.assertIn('"--out=x": expected a preset, a path', option)
        self.assertIn('"../x.toml": expected the name of a file without folders', place)
        self.assertIn('"--out=x" is no preset cluster', value)
        self.assertFalse((self.work / "x").exists() or (self.temporary / "x.toml").exists())

    def test_what_takes_too_long_is_ended_and_says_what_to_do(self):
        [text] = asyncio.run(self.refusals(("sweep", {"experiment": RUN, "vary": {"parallelism": "all"}}), changed="server.LIMIT_S = 0.05"))
        self.assertIn("took longer than 0.05 s: ask for less", text)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_tools_are_typed_and_named_in_the_guide(self):
        async def listed():
            async with self.server() as client:
                return (await client.list_tools()).tools, client.instructions
        tools, guide = asyncio.run(listed())
        for tool in tools:
            self.assertIn(tool.name, guide)
            self.assertIn("command", tool.output_schema["properties"])
            self.assertTrue(tool.description and tool.annotations.read_only_hint)
        self.assertEqual({q.tool for q in QUESTIONS} | {"list_presets"}, {tool.name for tool in tools})

    def test_lists(self):
        async def asked():
            async with self.server() as client:
                return [(await client.call_tool(tool, {"word": word})).structured_content["entries"]
                        for tool, word in (("list_presets", ""), ("list_keys", "global_batch"))]
        presets, keys = asyncio.run(asked())
        names = {(entry["section"], entry["name"]) for entry in presets}
        self.assertLessEqual({("experiments", "gpt3_175b_a100"), ("workloads", "llama3-8b"), ("clusters known by their datasheet only", "h20-x8"),
                              ("clusters", "dgx-h100"), ("frameworks (--framework)", "torchtitan")}, names)
        about = {entry["name"]: entry["about"] for entry in keys}
        self.assertEqual(about["parallelism.global_batch"],
                         "integer | 0 | sequences per step over all ranks; 0 = dp x micro_batch affects: work and tensors of a layer on a "
                         "rank; layers, micro-batches and order of the stages; the memory of a rank")


if __name__ == "__main__":
    unittest.main()
