#!/usr/bin/env python3
"""Measures training steps as users' scripts run them, on one CUDA GPU: truth for forecasts.

scripts/users-steps.py OUT_DIR [SECONDS] [--only SECTION,SECTION] [--skip CASE,..] [--device cpu --rehearse]
scripts/users-steps.py --cases CASES.csv [--gpu H200]      # the cases as a file for `stepcast compare`, step_s = 1; needs no PyTorch
scripts/users-steps.py --forecast STEPCAST OUT.csv [--cluster h200-x1]    # what the program STEPCAST says of them
scripts/users-steps.py --merge CASES.csv STEPS.csv         # fills measured values into that file, by case_id

Models have random weights, data are random tokens, nothing is downloaded. Sections, in the order in which they run:
attention (SDPA alone), trainer (Hugging Face's Trainer), nano (a loop of nanoGPT's structure), moe, padding, snapshots (of memory), small (8-bit
Adam, LoRA, QLoRA; bitsandbytes and PEFT where they can be imported), kernels (profiler; products of those steps alone), compiled
(torch.compile; best in a process of its own, since a profiler that ran can slow the host). --rehearse runs all of it with tiny
sizes. Every case is caught by itself; every file is whole at any moment; a second run into the same folder goes on where one ended.

steps.csv: `step_s` is the median of steps with a synchronization after each, from end to end; `loop_step_s` the mean of as many steps
without one; phases are between CUDA events in the first ones; peaks are since the case's model was built.
"""
import argparse
import collections
import contextlib
import csv
import gc
import importlib
import json
import lzma
import math
import os
import pathlib
import pickle
import random
import statistics
import sys
import tempfile
import threading
import time

STARTED = time.monotonic()
SECTIONS = ("attention", "trainer", "nano", "moe", "padding", "snapshots", "small", "kernels", "compiled")
GIB = 2.0**30
STEPS = 8

# name: (class in transformers, its config, sizes; what `stepcast compare` calls it)
MODELS = {
    "gpt2-124m": ("GPT2LMHeadModel", "GPT2Config", dict(layers=12, hidden=768, heads=12, kv=12, ffn=3072, vocab=50257), "gpt2-124m"),
    "gpt2-medium": ("GPT2LMHeadModel", "GPT2Config", dict(layers=24, hidden=1024, heads=16, kv=16, ffn=4096, vocab=50257), "gpt2-medium"),
    "gpt2-large-12-layers": ("GPT2LMHeadModel", "GPT2Config", dict(layers=12, hidden=1280, heads=20, kv=20, ffn=5120, vocab=50257), "gpt2-large"),
    "llama-1b": ("LlamaForCausalLM", "LlamaConfig", dict(layers=16, hidden=2048, heads=32, kv=8, ffn=8192, vocab=128256, tied=True), "llama3.2-1b"),
    "llama-3.1-8b-8-layers": ("LlamaForCausalLM", "LlamaConfig", dict(layers=8, hidden=4096, heads=32, kv=8, ffn=14336, vocab=128256), "llama3.1-8b"),
    "qwen2.5-0.5b": ("Qwen2ForCausalLM", "Qwen2Config", dict(layers=24, hidden=896, heads=14, kv=2, ffn=4864, vocab=151936, tied=True), "qwen2.5-0.5b"),
    "qwen2.5-1.5b": ("Qwen2ForCausalLM", "Qwen2Config", dict(layers=28, hidden=1536, heads=12, kv=2, ffn=8960, vocab=151936, tied=True), "qwen2.5-1.5b"),
    "qwen3-0.6b": ("Qwen3ForCausalLM", "Qwen3Config", dict(layers=28, hidden=1024, heads=16, kv=8, ffn=3072, vocab=151936, tied=True, width=128), "qwen3-0.6b"),
    "gemma-2-2b-8-layers": ("Gemma2ForCausalLM", "Gemma2Config", dict(layers=8, hidden=2304, heads=8, kv=4, ffn=9216, vocab=256000, tied=True, width=256), "gemma-2-2b"),
    "bert-large": ("BertForMaskedLM", "BertConfig", dict(layers=24, hidden=1024, heads=16, kv=16, ffn=4096, vocab=30522), "bert-large"),
    "mixtral-small": ("MixtralForCausalLM", "MixtralConfig",
                      dict(layers=8, hidden=1024, heads=16, kv=8, ffn=3584, vocab=32000, experts=8, topk=2), "mixtral-small"),
    "qwen3-moe-small": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig",
                        dict(layers=8, hidden=1024, heads=16, kv=4, ffn=768, vocab=151936, experts=64, topk=8, width=128), "qwen3-moe-small"),
    # scripts of our own
    "nano-124m": ("own", "gpt", dict(layers=12, hidden=768, heads=12, kv=12, ffn=3072, vocab=50304, tied=True), "gpt2-124m"),
    "nano-char": ("own", "gpt", dict(layers=6, hidden=384, heads=6, kv=6, ffn=1536, vocab=65, tied=True), "gpt-char"),
    "gpt-512m": ("own", "gpt", dict(layers=16, hidden=1536, heads=16, kv=16, ffn=6144, vocab=50304, tied=True), "gpt-512m"),
    "gpt-1.6b-8-layers": ("own", "gpt", dict(layers=8, hidden=4096, heads=32, kv=32, ffn=16384, vocab=50304, tied=True), "gpt-wide"),
    "moe-8": ("own", "moe", dict(layers=8, hidden=1024, heads=16, kv=16, ffn=2816, vocab=32000, experts=8, topk=2), "mixtral-loop-8"),
    "moe-64": ("own", "moe", dict(layers=4, hidden=1024, heads=16, kv=16, ffn=1024, vocab=32000, experts=64, topk=2), "mixtral-loop-64"),
}


def case(section, model, batch, seq, **more):
    """One measured configuration; `framework`, `notes` and `precision` are words for `stepcast compare` (framework None: the
    row cannot say it, `simulate --set` with `sets` can)."""
    result = dict(section=section, model=model, batch=batch, seq=seq, accumulate=1, checkpoint=False, optimizer="fused", kind="loop",
                  precision="bf16", framework="transformers", words="", label="")
    result.update(more)
    parts = [section, model, f"b{batch}", f"s{seq}"]
    parts += [result["label"]] if result["label"] else []
    parts += ["checkpointing"] if result["checkpoint"] else []
    parts += [f"accumulate {result['accumulate']}"] if result["accumulate"] > 1 else []
    result["id"] = " ".join(parts)
    return result


def trainer(model, batch, seq, **more):
    return case("trainer", model, batch, seq, kind="trainer", **{"framework": "transformers-trainer", "amp": True, **more})


def nano(model, batch, seq, **more):
    return case("nano", model, batch, seq, **{"kind": "nano", "framework": "nanogpt-eager", "amp": True, **more})


def padded(model, batch, seq, how, **more):
    return case("padding", model, batch, seq, kind="padding", how=how, label=how, **more)


