#!/usr/bin/env python3
"""Peaks of real training steps on the pretended GPU, and stepcast's forecasts of the same steps.

record.py --forecast STEPCAST OUT.csv [--only WORD]       # no PyTorch needed; do this first
LD_LIBRARY_PATH=GPU record.py --record OUT.csv [--only WORD]   # GPU: what build.sh made; each case in a process of its own
record.py --beside FORECAST.csv RECORDED.csv [--within 3 5]

PyTorch's, Transformers', PEFT's and torchtitan's own code and PyTorch's own allocator; device calls are answered by a library that counts
memory, no kernel runs. Peaks are of five steps, all but torchtitan's first model building included; other ranks are PyTorch's fake process
group, so collectives have no buffers of NCCL. Events are done at once: memory that waits for another stream is never held back.
"""
import argparse
import contextlib
import csv
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GIB = 2.0**30


def users_steps():
    spec = importlib.util.spec_from_file_location("users_steps", HERE.parent / "users-steps.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def llama(layers, hidden, heads, kv, ffn, vocab, tied=False, **more):
    return ("LlamaForCausalLM", "LlamaConfig", dict(layers=layers, hidden=hidden, heads=heads, kv=kv, ffn=ffn, vocab=vocab, tied=tied), "llama", more)


MODELS = {
    "llama-12": llama(12, 1536, 12, 4, 4096, 32000),
    "llama-6-wide": llama(6, 4096, 32, 32, 11008, 32000),
    "qwen2.5-0.5b-12": ("Qwen2ForCausalLM", "Qwen2Config", dict(layers=12, hidden=896, heads=14, kv=2, ffn=4864, vocab=151936, tied=True), "qwen2"),
    "qwen3-12": ("Qwen3ForCausalLM", "Qwen3Config", dict(layers=12, hidden=2048, heads=16, kv=8, ffn=6144, vocab=151936, tied=True, width=128), "qwen3"),
    "gpt2-medium": ("GPT2LMHeadModel", "GPT2Config", dict(layers=24, hidden=1024, heads=16, kv=16, ffn=4096, vocab=50257), "gpt2"),
    "gpt2-large": ("GPT2LMHeadModel", "GPT2Config", dict(layers=36, hidden=1280, heads=20, kv=20, ffn=5120, vocab=50257), "gpt2"),
    "mixtral-6": ("MixtralForCausalLM", "MixtralConfig",
                  dict(layers=6, hidden=1536, heads=12, kv=4, ffn=4096, vocab=32000, experts=8, topk=2), "mixtral"),
    "nano-350m": ("own", "gpt", dict(layers=24, hidden=1024, heads=16, kv=16, ffn=4096, vocab=50304, tied=True), "gpt2"),
}


def one(kind, model, batch, seq, label="", framework="transformers", sets=(), **more):
    """A case on one GPU of scripts/users-steps.py: its keys; `sets` are further keys of the forecast."""
    c = dict(section=kind, model=model, batch=batch, seq=seq, accumulate=1, checkpoint=False, optimizer="fused", kind=kind, precision="bf16",
             framework=framework, words="", label=label, amp=False, gpus=1, sets=tuple(sets))
    c.update(more)
    parts = [kind, model, f"b{batch}", f"s{seq}", label, "checkpointing" if c["checkpoint"] else "", f"accumulate {c['accumulate']}" if c["accumulate"] > 1 else ""]
    c["id"] = " ".join(p for p in parts if p)
    return c


def trainer(model, batch, seq, label="", **more):
    return one("trainer", model, batch, seq, label, **{"framework": "transformers-trainer", "amp": True, **more})


def titan(flavor, gpus, batch, seq, label="", sets=(), ac="none", layers=None, **degrees):
    """torchtitan's Llama 3 on ranks of the fake group; degrees: tp, pp, dp_shard, dp_replicate, cp, accumulate .."""
    c = dict(kind="titan", model=flavor, gpus=gpus, batch=batch, seq=seq, framework="torchtitan-eager", sets=tuple(sets), ac=ac, layers=layers,
             degrees=degrees, accumulate=degrees.pop("accumulate", 1))
    parts = ["titan", flavor, f"{gpus} GPUs", f"b{batch}", f"s{seq}"] + [f"{k} {v}" for k, v in degrees.items()] + [f"ac {ac}" if ac != "none" else "", label]
    c["id"] = " ".join(p for p in parts if p)
    return c


def ranks(way, model, gpus, batch, seq, label="", sets=(), **more):
    """A plain loop of a model of Transformers over ranks: ddp (DistributedDataParallel), fsdp2 (fully_shard of each layer and the model, reduced in
    fp32), accelerate (its FSDP 2, mixed_precision bf16: reduced in bf16), deepspeed (bf16, the ZeRO stage of its keys) or trainer (Hugging Face's
    around DistributedDataParallel); fsdp2 and accelerate keep weights in fp32."""
    c = one("loop", model, batch, seq, label, sets=sets, **more)
    c.update(kind="ranks", way=way, gpus=gpus, id=c["id"].replace("loop", f"{way} {gpus} GPUs", 1))
    return c


# weights in bf16, as transformers-expert-loop's file says
LOOP = ("runtime.autocast=false", "runtime.gradients.type=training", "runtime.optimizer.master_weights=false")
SHARDED = ("zero=3", "runtime.optimizer.master_weights=true")

CASES = [
    one("loop", "llama-12", 4, 2048),
    one("loop", "llama-12", 4, 2048, checkpoint=True),
    one("loop", "llama-12", 2, 1024, "foreach", optimizer="foreach", sets=["runtime.optimizer.fused=false"]),
    one("loop", "llama-6-wide", 1, 4096),
    one("loop", "qwen3-12", 2, 4096),
    one("loop", "qwen3-12", 8, 1024, checkpoint=True),
    one("loop", "gpt2-large", 4, 1024),
    trainer("gpt2-medium", 8, 512),
    trainer("gpt2-medium", 8, 1024, checkpoint=True),
    trainer("llama-12", 4, 1024),
    trainer("llama-12", 2, 4096, checkpoint=True),
    trainer("llama-12", 4, 1024, accumulate=4),
    trainer("qwen2.5-0.5b-12", 8, 1024),
    trainer("qwen3-12", 4, 1024, "foreach", optimizer="adamw_torch", sets=["runtime.optimizer.fused=false"]),
    trainer("llama-6-wide", 1, 2048, "sgd", optimizer="sgd", sets=["workload.optimizer=sgd"]),
    one("nano", "nano-350m", 8, 1024, "autocast", amp=True, framework="nanogpt-eager"),
    one("nano", "nano-350m", 4, 1024, "tf32", precision="tf32", framework="nanogpt-eager"),
    one("lora", "qwen3-12", 4, 1024, "LoRA 16", sets=["workload.adapter_rank=16", "workload.adapter_on=linear"]),
    one("lora", "llama-6-wide", 2, 2048, "LoRA 16", checkpoint=True, sets=["workload.adapter_rank=16", "workload.adapter_on=linear"]),
    one("loop", "qwen3-12", 2, 2048, "AdamW8bit", optimizer="AdamW8bit", sets=["workload.optimizer=adam8bit"]),
    one("loop", "mixtral-6", 4, 1024, "eager experts", experts="eager", framework="transformers-expert-loop", sets=LOOP),
    one("loop", "mixtral-6", 2, 2048, "grouped", experts="grouped_mm", framework="transformers"),
    titan("8B", 8, 1, 4096, sets=["zero=3"]),
    titan("8B", 8, 1, 8192, ac="full", sets=["zero=3"]),
    titan("8B", 64, 2, 4096, ac="full", sets=["zero=3"]),
    titan("8B", 8, 1, 8192, tp=2, sets=["zero=3", "tp=2"]),
    titan("8B", 64, 1, 8192, tp=8, sets=["zero=3", "tp=8"]),
    titan("8B", 8, 2, 2048, accumulate=4, sets=["zero=3"], label="accumulate 4"),
    titan("8B", 16, 1, 4096, sets=["zero=3"]),
    titan("70B", 256, 1, 4096, ac="full", tp=8, layers=20, sets=["zero=3", "tp=8"], label="20 layers"),
    titan("8B", 8, 1, 4096, ac="full", pp=2, accumulate=8, sets=["zero=2", "pp=2"], label="1f1b"),
    titan("8B", 64, 1, 8192, ac="full", cp=4, sets=["zero=3", "cp=4"]),
    ranks("fsdp2", "llama-6-wide", 8, 2, 2048, sets=[*SHARDED, "runtime.gradients.type=fp32"]),
    ranks("fsdp2", "llama-6-wide", 8, 4, 2048, checkpoint=True, sets=[*SHARDED, "runtime.gradients.type=fp32"]),
    ranks("accelerate", "qwen3-12", 8, 2, 2048, sets=[*SHARDED, "runtime.gradients.type=training"]),
    ranks("ddp", "llama-12", 8, 4, 2048, sets=["zero=0", "runtime.gradients.bucket=25 MiB"]),
    ranks("ddp", "qwen3-12", 8, 4, 1024, optimizer="AdamW8bit", label="AdamW8bit",
          sets=["zero=0", "workload.optimizer=adam8bit", "runtime.gradients.bucket=25 MiB"]),
    # other sizes, not looked at before the mends of 30 November's evening
    one("loop", "mixtral-6", 2, 4096, "eager experts", experts="eager", framework="transformers-expert-loop", sets=LOOP),
    one("lora", "llama-12", 4, 2048, "LoRA 16", sets=["workload.adapter_rank=16", "workload.adapter_on=linear"]),
    trainer("gpt2-large", 4, 1024, checkpoint=True),
    titan("8B", 32, 2, 4096, tp=4, sets=["zero=3", "tp=4"]),
    titan("8B", 64, 1, 16384, tp=8, ac="full", sets=["zero=3", "tp=8"]),
    # not looked at before the mends of 1 December
    titan("8B", 16, 1, 2048, ac="full", pp=4, accumulate=8, sets=["zero=2", "pp=4"], label="1f1b"),
    titan("8B", 32, 1, 32768, tp=8, ac="full", sets=["zero=3", "tp=8"]),
    ranks("ddp", "gpt2-medium", 16, 8, 512, sets=["zero=0", "runtime.gradients.bucket=25 MiB"]),
    ranks("ddp", "llama-12", 8, 4, 1024, label="autocast", amp=True, framework="transformers-autocast",
          sets=["zero=0", "runtime.gradients.bucket=25 MiB"]),
    ranks("fsdp1", "llama-6-wide", 8, 2, 2048, sets=[*SHARDED, "runtime.weight_shards=flat", "runtime.gradients.type=training"]),
    one("loop", "mixtral-6", 4, 4096, "grouped", experts="grouped_mm", framework="transformers"),
    # later that day
    ranks("trainer", "llama-12", 8, 4, 1024, amp=True, framework="transformers-trainer", sets=["zero=0", "runtime.gradients.bucket=25 MiB"]),
    ranks("trainer", "qwen3-12", 8, 2, 2048, amp=True, checkpoint=True, framework="transformers-trainer",
          sets=["zero=0", "runtime.gradients.bucket=25 MiB"]),
    ranks("deepspeed", "llama-12", 8, 4, 2048, label="zero 1", framework="deepspeed-transformers", sets=["zero=1"]),
    ranks("deepspeed", "llama-12", 8, 4, 2048, label="zero 2", framework="deepspeed-transformers", sets=["zero=2"]),
    ranks("deepspeed", "llama-6-wide", 8, 2, 2048, label="zero 2", framework="deepspeed-transformers", sets=["zero=2"]),
    ranks("deepspeed", "llama-6-wide", 8, 2, 2048, label="zero 3", framework="deepspeed-transformers", sets=["zero=3"]),
    ranks("deepspeed", "qwen3-12", 8, 4, 1024, label="zero 3", checkpoint=True, framework="deepspeed-transformers", sets=["zero=3"]),
    # forecast frozen with the mends that the others led to
    ranks("deepspeed", "qwen3-12", 8, 2, 2048, label="zero 2", framework="deepspeed-transformers", sets=["zero=2"]),
    ranks("deepspeed", "llama-6-wide", 8, 1, 4096, label="zero 3", checkpoint=True, framework="deepspeed-transformers", sets=["zero=3"]),
]


# ---------------------------------------------------------------- forecast


TITAN = {"8B": dict(layers=32, hidden=4096, heads=32, kv=8, ffn=14336, vocab=128256), "70B": dict(layers=80, hidden=8192, heads=64, kv=8, ffn=28672, vocab=128256)}


def sizes_of(c):
    if c["kind"] != "titan":
        return MODELS[c["model"]][2], MODELS[c["model"]][3]
    return dict(TITAN[c["model"]], **({"layers": c["layers"]} if c["layers"] else {})), "llama"


def config_of(c):
    s, kind = sizes_of(c)
    if kind == "gpt2":
        return dict(model_type="gpt2", n_layer=s["layers"], n_embd=s["hidden"], n_head=s["heads"], n_inner=s["ffn"], n_positions=c["seq"], vocab_size=s["vocab"], resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    config = dict(model_type=kind, num_hidden_layers=s["layers"], hidden_size=s["hidden"], num_attention_heads=s["heads"], num_key_value_heads=s["kv"],
                  intermediate_size=s["ffn"], vocab_size=s["vocab"], max_position_embeddings=max(c["seq"], 2048), tie_word_embeddings=s.get("tied", False))
    if "width" in s:
        config["head_dim"] = s["width"]
    if kind == "mixtral":
        config.update(num_local_experts=s["experts"], num_experts_per_tok=s["topk"])
    return config


def forecast(stepcast, cases, cluster):
    for c in cases:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "config.json")
            path.write_text(json.dumps(config_of(c)), encoding="utf-8")
            degrees = c.get("degrees", {})
            data = c["gpus"] // (degrees.get("tp", 1) * degrees.get("pp", 1) * degrees.get("cp", 1))
            split = ["sequence_parallel=true"] if degrees.get("tp", 1) > 1 else []  # apply_tp splits the sequence
            recompute = c.get("checkpoint") or c.get("ac") == "full"
            sets = [f"seq={c['seq']}", f"micro_batch={c['batch']}", f"global_batch={c['batch'] * c['accumulate'] * data}",
                    f"recompute={'full' if recompute else 'none'}", f"workload.dtype={c.get('precision', 'bf16')}", "workload.optimizer=adam", *split]
            sets = [one for one in sets if one.split("=")[0] not in {x.split("=")[0] for x in c["sets"]}] + list(c["sets"])
            cluster_ = cluster if c["gpus"] == 1 else "H100"
            command = [stepcast, "simulate", str(path), "--cluster", cluster_, "--gpus", str(c["gpus"]), "--framework", c["framework"], "--memory", "--json"]
            ran = subprocess.run(command + [x for one in sets for x in ("--set", one)], capture_output=True, text=True, check=False)
            row = dict(case_id=c["id"], keys=f"{c['framework']} " + " ".join(sets))
            try:
                said = json.loads(ran.stdout)["allocator_bytes"]
                of_rank = said.get("stages", [said])[0]  # rank 0 is in the first
                row.update(allocated=of_rank["allocated"], reserved=of_rank["reserved"], kinds=" ".join(f"{k}={v / GIB:.3f}" for k, v in said["kinds"].items()))
            except (json.JSONDecodeError, KeyError) as error:
                row.update(note=(ran.stderr.strip() or repr(error)).replace("\n", " ")[:300])
            yield row


# ---------------------------------------------------------------- record


def run_titan(torch, c):
    from torchtitan.config import JobConfig
    from torchtitan.models import llama3
    from torchtitan.protocols import train_spec
    from torchtitan.train import Trainer
    os.environ.update(NGPU=str(c["gpus"]), LOCAL_RANK="0", RANK="0", WORLD_SIZE=str(c["gpus"]))
    spec = llama3.get_train_spec()
    arguments = spec.model_args[c["model"]]
    arguments.vocab_size = 128256
    if c["layers"]:
        arguments.n_layers = c["layers"]
    spec.build_tokenizer_fn = None
    spec.build_dataloader_fn = None
    get = train_spec.get_train_spec
    train_spec.get_train_spec = lambda name: spec if name == "llama3" else get(name)
    job = JobConfig()
    job.model.name, job.model.flavor = "llama3", c["model"]
    job.comm.mode = "fake_backend"
    d, p = c["degrees"], job.parallelism
    p.tensor_parallel_degree, p.pipeline_parallel_degree, p.context_parallel_degree = d.get("tp", 1), d.get("pp", 1), d.get("cp", 1)
    p.data_parallel_replicate_degree = d.get("dp_replicate", 1)
    p.pipeline_parallel_schedule = "1F1B"
    data = c["gpus"] // (p.tensor_parallel_degree * p.pipeline_parallel_degree * p.context_parallel_degree)
    local = c["batch"]
    if d.get("pp", 1) > 1:  # micro-batches are torchtitan's split of the local batch
        local, p.pipeline_parallel_microbatch_size = c["batch"] * c["accumulate"], c["batch"]
    job.training.local_batch_size, job.training.seq_len = local, c["seq"]
    job.training.global_batch_size = c["batch"] * c["accumulate"] * data
    job.training.steps = 10
    job.activation_checkpoint.mode = c["ac"]
    job.checkpoint.enable = False
    job.metrics.log_freq = 1000
    trainer = Trainer(job)
    with torch.device("cpu"):
        def batches():
            while True:
                tokens = torch.randint(0, 1000, (local, c["seq"]))
                yield {"input": tokens}, tokens
    data_of = trainer.batch_generator(batches())
    for _ in range(5):
        trainer.step += 1
        trainer.train_step(data_of)
    return sum(q.numel() for part in trainer.model_parts for q in part.parameters())


def join_ranks(torch, c):
    """The fake group, and DistributedDataParallel on it: its hook gives no result, and a sum is in place."""
    from torch.testing._internal.distributed.fake_pg import FakeStore
    for variable, value in dict(RANK=0, LOCAL_RANK=0, WORLD_SIZE=c["gpus"], LOCAL_WORLD_SIZE=min(8, c["gpus"]), MASTER_ADDR="localhost", MASTER_PORT=29500).items():
        os.environ[variable] = str(value)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=c["gpus"])
    # it compares shapes that the host reads from the device
    torch.nn.parallel.distributed._verify_param_shape_across_processes = lambda *_: None
    wrap = torch.nn.parallel.DistributedDataParallel.__init__

    def reduced(_, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def with_hook(self, *arguments, **more):
        wrap(self, *arguments, **more)
        self.register_comm_hook(None, reduced)

    torch.nn.parallel.DistributedDataParallel.__init__ = with_hook


def deepspeed_loop(torch, users, bench, c, watch, model):
    import deepspeed
    # the fake group gives no list of another rank to compare with
    deepspeed.runtime.zero.partitioned_param_coordinator.assert_ints_same_as_other_ranks = lambda *_: None
    stage = int(next(one for one in c["sets"] if one.startswith("zero="))[5:])
    settings = {"train_micro_batch_size_per_gpu": c["batch"], "bf16": {"enabled": True}, "zero_optimization": {"stage": stage}, "gradient_clipping": 1.0}
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)[0]
    bench.clear()
    batches = users.random_tokens(bench, c)
    while not watch.finished():
        tokens = batches[watch.done % len(batches)]
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        watch.end()