CASES = [
    trainer("gpt2-124m", 8, 1024, label="fused", words="fused AdamW"),
    trainer("llama-1b", 2, 2048, label="fused", words="fused AdamW"),
    trainer("llama-1b", 2, 2048, label="fused", checkpoint=True),
    trainer("qwen2.5-0.5b", 4, 2048, label="fused"),
    trainer("gpt2-124m", 8, 1024, label="fused", accumulate=4),
    trainer("qwen2.5-0.5b", 4, 2048, label="fused", checkpoint=True),
    trainer("llama-1b", 2, 2048, label="fused", accumulate=4),
    trainer("gpt2-124m", 8, 1024, label="adamw_torch", optimizer="adamw_torch", framework=None, sets=("runtime.optimizer.fused=false",)),
    trainer("gpt2-124m", 8, 1024, label="fused", checkpoint=True),
    trainer("llama-1b", 2, 2048, label="adafactor", optimizer="adafactor", words="Adafactor"),
    trainer("qwen2.5-0.5b", 4, 2048, label="fused", accumulate=4),
    trainer("llama-1b", 2, 2048, label="adamw_torch", optimizer="adamw_torch", framework=None, sets=("runtime.optimizer.fused=false",)),
    trainer("gpt2-124m", 8, 1024, label="sgd", optimizer="sgd", framework=None, sets=("workload.optimizer=sgd",)),
    trainer("llama-1b", 2, 2048, label="bf16-weights", amp=False, framework="transformers", words="weights in bf16"),
    nano("nano-124m", 12, 1024, label="autocast"),
    nano("nano-char", 64, 256, label="autocast"),
    nano("nano-124m", 12, 1024, label="tf32", amp=False, precision="tf32"),
    nano("nano-124m", 12, 1024, label="fp32", amp=False, precision="fp32", words="tf32 off"),
    nano("nano-124m", 12, 1024, label="autocast", accumulate=4),
    nano("nano-char", 64, 256, label="tf32", amp=False, precision="tf32"),
    nano("nano-124m", 12, 1024, label="autocast unfused", optimizer="foreach", framework=None, sets=("runtime.optimizer.fused=false",)),
    case("moe", "moe-8", 4, 1024, label="loop", kind="moe", amp=True, framework="transformers-expert-loop"),
    case("moe", "moe-64", 4, 1024, label="loop", kind="moe", amp=True, framework="transformers-expert-loop"),
    case("moe", "mixtral-small", 4, 1024, label="default", experts=None),
    case("moe", "mixtral-small", 4, 1024, label="eager", experts="eager", words="eager experts in a loop"),
    case("moe", "qwen3-moe-small", 4, 1024, label="default", experts=None),
    case("moe", "qwen3-moe-small", 4, 1024, label="eager", experts="eager", words="eager experts in a loop"),
    case("moe", "mixtral-small", 4, 1024, label="grouped_mm", experts="grouped_mm"),
    padded("qwen2.5-0.5b", 8, 2048, "padded"),
    padded("qwen2.5-0.5b", 8, 2048, "packed"),
    padded("llama-1b", 8, 2048, "padded"),
    padded("llama-1b", 8, 2048, "packed"),
    padded("llama-1b", 8, 2048, "masked-full"),
    padded("gpt2-124m", 16, 1024, "padded"),
    padded("gpt2-124m", 16, 1024, "packed"),
    case("small", "llama-1b", 2, 2048, label="fused AdamW bf16 weights", words="fused AdamW"),
    case("small", "llama-1b", 2, 2048, label="AdamW8bit", optimizer="AdamW8bit", words="8-bit Adam"),
    case("small", "llama-1b", 4, 2048, label="LoRA 16", kind="lora", words="LoRA rank 16 on all linear layers (peft 0.21, fp32)"),
    case("small", "llama-3.1-8b-8-layers", 2, 2048, label="QLoRA 16", kind="lora", four_bit=True, checkpoint=True, amp=True,
         words="QLoRA, LoRA rank 16 on all linear layers, double quant (peft 0.21, fp32)"),
    case("small", "llama-1b", 2, 2048, label="PagedAdamW8bit", optimizer="PagedAdamW8bit", words="8-bit paged Adam"),
    case("small", "llama-3.1-8b-8-layers", 2, 2048, label="LoRA 16", kind="lora", words="LoRA rank 16 on all linear layers (peft 0.21, fp32)"),
    case("small", "llama-1b", 2, 2048, label="AdamW8bit trainer autocast", kind="trainer", amp=True, optimizer="adamw_bnb_8bit",
         framework="transformers-trainer", words="8-bit Adam"),
    case("compiled", "nano-124m", 12, 1024, label="autocast compiled", kind="nano", amp=True, compile=True, framework="nanogpt"),
    case("compiled", "nano-char", 64, 256, label="autocast compiled", kind="nano", amp=True, compile=True, framework="nanogpt"),
    case("compiled", "nano-124m", 12, 1024, label="tf32 compiled", kind="nano", amp=False, compile=True, framework="nanogpt", precision="tf32"),
]

SNAPSHOTS = ["trainer gpt2-124m b8 s1024 fused", "trainer llama-1b b2 s2048 fused checkpointing", "nano nano-124m b12 s1024 autocast",
             "moe moe-8 b4 s1024 loop", "small llama-1b b2 s2048 AdamW8bit", "small llama-1b b4 s2048 LoRA 16",
             "padding qwen2.5-0.5b b8 s2048 padded", "moe mixtral-small b4 s1024 default"]

# model, batch, seq of the profiled steps, tokens unlike any width, so that shapes tell products apart; bf16, own models autocast
PROFILED = [("gpt2-medium", 8, 1024), ("llama-1b", 2, 2048), ("llama-3.1-8b-8-layers", 3, 2048), ("qwen2.5-1.5b", 2, 2048),
            ("qwen3-0.6b", 4, 1024), ("nano-124m", 12, 1024), ("mixtral-small", 4, 1024), ("bert-large", 16, 512),
            ("gemma-2-2b-8-layers", 2, 2048), ("gpt-1.6b-8-layers", 3, 2048), ("gpt-512m", 4, 2048)]

# batch, heads, kv_heads, seq, width
ATTENTIONS = [(8, 12, 12, 1024, 64), (4, 25, 25, 1024, 64), (1, 32, 8, 8192, 128), (2, 32, 8, 4096, 128), (16, 16, 16, 512, 64),
              (2, 32, 32, 2048, 128), (4, 16, 16, 2048, 256), (1, 64, 8, 16384, 128)]


def lengths_of(seq, batch, batches=STEPS + 3):
    """Lengths of sequences: seq times a Beta(1.6, 2.4), whose mean is 0.4; at least 8. The same ones in every run; three batches warm up."""
    draw = random.Random(51)
    return [[max(8, min(seq, round(seq * draw.betavariate(1.6, 2.4)))) for _ in range(batch)] for _ in range(batches)]


# ---------------------------------------------------------------- files


class Table:
    """Rows of a CSV file that is rewritten and renamed at every row, so that it is whole whenever the script is stopped."""

    def __init__(self, path, columns):
        self.path, self.columns, self.rows = path, columns, []
        if path.exists():  # a second run with --only goes on
            with open(path, newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))

    def add(self, *new):
        for row in new:
            self.rows.append({key: plain(row.get(key, "")) for key in self.columns})
        write_rows(self.path, self.columns, self.rows)


def write_rows(path, columns, rows):
    path = pathlib.Path(path)
    beside = path.with_name(path.name + ".part")
    with open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(beside, path)


def plain(value):
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


CASE_COLUMNS = ("source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,gpus,gpu,tp,pp,dp,zero,mbs,gbs,recompute,"
                "precision,framework,step_s,forward_s,backward_s,notes").split(",")
STEP_COLUMNS = ("section,case_id,model,batch,seq,accumulate,optimizer,precision,parameters,trained_parameters,step_s,loop_step_s,forward_s,"
                "backward_s,optimizer_s,peak_allocated,peak_reserved,allocated_before,real_tokens,padded_tokens,first_step_s,steps_s,notes").split(",")


def write_cases(path, gpu):
    rows = []
    for c in CASES:
        if c["framework"] is None:
            continue
        sizes, name = MODELS[c["model"]][2:]
        seq = c["seq"]
        notes = ["sdpa", c["words"] or "fused AdamW"]
        if c.get("how") == "padded":
            batches = lengths_of(seq, c["batch"])[3:]
            seq = round(statistics.mean(max(b) for b in batches))
            notes.append(f"padded to the longest of {c['batch']} (mean {seq} of {c['seq']}), attention mask")
        notes.append("peak allocated 1 GiB")
        rows.append(dict(source="transformers" if c["framework"].startswith("transformers") else "nanogpt", case_id=c["id"], model=name,
                         layers=sizes["layers"], hidden=sizes["hidden"], heads=sizes["heads"], kv_heads=sizes["kv"], ffn=sizes["ffn"],
                         vocab=sizes["vocab"], seq=seq, experts=sizes.get("experts", ""), topk=sizes.get("topk", ""), gpus=1, gpu=gpu, tp=1,
                         pp=1, dp=1, zero=0, mbs=c["batch"], gbs=c["batch"] * c["accumulate"], recompute="full" if c["checkpoint"] else "none",
                         precision=c["precision"], framework=c["framework"], step_s=1, forward_s="", backward_s="", notes=", ".join(notes)))
    write_rows(path, CASE_COLUMNS, rows)


def merge(cases, steps):
    """The loop's time where there is one; cases without a measurement are left out and named."""
    with open(steps, newline="", encoding="utf-8") as file:
        measured = {row["case_id"]: row for row in csv.DictReader(file)}
    with open(cases, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns, rows = reader.fieldnames, list(reader)
    kept = []
    for row in rows:
        found = measured.get(row["case_id"])
        if not found or not (found["loop_step_s"] or found["step_s"]):
            print(f"not measured: {row['case_id']}", file=sys.stderr)
            continue
        row["step_s"] = found["loop_step_s"] or found["step_s"]
        row["forward_s"], row["backward_s"] = found["forward_s"], found["backward_s"]
        peaks = f"peak allocated {float(found['peak_allocated']) / GIB:.2f} GiB, reserved {float(found['peak_reserved']) / GIB:.2f} GiB"
        row["notes"] = row["notes"].replace("peak allocated 1 GiB", peaks)
        kept.append(row)
    write_rows(cases, columns, kept)


def config_of(c):
    """The model's config.json as far as `stepcast simulate` reads it; scripts of our own as the nearest published architecture."""
    s = MODELS[c["model"]][2]
    kind = {"GPT2Config": "gpt2", "gpt": "gpt2", "LlamaConfig": "llama", "Qwen2Config": "qwen2", "Qwen3Config": "qwen3", "Gemma2Config": "gemma2",
            "BertConfig": "bert", "MixtralConfig": "mixtral", "moe": "mixtral", "Qwen3MoeConfig": "qwen3_moe"}[MODELS[c["model"]][1]]
    if kind == "gpt2":
        return dict(model_type="gpt2", n_layer=s["layers"], n_embd=s["hidden"], n_head=s["heads"], n_inner=s["ffn"], n_positions=c["seq"],
                    vocab_size=s["vocab"])
    config = dict(model_type=kind, num_hidden_layers=s["layers"], hidden_size=s["hidden"], num_attention_heads=s["heads"],
                  num_key_value_heads=s["kv"], intermediate_size=s["ffn"], vocab_size=s["vocab"], max_position_embeddings=max(c["seq"], 2048),
                  tie_word_embeddings=s.get("tied", False))
    if "width" in s:
        config["head_dim"] = s["width"]
    if kind == "mixtral":
        config.update(num_local_experts=s["experts"], num_experts_per_tok=s["topk"])
    if kind == "qwen3_moe":
        config.update(num_experts=s["experts"], num_experts_per_tok=s["topk"], moe_intermediate_size=s["ffn"], decoder_sparse_step=1, mlp_only_layers=[])
    return config


def forecast(stepcast, out, cluster):
    """What stepcast says of every case: `compare` of the rows (p10 to p90, peak), `simulate --memory` of the same keys (simulated_*)."""
    import subprocess
    with tempfile.TemporaryDirectory() as folder:
        cases = pathlib.Path(folder, "cases.csv")
        write_cases(cases, "H200")
        said = json.loads(subprocess.run([stepcast, "compare", str(cases), "--cluster", cluster, "--json"], capture_output=True, text=True).stdout)
        by_id = {row["case_id"]: row for row in said["rows"] + said["refused"]}
        with open(cases, newline="", encoding="utf-8") as file:
            seqs = {row["case_id"]: row["seq"] for row in csv.DictReader(file)}
        rows = []
        for c in CASES:
            found = by_id.get(c["id"], {})
            row = dict(case_id=c["id"], p10_s=found.get("p10_s"), p50_s=found.get("p50_s"), p90_s=found.get("p90_s"),
                       peak_bytes=found.get("predicted_peak_bytes"), refused_because=found.get("refused_because"), source="compare" if found else "simulate")
            config = pathlib.Path(folder, "config.json")
            config.write_text(json.dumps(config_of(c)), encoding="utf-8")
            framework = c["framework"] or ("nanogpt-eager" if c["section"] == "nano" else "transformers-trainer")
            words = c["words"]
            optimizer = "adam8bit" if "8-bit" in words else "adafactor" if "Adafactor" in words else "adam"
            sets = [f"seq={seqs.get(c['id'], c['seq'])}", f"micro_batch={c['batch']}", f"global_batch={c['batch'] * c['accumulate']}",
                    f"recompute={'full' if c['checkpoint'] else 'none'}", f"workload.dtype={c['precision']}", f"workload.optimizer={optimizer}"]
            sets += ["workload.adapter_rank=16", "workload.adapter_on=linear"] if "LoRA" in words else []
            sets += ["workload.frozen=nf4_double"] if "QLoRA" in words else []
            sets = [one for one in sets if one.split("=")[0] not in {x.split("=")[0] for x in c.get("sets", ())}] + list(c.get("sets", ()))
            command = [stepcast, "simulate", str(config), "--cluster", cluster, "--gpus", "1", "--framework", framework, "--memory", "--json"]
            ran = subprocess.run(command + [x for one in sets for x in ("--set", one)], capture_output=True, text=True)
            try:
                answer = json.loads(ran.stdout)
                row.update(simulated_p50_s=answer["step_s"]["p50"], simulated_allocated_bytes=answer["allocator_bytes"]["allocated"],
                           simulated_reserved_bytes=answer["allocator_bytes"]["reserved"], keys=f"{framework} " + " ".join(sets))
                if not found:
                    row.update({k + "_s": answer["step_s"][k] for k in ("p10", "p50", "p90")}, peak_bytes=answer["memory_bytes"]["peak"])
            except (json.JSONDecodeError, KeyError) as error:
                row.update(keys=f"{framework} " + " ".join(sets), simulate_refused=(ran.stderr.strip() or repr(error)).replace("\n", " ")[:300])
            rows.append(row)
    columns = ("case_id,p10_s,p50_s,p90_s,peak_bytes,refused_because,source,simulated_p50_s,simulated_allocated_bytes,simulated_reserved_bytes,"
               "simulate_refused,keys").split(",")
    write_rows(out, columns, [{key: whole(row.get(key)) for key in columns} for row in rows])


def whole(value):
    return round(value) if isinstance(value, float) and value > 1e6 else plain(value)


# ---------------------------------------------------------------- what every case shares


class Bench:
    def __init__(self, options):
        self.out = pathlib.Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.deadline = STARTED + options.seconds
        self.device, self.tiny = torch.device(options.device), options.rehearse
        self.cuda = self.device.type == "cuda"
        self.skip = set(options.skip.split(",")) if options.skip else set()
        self.notes = Table(self.out / "notes.csv", ["section", "case_id", "began_s", "seconds", "note"])
        self.steps = Table(self.out / "steps.csv", STEP_COLUMNS)
        self.workers = []

    def left(self):
        return self.deadline - time.monotonic()

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def clear(self):
        gc.collect()
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def guarded(self, section, name, seconds, work):
        """Runs work() if its expected seconds are left; what goes wrong becomes a note."""
        if name in self.skip:
            return
        began = time.monotonic() - STARTED
        if self.left() < seconds:
            self.notes.add(dict(section=section, case_id=name, began_s=began, seconds=0.0, note="left out: no time"))
            return
        note = "done"
        try:
            work()
        except Exception as error:  # a case never ends the others
            note = f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " ")
            error.__traceback__ = None if not self.tiny else error.__traceback__
            if self.tiny:
                import traceback
                traceback.print_exc()
        try:
            self.clear()
        except Exception as error:
            note += f"; clearing: {type(error).__name__}: {str(error)[:100]}"
        spent = time.monotonic() - STARTED - began
        self.notes.add(dict(section=section, case_id=name, began_s=began, seconds=spent, note=note))
        print(f"{began:7.1f} s {spent:6.1f} s  {section}: {name}: {note}", flush=True)