def wrapped(torch, c, model):
    """The model as its way over ranks wraps it."""
    layer = type((model.model.layers if hasattr(model, "model") else model.transformer.h)[0])
    if c["way"] == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    if c["way"] == "accelerate":
        import accelerate
        os.environ["ACCELERATE_USE_FSDP"] = "true"
        plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="transformer_based_wrap", reshard_after_forward=True,
                                                           transformer_cls_names_to_wrap=[layer.__name__], cpu_ram_efficient_loading=False)
        optimizer = torch.optim.SGD(model.parameters())  # which FSDP 2 wants beside the model; the loop makes its own
        return accelerate.Accelerator(mixed_precision="bf16", fsdp_plugin=plugin).prepare(model, optimizer)[0]
    if c["way"] == "fsdp1":
        from functools import partial
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
        return FullyShardedDataParallel(model, device_id=0, use_orig_params=True, auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls={layer}),
                                        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in [*model.model.layers, model]:
        fully_shard(block, mp_policy=policy)
    return model


def run_ranks(torch, users, bench, c, watch):
    join_ranks(torch, c)
    if c["way"] == "trainer":
        return users.run_trainer(bench, c, watch)["parameters"]
    model = users.build_hub(bench, c["model"], c["seq"], torch.bfloat16 if c["way"] in ("ddp", "deepspeed") and not c["amp"] else torch.float32)
    if c["checkpoint"]:
        model.gradient_checkpointing_enable()
    weights = sum(q.numel() for q in model.parameters())
    if c["way"] == "deepspeed":
        deepspeed_loop(torch, users, bench, c, watch, model)
        return weights
    model = wrapped(torch, c, model)
    bench.clear()  # the whole model was built on the device, which no rank of a larger one could
    users.plain_loop(bench, c, watch, model, users.random_tokens(bench, c), lambda x: model(input_ids=x, labels=x).loss)
    return weights