class Watch:
    """Times of steps: warm ones, then `steps` with a synchronization after each, then as many without."""

    def __init__(self, bench, warm=3, steps=STEPS):
        self.bench, self.warm, self.steps = bench, 2 if bench.tiny else warm, 2 if bench.tiny else steps
        self.total = self.warm + 2 * self.steps
        self.done, self.times, self.loop, self.first = 0, [], None, None
        self.spans, self.events = [], collections.defaultdict(list)
        self.began = self.last = time.perf_counter()

    @contextlib.contextmanager
    def phase(self, name):
        """Between CUDA events, in the steps with a synchronization."""
        if not (self.bench.cuda and self.warm <= self.done < self.warm + self.steps):
            yield
            return
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        yield
        b.record()
        self.spans.append((name, a, b))

    def end(self):
        """After a step."""
        self.done += 1
        if self.done == 1 or self.warm <= self.done <= self.warm + self.steps or self.done == self.total:
            self.bench.sync()
            now = time.perf_counter()
            if self.done == 1:
                self.first = now - self.began
            if self.warm < self.done <= self.warm + self.steps:
                self.times.append(now - self.last)
                sums = collections.Counter()
                for name, a, b in self.spans:
                    sums[name] += a.elapsed_time(b) / 1e3
                for name, seconds in sums.items():
                    self.events[name].append(seconds)
                self.spans = []
            if self.done == self.total:
                self.loop = (now - self.last) / self.steps
            self.last = time.perf_counter()

    def finished(self):
        return self.done >= self.total

    def figures(self):
        phases = {name + "_s": statistics.median(values) for name, values in self.events.items()}
        return dict(step_s=statistics.median(self.times), loop_step_s=self.loop, first_step_s=self.first,
                    steps_s=" ".join(f"{t:.6g}" for t in self.times), **phases)


class SnapshotWatch:
    """Records memory around two steps after warm ones; of what lived before, the stacks alone."""

    def __init__(self, bench, path, warm=3):
        self.bench, self.path, self.warm, self.total, self.done = bench, path, warm, warm + 2, 0

    def phase(self, _name):
        return contextlib.nullcontext()

    def end(self):
        self.done += 1
        if self.done == self.warm and self.bench.cuda:
            torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=120000)
        if self.done == self.total:
            self.bench.sync()
            data = torch.cuda.memory._snapshot() if self.bench.cuda else made_up_snapshot()
            if self.bench.cuda:
                torch.cuda.memory._record_memory_history(enabled=None)
            worker = threading.Thread(target=write_snapshot, args=(slim(data), self.path))
            worker.start()
            self.bench.workers.append(worker)

    def finished(self):
        return self.done >= self.total


def made_up_snapshot():
    def frames(names):
        return [{"filename": "torch/optim/adamw.py" if n == "step" else "model.py", "line": 7, "name": n} for n in names]

    events = [dict(action="alloc", addr=1024, size=512, stream=0, time_us=1, frames=frames(["forward"])),
              dict(action="free_requested", addr=1024, size=512, stream=0, time_us=2, frames=[])]
    block = dict(address=4096, size=1024, requested_size=1000, state="active_allocated", frames=frames(["step"]))
    segment = dict(device=0, address=4096, total_size=2048, allocated_size=1024, active_size=1024, stream=0, segment_type="large", blocks=[block])
    return {"segments": [segment], "device_traces": [events], "allocator_settings": {}, "external_annotations": []}


def slim(data):
    """Equal stacks as one object, which a pickle holds once; other devices' empty records stay."""
    frames, stacks = {}, {}

    def shared(stack):
        key = tuple((f.get("filename"), f.get("line"), f.get("name")) for f in stack)
        if key not in stacks:
            stacks[key] = [frames.setdefault(k, {"filename": k[0], "line": k[1], "name": k[2]}) for k in key]
        return stacks[key]

    for trace in data.get("device_traces", ()):
        for event in trace:
            if event.get("frames"):
                event["frames"] = shared(event["frames"])
    for segment in data["segments"]:
        for one in (segment, *segment.get("blocks", ())):
            if one.get("frames"):
                one["frames"] = shared(one["frames"])
    return data


def write_snapshot(data, path):
    beside = path.with_name(path.name + ".part")
    with lzma.open(beside, "wb", preset=4) as file:
        pickle.dump(data, file, protocol=4)
    os.replace(beside, path)


def median_us(bench, call, calls=12, warm=3, flush=None):
    """Median of calls between CUDA events; flush() before each empties the L2 and lets the host run ahead."""
    for _ in range(warm):
        call()
    if not bench.cuda:
        began = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - began)
    spans = []
    for _ in range(calls):
        if flush:
            flush()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        call()
        b.record()
        spans.append((a, b))
    torch.cuda.synchronize()
    return statistics.median(1e3 * a.elapsed_time(b) for a, b in spans)


# ---------------------------------------------------------------- models