def record_here(name, snapshot):
    """One case in this process: prints a JSON object."""
    sys.path.insert(0, str(HERE))
    c = next(c for c in CASES if c["id"] == name)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    import answers
    if snapshot:
        torch.cuda.memory._record_memory_history(max_entries=2000000, stacks="python")
    if c["kind"] == "titan":
        weights = run_titan(torch, c)
    else:
        users = users_steps()
        users.torch, users.STEPS = torch, 1
        users.MODELS.update({k: v[:4] for k, v in MODELS.items()})
        if "experts" in MODELS[c["model"]][2]:
            answers.balanced(MODELS[c["model"]][2]["experts"])
        out = tempfile.mkdtemp()
        bench = users.Bench(argparse.Namespace(out=out, seconds=600, device="cuda", rehearse=False, skip=""))
        torch.manual_seed(1)
        watch = users.Watch(bench)
        with contextlib.redirect_stdout(sys.stderr):
            weights = run_ranks(torch, users, bench, c, watch) if c["kind"] == "ranks" else users.RUNS[c["kind"]](bench, c, watch)["parameters"]
    if snapshot:
        torch.cuda.memory._dump_snapshot(snapshot)
    versions = {n: importlib.metadata.version(n) for n in ("torch", "transformers", "peft", "torchtitan", "bitsandbytes") if importlib.util.find_spec(n)}
    print(json.dumps(dict(case_id=name, allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(), weights=weights,
                          versions=" ".join(f"{k} {v}" for k, v in versions.items()))), flush=True)
    os._exit(0)


def record(cases, snapshots):
    for c in cases:
        command = [sys.executable, __file__, "--one", c["id"]] + (["--snapshot", os.path.join(snapshots, c["id"].replace(" ", "-") + ".pickle")] if snapshots else [])
        # DistributedDataParallel sends the order of its buckets over the device
        keeps = {"PRETENDED_GPU_KEEPS": "1"} if c.get("way") in ("ddp", "trainer") else {}
        try:
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **keeps})
            row = json.loads(ran.stdout.strip().splitlines()[-1])
        except (json.JSONDecodeError, IndexError):
            row = dict(case_id=c["id"], note=(ran.stderr.strip().splitlines() or [f"exit {ran.returncode}"])[-1][:300])
            if os.environ.get("SHOW"):
                print(ran.stderr[-3000:], file=sys.stderr)
        except subprocess.TimeoutExpired:
            row = dict(case_id=c["id"], note="time out")
        print(row, file=sys.stderr, flush=True)
        yield row


def write(path, columns, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n", restval="")
        writer.writeheader()
        for row in rows:
            writer.writerow(row)
            file.flush()


def beside(said, recorded, within):
    """Errors of the forecast, in per cent. With `within` (allocated, reserved) rows that are further off and have no such bound of their own in
    columns `allocated_within` and `reserved_within`, and rows without a forecast, end the program with 1."""
    with open(said, newline="", encoding="utf-8") as file:
        forecasts = {row["case_id"]: row for row in csv.DictReader(file)}
    with open(recorded, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["allocated"]]
    sums, counted, wrong = [0.0, 0.0], 0, []
    for row in rows:
        forecast_ = forecasts.get(row["case_id"], {})
        if not forecast_.get("allocated"):
            wrong.append(f"{row['case_id']}: no forecast {forecast_.get('note', '')}")
            continue
        errors = [100 * (float(forecast_[key]) / float(row[key]) - 1) for key in ("allocated", "reserved")]
        sums, counted = [a + abs(e) for a, e in zip(sums, errors)], counted + 1
        print(f"{row['case_id']:62}{float(row['allocated']) / GIB:8.2f}{errors[0]:+8.1f} %{float(row['reserved']) / GIB:8.2f}{errors[1]:+8.1f} %")
        for key, error, bound in zip(("allocated", "reserved"), errors, within or ()):
            if abs(error) > float(row.get(key + "_within") or bound):
                wrong.append(f"{row['case_id']}: {key} is {error:+.1f} % off")
    print(f"{counted} cases: mean {sums[0] / max(1, counted):.2f} % allocated, {sums[1] / max(1, counted):.2f} % reserved")
    if within and wrong:
        sys.exit("\n".join(wrong))


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--forecast", nargs=2, metavar=("STEPCAST", "OUT.csv"))
    reader.add_argument("--record", metavar="OUT.csv")
    reader.add_argument("--beside", nargs=2, metavar=("FORECAST.csv", "RECORDED.csv"))
    reader.add_argument("--within", nargs=2, type=float, metavar=("ALLOCATED", "RESERVED"), help="per cent, of --beside")
    reader.add_argument("--only", default="", help="cases whose name has this")
    reader.add_argument("--snapshots", default="", help="folder for snapshots of memory")
    reader.add_argument("--cluster", default="h100-x1", help="of one GPU, for --forecast")
    reader.add_argument("--one", help=argparse.SUPPRESS)
    reader.add_argument("--snapshot", default="", help=argparse.SUPPRESS)
    options = reader.parse_args()
    cases = [c for c in CASES if options.only in c["id"]]
    if options.one:
        record_here(options.one, options.snapshot)
    if options.forecast:
        write(options.forecast[1], ["case_id", "allocated", "reserved", "kinds", "keys", "note"], forecast(options.forecast[0], cases, options.cluster))
    if options.record:
        write(options.record, ["case_id", "allocated", "reserved", "weights", "versions", "note"], record(cases, options.snapshots))
    if options.beside:
        beside(*options.beside, options.within)


if __name__ == "__main__":
    main()