def sizes_of(bench, name):
    sizes = dict(MODELS[name][2])
    if bench.tiny:
        sizes.update(layers=2, hidden=64, heads=4, kv=min(4, max(1, sizes["kv"] // 4)), ffn=128, vocab=min(256, sizes["vocab"]))
        if "width" in sizes:
            sizes["width"] = 16
        if "experts" in sizes:
            sizes["experts"] = 4
    return sizes


def hub_config(name, sizes, seq):
    s = sizes
    config_class = getattr(importlib.import_module("transformers"), MODELS[name][1])
    if "GPT2" in MODELS[name][1]:
        return config_class(n_layer=s["layers"], n_embd=s["hidden"], n_head=s["heads"], n_positions=max(seq, 1024), vocab_size=s["vocab"],
                            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    common = dict(num_hidden_layers=s["layers"], hidden_size=s["hidden"], num_attention_heads=s["heads"], intermediate_size=s["ffn"],
                  vocab_size=s["vocab"], max_position_embeddings=max(seq, 512), bos_token_id=0, eos_token_id=1, pad_token_id=2)
    if "Bert" in MODELS[name][1]:
        return config_class(**common, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    common.update(num_key_value_heads=s["kv"], tie_word_embeddings=s.get("tied", False), use_cache=False)
    if "width" in s:
        common["head_dim"] = s["width"]
    if "Mixtral" in MODELS[name][1]:
        common.update(num_local_experts=s["experts"], num_experts_per_tok=s["topk"])
    if "Qwen3Moe" in MODELS[name][1]:
        common.update(num_experts=s["experts"], num_experts_per_tok=min(s["topk"], s["experts"]), moe_intermediate_size=s["ffn"])
    return config_class(**common)


def build_hub(bench, name, seq, dtype, experts=None):
    """A model of transformers with random weights of the type, on the device."""
    transformers = importlib.import_module("transformers")
    config = hub_config(name, sizes_of(bench, name), seq)
    more = {"experts_implementation": experts} if experts else {}
    auto = transformers.AutoModelForMaskedLM if "Bert" in MODELS[name][0] else transformers.AutoModelForCausalLM
    try:
        with torch.device(bench.device):
            model = auto.from_config(config, dtype=dtype, **more)
    except Exception as error:
        if bench.tiny:
            raise
        bench.notes.add(dict(case_id=name, began_s=time.monotonic() - STARTED, note=f"built on the CPU: {type(error).__name__}: {str(error)[:200]}"))
        model = auto.from_config(config, dtype=dtype, **more)
    model = model.to(bench.device)
    if any(p.dtype != dtype for p in model.parameters()):
        model = model.to(dtype)
    return model.train()


def build_own(bench, name, seq, dtype):
    """The GPT and the mixture of experts below (they need PyTorch's modules, so they are made here)."""
    s = sizes_of(bench, name)
    nn, F = torch.nn, torch.nn.functional
    hidden, heads, vocab = s["hidden"], s["heads"], s["vocab"]
    is_moe = MODELS[name][1] == "moe"

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            return F.layer_norm(x, (hidden,), self.weight, None, 1e-5)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, heads, hidden // heads).transpose(1, 2) for y in self.qkv(x).split(hidden, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).contiguous().view(b, t, hidden))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(hidden, s["ffn"], bias=False), nn.Linear(s["ffn"], hidden, bias=False)

        def forward(self, x):
            return self.down(F.gelu(self.up(x)))

    class Expert(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = nn.Linear(hidden, s["ffn"], bias=False), nn.Linear(hidden, s["ffn"], bias=False)
            self.down = nn.Linear(s["ffn"], hidden, bias=False)

        def forward(self, x):
            return self.down(F.silu(self.gate(x)) * self.up(x))

    class Moe(nn.Module):
        """As people write it: one expert after the other, their rows by torch.where, sums by index_add_."""

        def __init__(self):
            super().__init__()
            self.router = nn.Linear(hidden, s["experts"], bias=False)
            self.experts = nn.ModuleList(Expert() for _ in range(s["experts"]))

        def forward(self, x):
            shape = x.shape
            x = x.view(-1, hidden)
            weights, chosen = torch.topk(F.softmax(self.router(x), dim=-1, dtype=torch.float32), s["topk"], dim=-1)
            weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
            result = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                rows, slots = torch.where(chosen == i)
                if rows.numel() == 0:
                    continue
                result.index_add_(0, rows, (expert(x[rows]) * weights[rows, slots, None]).to(result.dtype))
            return result.view(shape)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.attention, self.second, self.rest = Norm(), Attention(), Norm(), Moe() if is_moe else Mlp()

        def forward(self, x):
            x = x + self.attention(self.first(x))
            return x + self.rest(self.second(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.blocks, self.last = nn.ModuleList(Block() for _ in range(s["layers"])), Norm()
            self.head = nn.Linear(hidden, vocab, bias=False)
            if s.get("tied"):
                self.tokens.weight = self.head.weight

        def forward(self, x, y):
            h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                h = block(h)
            logits = self.head(self.last(h))
            return F.cross_entropy(logits.view(-1, vocab), y.view(-1), ignore_index=-1)

    with torch.device(bench.device):
        model = Gpt()
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
    return model.to(dtype).train()


def optimizer_of(name, parameters, **more):
    parameters = list(parameters)
    if name == "fused":
        return torch.optim.AdamW(parameters, lr=1e-5, fused=True, **more)
    if name == "foreach":
        return torch.optim.AdamW(parameters, lr=1e-5, **more)
    return getattr(importlib.import_module("bitsandbytes").optim, name)(parameters, lr=1e-5, **more)


def counts(model):
    every = list(model.parameters())
    # 4-bit weights hold two values a byte
    def values(p):
        return math.prod(p.quant_state.shape) if getattr(p, "quant_state", None) is not None else p.numel()
    return dict(parameters=sum(map(values, every)), trained_parameters=sum(p.numel() for p in every if p.requires_grad))


# ---------------------------------------------------------------- loops


def shape_of(bench, c):
    return (2, 32) if bench.tiny else (c["batch"], c["seq"])


def run_trainer(bench, c, watch):
    """transformers.Trainer as a script calls it; the batches come out of its own loader."""
    transformers = importlib.import_module("transformers")
    batch, seq = shape_of(bench, c)
    model = build_hub(bench, c["model"], seq, torch.float32 if c["amp"] else torch.bfloat16)
    number = watch.total * c["accumulate"] * batch
    tokens = torch.randint(0, sizes_of(bench, c["model"])["vocab"], (number, seq))

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return number

        def __getitem__(self, i):
            return {"input_ids": tokens[i], "attention_mask": torch.ones_like(tokens[i]), "labels": tokens[i]}

    class Ends(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            watch.end()

        def on_pre_optimizer_step(self, args, state, control, **_):
            self.open = watch.phase("optimizer")
            self.open.__enter__()

        def on_optimizer_step(self, args, state, control, **_):
            self.open.__exit__(None, None, None)

    with tempfile.TemporaryDirectory() as folder:
        more = {"optim": {"fused": "adamw_torch_fused"}.get(c["optimizer"], c["optimizer"])} if c["optimizer"] else {}
        arguments = transformers.TrainingArguments(output_dir=folder, per_device_train_batch_size=batch, max_steps=watch.total, bf16=c["amp"],
                                                   gradient_accumulation_steps=c["accumulate"], gradient_checkpointing=c["checkpoint"],
                                                   report_to="none", save_strategy="no", disable_tqdm=True, use_cpu=not bench.cuda, **more)
        trainer_ = transformers.Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[Ends()])
        loss_of, backward = trainer_.compute_loss, trainer_.accelerator.backward

        def timed_loss(*args, **kwargs):
            with watch.phase("forward"):
                return loss_of(*args, **kwargs)

        def timed_backward(*args, **kwargs):
            with watch.phase("backward"):
                return backward(*args, **kwargs)

        trainer_.compute_loss, trainer_.accelerator.backward = timed_loss, timed_backward
        trainer_.train()
        return dict(counts(model), notes=f"optim {arguments.optim}")


def run_nano(bench, c, watch):
    """The structure of nanoGPT's train.py: batches out of a memory map, pinned, fetched while the GPU works; clipping; fused AdamW."""
    import numpy
    batch, seq = shape_of(bench, c)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = c["precision"] != "fp32"
    try:
        model = build_own(bench, c["model"], seq, torch.float32)
        decayed = [p for p in model.parameters() if p.dim() >= 2]
        others = [p for p in model.parameters() if p.dim() < 2]
        groups = [dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)]
        optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), **({"fused": True} if c["optimizer"] == "fused" else {}))
        called = torch.compile(model) if c.get("compile") else model
        numbers = numpy.random.default_rng(1).integers(0, sizes_of(bench, c["model"])["vocab"], 2_000_000).astype(numpy.uint16)

        def get_batch():
            at = torch.randint(len(numbers) - seq - 1, (batch,))
            x = torch.stack([torch.from_numpy(numbers[i:i + seq].astype(numpy.int64)) for i in at])
            y = torch.stack([torch.from_numpy(numbers[i + 1:i + 1 + seq].astype(numpy.int64)) for i in at])
            if bench.cuda:
                return x.pin_memory().to(bench.device, non_blocking=True), y.pin_memory().to(bench.device, non_blocking=True)
            return x, y

        amp = torch.autocast(bench.device.type, torch.bfloat16) if c["amp"] else contextlib.nullcontext()
        scaler = torch.amp.GradScaler(bench.device.type, enabled=False)
        x, y = get_batch()
        while not watch.finished():
            for _ in range(c["accumulate"]):
                with watch.phase("forward"), amp:
                    loss = called(x, y) / c["accumulate"]
                x, y = get_batch()
                with watch.phase("backward"):
                    scaler.scale(loss).backward()
            with watch.phase("optimizer"):
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
            watch.end()
        return counts(model)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = True


def plain_loop(bench, c, watch, model, batches, loss_of):
    """Forward, backward, update; gradients freed; nothing clipped."""
    optimizer = optimizer_of(c["optimizer"], (p for p in model.parameters() if p.requires_grad))
    amp = torch.autocast(bench.device.type, torch.bfloat16) if c.get("amp") else contextlib.nullcontext()
    i = 0
    while not watch.finished():
        with watch.phase("forward"), amp:
            loss = loss_of(batches[i % len(batches)])
        i += 1
        with watch.phase("backward"):
            loss.backward()
        with watch.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        watch.end()
    return counts(model)


def random_tokens(bench, c, number=4):
    batch, seq = shape_of(bench, c)
    return [torch.randint(0, sizes_of(bench, c["model"])["vocab"], (batch, seq), device=bench.device) for _ in range(number)]


def run_loop(bench, c, watch):
    model = build_hub(bench, c["model"], shape_of(bench, c)[1], torch.bfloat16, c.get("experts"))
    if c["checkpoint"]:
        model.gradient_checkpointing_enable()
    found = plain_loop(bench, c, watch, model, random_tokens(bench, c), lambda x: model(input_ids=x, labels=x).loss)
    return dict(found, notes=f"experts {getattr(model.config, '_experts_implementation', None)}" if c["section"] == "moe" else "")


def run_moe(bench, c, watch):
    model = build_own(bench, c["model"], shape_of(bench, c)[1], torch.float32)
    return plain_loop(bench, c, watch, model, random_tokens(bench, c), lambda x: model(x, x))


def run_padding(bench, c, watch):
    """Batches padded to their longest sequence (right), labels -100 there, attention_mask given; or full ones without and with a mask."""
    batch, seq = shape_of(bench, c)
    model = build_hub(bench, c["model"], seq, torch.bfloat16)
    vocab = sizes_of(bench, c["model"])["vocab"]
    batches, real, longest = [], [], []
    drawn = lengths_of(seq, batch)
    for lengths in drawn + drawn[3:]:  # the same ones with a synchronization after each and without
        width = max(lengths) if c["how"] == "padded" else seq
        tokens = torch.randint(3, vocab, (batch, width))
        mask, labels = torch.ones_like(tokens), tokens.clone()
        if c["how"] == "padded":
            for row, length in enumerate(lengths):
                tokens[row, length:], mask[row, length:], labels[row, length:] = 2, 0, -100
        real.append(int(mask.sum()))
        longest.append(batch * width)
        one = dict(input_ids=tokens.to(bench.device), labels=labels.to(bench.device))
        batches.append(one if c["how"] == "packed" else dict(one, attention_mask=mask.to(bench.device)))
    found = plain_loop(bench, c, watch, model, batches, lambda b: model(**b).loss)
    return dict(found, real_tokens=statistics.mean(real[3:]), padded_tokens=statistics.mean(longest[3:]))


def run_lora(bench, c, watch):
    """PEFT's LoRA on all linear layers; with four_bit NF4 weights with double quantization, prepared as PEFT says."""
    peft = importlib.import_module("peft")
    model = build_hub(bench, c["model"], shape_of(bench, c)[1], torch.bfloat16)
    if c.get("four_bit"):
        bnb = importlib.import_module("bitsandbytes")
        for name, module in list(model.named_modules()):
            if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
                new = bnb.nn.Linear4bit(module.in_features, module.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4",
                                        compress_statistics=True, device="meta")
                new.weight = bnb.nn.Params4bit(module.weight.data, requires_grad=False, quant_type="nf4", compress_statistics=True,
                                               module=new)
                model.set_submodule(name, new.to(bench.device))
        model.is_loaded_in_4bit, model.is_quantized = True, True
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=c["checkpoint"])
    elif c["checkpoint"]:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"))
    bench.clear()
    found = plain_loop(bench, c, watch, model, random_tokens(bench, c), lambda x: model(input_ids=x, labels=x).loss)
    types = sorted({str(p.dtype)[6:] for p in model.parameters() if p.requires_grad})
    return dict(found, notes=f"adapters {' '.join(types)}")


RUNS = {"trainer": run_trainer, "nano": run_nano, "loop": run_loop, "moe": run_moe, "padding": run_padding, "lora": run_lora}


def measure(bench, c):
    bench.clear()
    before = torch.cuda.memory_allocated() if bench.cuda else 0
    watch = Watch(bench, warm=4 if c.get("compile") else 3)
    found = RUNS[c["kind"]](bench, c, watch)
    if watch.loop is None:
        raise RuntimeError(f"{watch.done} of {watch.total} steps")
    peaks = dict(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.max_memory_reserved()) if bench.cuda else \
        dict(peak_allocated=0, peak_reserved=0)
    row = dict(section=c["section"], case_id=c["id"], model=c["model"], batch=c["batch"], seq=c["seq"], accumulate=c["accumulate"],
               optimizer=c["optimizer"] or "default", precision=c["precision"] + (" autocast" if c.get("amp") else ""), allocated_before=before)
    bench.steps.add({**row, **found, **watch.figures(), **peaks})


def steps_section(section):
    def work(bench):
        for c in (c for c in CASES if c["section"] == section):
            if any(row["case_id"] == c["id"] for row in bench.steps.rows):
                continue  # measured in an earlier run
            bench.guarded(section, c["id"], 45 if c.get("compile") else 10, lambda c=c: measure(bench, c))
            if c.get("compile"):
                torch._dynamo.reset()
    return work


# ---------------------------------------------------------------- attention alone


def attention_section(bench):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    table = Table(bench.out / "attention_torch.csv", "backend,batch,heads,kv_heads,seq,width,causal,forward_us,backward_us".split(","))
    backends = {"default": None, "cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
    if not bench.cuda:
        backends.pop("cudnn")
    flush_area = torch.empty(1 << 28 if bench.cuda else 16, dtype=torch.uint8, device=bench.device)
    for shape in ATTENTIONS:
        for name, backend in backends.items():
            def work(shape=shape, name=name, backend=backend):
                b, h, kv, seq, width = shape if not bench.tiny else (1, 4, 4 if shape[1] == shape[2] else 2, 64, 16)
                for causal in (True, False):
                    def tensor(heads):
                        x = torch.randn(b, seq, heads, width, device=bench.device, dtype=torch.bfloat16)
                        return x.transpose(1, 2).detach().requires_grad_()  # as views of projections lie
                    q, k, v = tensor(h), tensor(kv), tensor(kv)
                    label = name
                    with sdpa_kernel(backend) if backend else contextlib.nullcontext():
                        def forward():
                            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=k.shape[1] != h)
                        try:
                            forward()
                        except RuntimeError:
                            if h == kv:
                                raise
                            k, v, label = tensor(h), tensor(h), name + " repeated"
                        forward_us = median_us(bench, forward, 11, 2, flush_area.zero_)
                        y = forward()
                        g = torch.randn_like(y)
                        backward_us = median_us(bench, lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True), 11, 2, flush_area.zero_)
                    table.add(dict(backend=label, batch=shape[0], heads=shape[1], kv_heads=shape[2], seq=shape[3], width=shape[4],
                                   causal=int(causal), forward_us=forward_us, backward_us=backward_us))
            bench.guarded("attention", f"{name} {' '.join(map(str, shape))}", 3, work)


# ---------------------------------------------------------------- kernels of steps


class Layouts:
    """How the operands of the products of a step lie: (phase, op, batch, m, n, k) -> (NN, NT, TN or TT; type), by a dispatch mode over one step."""

    def __init__(self):
        from torch.utils._python_dispatch import TorchDispatchMode
        layouts, found = self, {}
        self.found, self.phase = found, ""

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                name = getattr(function, "_overloadpacket", function).__name__
                if name in ("mm", "addmm", "bmm"):
                    a, b = (args[1], args[2]) if name == "addmm" else (args[0], args[1])
                    key = (layouts.phase, name, *product_of(name, [list(x.shape) for x in args if isinstance(x, torch.Tensor)])[1:])
                    layout = "".join("N" if x.stride(-1) == 1 or x.shape[-1] == 1 else "T" for x in (a, b))
                    found.setdefault(key, (layout, str(a.dtype).replace("torch.", "").replace("bfloat16", "bf16").replace("float32", "fp32")))
                return function(*args, **(kwargs or {}))

        self.mode = Mode()

    def mark(self, phase):
        self.phase = phase
        return contextlib.nullcontext()


def product_of(name, shapes):
    """(batch, batch_m_n_k ..): batch, m, n, k of a product from its inputs' shapes."""
    shapes = [s for s in shapes if len(s) >= 2] if name != "addmm" else shapes[1:3]
    a, b = shapes[0], shapes[1]
    batch = a[0] if name == "bmm" else 1
    return batch, batch, a[-2], b[-1], a[-1]


def kind_of(kernel, op, phase):
    low = kernel.lower()
    if any(word in low for word in ("flash", "fmha", "cudnn_generated", "sdpa", "fprop_f16", "bprop_f16")) and "gemm" not in low.split("_flash")[0]:
        return "attention"
    if "attention" in op:
        return "attention"
    if any(word in low for word in ("gemm", "nvjet", "cutlass", "xmma", "splitk", "cublas")) or op in ("aten::mm", "aten::addmm", "aten::bmm"):
        fp32 = any(word in low for word in ("sgemm", "_s1688", "f32f32_f32f32", "tf32", "simt"))
        return "fp32 product" if fp32 else "product"
    if "softmax" in low:
        return "softmax of the loss" if "log" in op or "logsoft" in low else "pass"
    if "adam" in low or ("multi_tensor" in low and phase == "optimizer"):
        return "optimizer"
    return "pass"


def kernels_section(bench):
    sums = Table(bench.out / "step_kernels.csv", "model,seq,micro_batch,phase,kind,kernels,time_us".split(","))
    names = Table(bench.out / "step_kernel_names.csv", "model,seq,micro_batch,phase,kind,op,kernel,count,total_us".split(","))
    products = Table(bench.out / "products_in_steps.csv", "model,seq,micro_batch,phase,op,batch,m,n,k,layout,dtype,kernel,count,mean_us".split(","))
    alone = Table(bench.out / "products_alone.csv",
                  "batch,m,n,k,layout,dtype,count,time_in_step_us,time_alone_us,time_warm_us".split(","))
    for name, batch, seq in PROFILED:
        if any(row["model"] == name for row in sums.rows):
            continue
        bench.guarded("kernels", f"{name} b{batch} s{seq}", 9, lambda n=name, b=batch, s=seq: profile(bench, n, b, s, sums, names, products))
    bench.guarded("kernels", "products alone", 3, lambda: time_alone(bench, products, alone))


def profile(bench, name, batch, seq, sums, names, products):
    from torch.profiler import ProfilerActivity
    real = (batch, seq)
    if bench.tiny:
        batch, seq = 2, 32
    own = MODELS[name][0] == "own"
    model = build_own(bench, name, seq, torch.float32) if own else build_hub(bench, name, seq, torch.bfloat16)
    optimizer = optimizer_of("fused", model.parameters())
    x = torch.randint(0, sizes_of(bench, name)["vocab"], (batch, seq), device=bench.device)
    amp = torch.autocast(bench.device.type, torch.bfloat16) if own else contextlib.nullcontext()

    def step(mark):
        with mark("forward"):
            with amp:
                loss = model(x, x) if own else model(input_ids=x, labels=x).loss
            bench.sync()
        with mark("backward"):
            loss.backward()
            bench.sync()
        with mark("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            bench.sync()

    nothing = lambda _name: contextlib.nullcontext()
    layouts = Layouts()
    with layouts.mode:
        step(layouts.mark)
    for _ in range(2):
        step(nothing)
    steps = 2
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if bench.cuda else [])
    with torch.profiler.profile(activities=activities, record_shapes=True) as watched:
        for _ in range(steps):
            step(lambda n: torch.profiler.record_function("phase " + n))
    events = watched.profiler.kineto_results.events()
    host, windows, kernels = {}, [], []
    for e in events:
        if "CUDA" in str(e.device_type()):
            if not e.name().startswith("phase ") and e.duration_ns() > 0:
                kernels.append(e)
        elif e.name().startswith("phase "):
            windows.append((e.start_ns(), e.start_ns() + e.duration_ns(), e.name()[6:]))
        elif e.linked_correlation_id() == 0:  # an operator, no call of the runtime
            host[e.correlation_id()] = e
            if not bench.cuda and e.name().startswith("aten::"):
                kernels.append(e)  # a rehearsal: operators stand for kernels
    windows.sort()
    found, per_name, per_product = collections.Counter(), collections.Counter(), collections.Counter()
    times, name_times, product_times = collections.Counter(), collections.Counter(), collections.Counter()
    for e in kernels:
        op = host.get(e.linked_correlation_id() if bench.cuda else e.correlation_id())
        op_name = op.name() if op is not None else ""
        begin = e.start_ns()
        phase = next((n for a, b, n in windows if a <= begin < b), None)
        if phase is None:  # between two phases by a little: the one that ended last
            phase = next((n for a, b, n in reversed(windows) if a <= begin), "forward")
        us, kind = e.duration_ns() / 1e3, kind_of(e.name(), op_name, phase)
        found[phase, kind] += 1
        times[phase, kind] += us
        key = (phase, kind, op_name, e.name()[:200])
        per_name[key] += 1
        name_times[key] += us
        if kind in ("product", "fp32 product") and op is not None and op_name in ("aten::mm", "aten::addmm", "aten::bmm"):
            shapes = [list(s) for s in op.shapes()]
            try:
                b, _, m, n, k = product_of(op_name[6:], shapes)
            except (IndexError, TypeError):
                continue
            key = (phase, op_name[6:], b, m, n, k, e.name()[:120])
            per_product[key] += 1
            product_times[key] += us
    place = dict(model=name, seq=real[1], micro_batch=real[0])
    sums.add(*[dict(place, phase=p, kind=k, kernels=found[p, k] / steps, time_us=times[p, k] / steps) for p, k in sorted(found)])
    names.add(*[dict(place, phase=key[0], kind=key[1], op=key[2], kernel=key[3], count=per_name[key] / steps, total_us=us / steps)
                for key, us in name_times.most_common()])
    rows = []
    for key, us in product_times.most_common():
        phase, op, b, m, n, k, kernel = key
        layout, dtype = layouts.found.get((phase, op, b, m, n, k), ("", ""))
        rows.append(dict(place, phase=phase, op=op, batch=b, m=m, n=n, k=k, layout=layout, dtype=dtype, kernel=kernel,
                         count=per_product[key] / steps, mean_us=us / per_product[key]))
    products.add(*rows)


def time_alone(bench, products, alone):
    """Each distinct product of the steps by itself: with the L2 emptied before each call, and back to back."""
    seen = collections.defaultdict(lambda: [0.0, 0.0])
    for row in products.rows:
        if row["layout"]:
            # kernels of one product (split k: with a sum, with memory that is cleared) are one call: sums of time, the product's calls
            key = tuple(int(row[c]) for c in ("batch", "m", "n", "k")) + (row["layout"], row["dtype"])
            seen[key][0] += float(row["count"]) * float(row["mean_us"])
            beside = any(word in row["kernel"].lower() for word in ("reduce", "memset"))
            seen[key][1] += 0.0 if beside else float(row["count"])
    area = torch.empty(1 << 28 if bench.cuda else 16, dtype=torch.uint8, device=bench.device)
    done = {tuple(str(r[c]) for c in ("batch", "m", "n", "k", "layout", "dtype")) for r in alone.rows}
    rows = []
    for key, (total, count) in sorted(seen.items(), key=lambda one: -one[1][0]):
        if bench.left() < 1:
            break
        if tuple(map(str, key)) in done or not count:
            continue
        batch, m, n, k, layout, dtype = key
        kind = {"bf16": torch.bfloat16, "fp32": torch.float32, "float16": torch.float16}[dtype]

        def operand(rows_, columns, how):
            shape = (rows_, columns) if how == "N" else (columns, rows_)
            x = torch.randn((batch, *shape) if batch > 1 else shape, device=bench.device, dtype=kind)
            return x if how == "N" else x.transpose(-1, -2)
        a, b = operand(m, k, layout[0]), operand(k, n, layout[1])
        call = (lambda: torch.bmm(a, b)) if batch > 1 else (lambda: torch.mm(a, b))
        cold = median_us(bench, call, 11, 2, area.zero_)
        warm = median_us(bench, call, 11, 1)
        rows.append(dict(batch=batch, m=m, n=n, k=k, layout=layout, dtype=dtype, count=count, time_in_step_us=total / count, time_alone_us=cold,
                         time_warm_us=warm))
    alone.add(*rows)


# ---------------------------------------------------------------- snapshots


def snapshots_section(bench):
    by_id = {c["id"]: c for c in CASES}
    for name in SNAPSHOTS:
        path = bench.out / (name.replace(" ", "-") + ".pickle.xz")
        if path.exists():
            continue

        def work(name=name, path=path):
            bench.clear()
            if bench.cuda:  # so that weights and moments, which are older than the two steps, have stacks too
                torch.cuda.memory._record_memory_history(enabled="state", context="state", stacks="python")
            try:
                RUNS[by_id[name]["kind"]](bench, by_id[name], SnapshotWatch(bench, path))
            finally:
                if bench.cuda:
                    torch.cuda.memory._record_memory_history(enabled=None)
        bench.guarded("snapshots", name, 8, work)
    for worker in bench.workers:
        worker.join()  # nothing of it beside the next measurements
    bench.workers = []


# ---------------------------------------------------------------- all of it


def environment(bench):
    rows = [("torch", torch.__version__), ("cuda", torch.version.cuda), ("threads", torch.get_num_threads()), ("cores", os.cpu_count())]
    if bench.cuda:
        properties = torch.cuda.get_device_properties(0)
        rows += [("gpu", properties.name), ("memory", properties.total_memory), ("cudnn", torch.backends.cudnn.version()),
                 ("l2", properties.L2_cache_size)]
        x = torch.zeros(8, device=bench.device)
        bench.sync()
        began = time.perf_counter()
        for _ in range(1000):
            x += 1
        rows.append(("host_call_us", round(1e3 * (time.perf_counter() - began), 3)))
        bench.sync()
    for name in ("transformers", "accelerate", "peft", "bitsandbytes", "triton"):
        try:
            rows.append((name, importlib.import_module("importlib.metadata").version(name)))
        except Exception:
            rows.append((name, "none"))
    write_rows(bench.out / "environment.csv", ["key", "value"], [dict(key=k, value=v) for k, v in rows])


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("out", nargs="?")
    reader.add_argument("seconds", nargs="?", type=float, default=230)
    reader.add_argument("--only", help="sections, separated by commas, run in the order given")
    reader.add_argument("--skip", default="", help="case_ids to leave out")
    reader.add_argument("--device", default="cuda")
    reader.add_argument("--rehearse", action="store_true")
    reader.add_argument("--cases", metavar="CASES.csv")
    reader.add_argument("--merge", nargs=2, metavar=("CASES.csv", "STEPS.csv"))
    reader.add_argument("--gpu", default="H200")
    reader.add_argument("--forecast", nargs=2, metavar=("STEPCAST", "OUT.csv"))
    reader.add_argument("--cluster", default="h200-x1", help="of --forecast")
    options = reader.parse_args()
    if options.forecast:
        return forecast(*options.forecast, options.cluster)
    if options.cases:
        return write_cases(options.cases, options.gpu)
    if options.merge:
        return merge(*options.merge)
    if not options.out:
        reader.error("OUT_DIR is missing")
    chosen = options.only.split(",") if options.only else SECTIONS
    unknown = set(chosen) - set(SECTIONS)
    if unknown:
        reader.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    global torch
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch
    torch.manual_seed(1)
    bench = Bench(options)
    environment(bench)
    # The last seconds belong to files: a stuck case cannot keep the script past its time.
    guard = threading.Timer(max(1.0, options.seconds + 10), lambda: os._exit(3))
    guard.daemon = True
    guard.start()
    run = {"attention": attention_section, "kernels": kernels_section, "snapshots": snapshots_section}
    for section in chosen:
        bench.guarded(section, f"section {section}", 3, lambda s=section: run.get(s, steps_section(s))(bench))
    guard.cancel()
    print(json.dumps({"seconds": round(time.monotonic() - STARTED, 1), "steps": len(bench.steps.rows), "notes": len(bench.notes.rows)}))


if __name__ == "__main__":
    main()
