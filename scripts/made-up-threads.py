#!/usr/bin/env python3
"""Asks diagnose about made-up threads: how often is the cause among the first two?

scripts/made-up-threads.py [--told] [BINARY]    # half a minute; prints one line a thread, and the counts of notes/diagnose.md

A thread is what a person states (model, machine, GPUs, framework, keys), what is really so, the cause, and what he adds to the step with
--told: a sound run, one node, utilisation, memory, clocks. Steps are simulated with what is really so and 10 % of noise. FIRST was
written before diagnose was asked, and showed what was missing; SECOND and THIRD afterwards. `step`, `rate` multiply the step; steps: single
ones, of which some are slow.
"""
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

A, H = "dgx-a100", "dgx-h100"
PROGRAM = str(pathlib.Path(next((a for a in sys.argv[1:] if not a.startswith("-")), pathlib.Path(__file__).parents[1] / "build/release/stepcast")).resolve())
MODELS = {  # of those that are no presets: a preset and its keys
    "gpt2": ("gpt2-124m", {}), "gpt2-xl": ("gpt2-1.5b", {}),
    "gpt2-medium": ("gpt2-124m", {"layers": 24, "hidden": 1024, "heads": 16, "kv_heads": 16, "ffn": 4096}),
    "qwen2.5-7b": ("llama2-7b", {"layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944, "vocab": 152064}),
    "mistral-7b": ("llama2-7b", {"kv_heads": 8, "ffn": 14336}),
    "llama2-13b": ("llama2-7b", {"layers": 40, "hidden": 5120, "heads": 40, "kv_heads": 40, "ffn": 13824})}
FIRST = [
    ('fsdp-8b-tcp', ('llama3-8b', A, 16, 'fsdp-eager', {'zero': 3, 'micro_batch': 1, 'global_batch': 16, 'seq': 4096, 'recompute': 'full'}),
     {'cluster.link.inter.bandwidth': ('*', 0.06)}, 'network between nodes', {'one_node': True}),
    ('ds-llama7b-p2p', ('llama2-7b', A, 8, 'deepspeed', {'zero': 2, 'micro_batch': 2, 'global_batch': 64, 'seq': 2048, 'recompute': 'full'}),
     {'cluster.link.intra.bandwidth': ('*', 0.05)}, 'links inside the node', {'elsewhere': True}),
    ('lf-qwen7b-offload', ('qwen2.5-7b', A, 8, 'deepspeed-transformers', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 2048, 'recompute': 'full'}),
     {'run.offload_optimizer': 'true', 'run.offload_parameters': 'true'}, 'optimizer on the host|parameters on the host', {'busy': 0.35, 'memory': 1}),
    ('nanogpt-noflash', ('gpt2', A, 1, 'nanogpt', {'micro_batch': 12, 'global_batch': 480, 'seq': 1024}),
     {'runtime.attention': 'plain'}, 'attention without a fused kernel', {'elsewhere': True}),
    ('nanogpt-eager', ('gpt2', A, 8, 'nanogpt', {'micro_batch': 12, 'global_batch': 480, 'seq': 1024}),
     {'runtime.kernels': 'eager', 'runtime.eager_traffic': 3}, 'no fused passes', {'elsewhere': True}),
    ('titan-8b-ac', ('llama3-8b', H, 64, 'torchtitan', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 8192, 'recompute': 'selective'}),
     {'parallelism.recompute': 'full'}, 'recompute is on', {'mfu': True, 'memory': 1}),
    ('megatron-mixtral-allgather', ('mixtral-8x7b', H, 64, 'megatron-core', {'tp': 2, 'ep': 8, 'zero': 1, 'micro_batch': 1, 'global_batch': 256, 'seq': 4096, 'sequence_parallel': 'true'}),
     {'cluster.link.intra.all_to_all_efficiency': ('*', 0.25), 'cluster.link.intra.exchange_channel': ('*', 0.25)}, 'dispatcher of experts', {'mfu': True}),
    ('hf-moe-loop', ('qwen3-30b-a3b', H, 8, 'transformers-autocast', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 2048, 'recompute': 'full'}),
     {'framework': 'transformers-expert-loop'}, 'experts in a loop', {'busy': 0.4}),
    ('v100-bf16', ('gpt2-xl', 'dgx-v100', 8, 'transformers-autocast', {'zero': 2, 'micro_batch': 2, 'global_batch': 64, 'seq': 1024, 'dtype': 'fp16'}),
     {'step': 6}, '(not in the list)', {'busy': 0.99}),
    ('sft-padding', ('mistral-7b', A, 8, 'fsdp-eager', {'zero': 3, 'micro_batch': 4, 'global_batch': 128, 'seq': 2048, 'recompute': 'full'}),
     {'rate': 4}, 'padding is not counted', {'tokens_gpu': True}),
    ('fsdp-small-batch', ('llama3-8b', H, 64, 'fsdp', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 1024}),
     {}, '', {'mfu': True}),
    ('power-cap', ('llama3-70b', H, 64, 'megatron-core', {'tp': 8, 'pp': 2, 'zero': 1, 'micro_batch': 1, 'global_batch': 128, 'seq': 4096, 'sequence_parallel': 'true'}),
     {'cluster.gpu.peak.': ('*', 0.55)}, 'clock or power cap', {'clock': 0.55, 'elsewhere': True}),
    ('sparse-peak', ('llama3-8b', H, 8, 'torchtitan', {'zero': 3, 'micro_batch': 2, 'global_batch': 32, 'seq': 8192, 'recompute': 'selective'}),
     {'rate': 2}, 'wrong count in the MFU', {'mfu': True}),
    ('one-rank-tokens', ('llama3-8b', H, 64, 'torchtitan', {'zero': 3, 'micro_batch': 2, 'global_batch': 128, 'seq': 8192, 'recompute': 'selective'}),
     {'rate': 64}, 'tokens of one rank counted', {'tokens': True}),
    ('recompiles', ('llama3-8b', H, 8, 'torchtitan', {'zero': 3, 'micro_batch': 1, 'global_batch': 8, 'seq': 4096, 'recompute': 'full'}),
     {'steps': 'irregular'}, 'compiles again', {'steps': True, 'slow': 3.0}),
    ('log-each-step', ('gpt2-medium', A, 8, 'ddp', {'micro_batch': 8, 'global_batch': 64, 'seq': 1024}),
     {'step': 1.3}, 'slow host|blocking launches', {'busy': 0.7}),
    ('checkpoints', ('llama2-7b', A, 32, 'fsdp', {'zero': 3, 'micro_batch': 2, 'global_batch': 64, 'seq': 4096}),
     {'steps': 'every10'}, 'checkpoints', {'steps': True, 'slow': 4.0}),
    ('eth-stated', ('llama2-7b', A, 32, 'deepspeed', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 2048, 'recompute': 'full', 'cluster.link.inter.bandwidth': '3 GB/s', 'cluster.network.nics': 1}),
     {}, 'network between nodes', {'one_node': True}),
    ('full-shard', ('llama2-7b', A, 128, 'fsdp', {'zero': 3, 'shard': 8, 'micro_batch': 2, 'global_batch': 256, 'seq': 2048}),
     {'parallelism.shard': 0}, 'sharding over all nodes', {'one_node': True}),
    ('slow-host', ('gpt2-xl', H, 8, 'deepspeed-transformers', {'zero': 2, 'micro_batch': 4, 'global_batch': 32, 'seq': 1024}),
     {'cluster.host.load': 4}, 'slow host', {'busy': 0.4}),
    ('shared-gpu', ('llama3-8b', H, 8, 'torchtitan', {'zero': 3, 'micro_batch': 1, 'global_batch': 8, 'seq': 4096, 'recompute': 'full'}),
     {'step': 2.2}, 'shared devices', {'elsewhere': True}),
    ('tp16', ('llama2-70b', A, 32, 'megatron-lm', {'tp': 16, 'zero': 1, 'micro_batch': 1, 'global_batch': 64, 'seq': 4096, 'sequence_parallel': 'true', 'recompute': 'full'}),
     {}, '', {'mfu': True}),
    ('straggler', ('llama3-70b', H, 256, 'megatron-core', {'tp': 8, 'pp': 4, 'zero': 1, 'micro_batch': 1, 'global_batch': 512, 'seq': 8192, 'sequence_parallel': 'true'}),
     {'step': 1.5}, 'one slow rank', {'elsewhere': True}),
    ('dataloader', ('gpt2-xl', H, 8, 'fsdp', {'zero': 3, 'micro_batch': 8, 'global_batch': 64, 'seq': 1024}),
     {'step': 1.9}, 'waits for data', {'busy': 0.52}),
    ('no-overlap', ('llama2-13b', A, 64, 'megatron-core', {'tp': 2, 'zero': 1, 'micro_batch': 1, 'global_batch': 128, 'seq': 4096, 'sequence_parallel': 'true'}),
     {'runtime.exchanges.gradients': 'never', 'runtime.exchanges.parameters': 'false'}, 'exchanges do not overlap', {'mfu': True, 'elsewhere': True}),
    ('moe-imbalance', ('qwen3-30b-a3b', H, 16, 'megatron-core', {'ep': 8, 'zero': 1, 'micro_batch': 1, 'global_batch': 256, 'seq': 4096, 'recompute': 'full'}),
     {'routing.kind': 'zipf', 'routing.skew': 1.0}, 'imbalance of experts', {'elsewhere': True}),
    ('offload-stated', ('llama2-13b', A, 8, 'deepspeed', {'zero': 2, 'micro_batch': 1, 'global_batch': 64, 'seq': 2048, 'recompute': 'full', 'run.offload_optimizer': 'true'}),
     {}, 'optimizer on the host', {'busy': 0.3}),
    ('pcie-stated', ('llama2-7b', 'dgx-a100-pcie', 8, 'fsdp-eager', {'zero': 3, 'micro_batch': 1, 'global_batch': 8, 'seq': 2048}),
     {}, 'PCIe inside the node', {}),
]
SECOND = [
    ('fsdp-70b-oneNIC', ('llama2-70b', A, 64, 'fsdp', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 4096, 'recompute': 'full'}),
     {'cluster.link.inter.bandwidth': ('*', 0.12)}, 'network between nodes', {'elsewhere': True}),
    ('axolotl-mistral-p2p', ('mistral-7b', 'rtx-4090-x8', 8, 'deepspeed-transformers', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 2048, 'recompute': 'full'}),
     {'cluster.link.intra.bandwidth': ('*', 0.2)}, 'PCIe inside the node', {'elsewhere': True}),
    ('hf-llama13b-fp32', ('llama2-13b', A, 16, 'transformers-trainer', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 1024, 'recompute': 'full'}),
     {'dtype': 'fp32'}, 'computes in 32 bits', {'elsewhere': True}),
    ('ds-offload-13b', ('llama2-13b', A, 8, 'deepspeed', {'zero': 2, 'micro_batch': 2, 'global_batch': 64, 'seq': 2048, 'recompute': 'full'}),
     {'run.offload_optimizer': 'true'}, 'optimizer on the host', {'busy': 0.35}),
    ('megatron-plain', ('llama2-7b', H, 16, 'megatron-core', {'tp': 2, 'zero': 1, 'micro_batch': 1, 'global_batch': 64, 'seq': 4096, 'sequence_parallel': 'true'}),
     {'runtime.attention': 'plain'}, 'attention without a fused kernel', {'elsewhere': True}),
    ('qwen-moe-loop', ('qwen3-30b-a3b', A, 16, 'transformers-autocast', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 4096, 'recompute': 'full'}),
     {'framework': 'transformers-expert-loop'}, 'experts in a loop', {'busy': 0.3}),
    ('titan-eager-stated', ('llama3-8b', H, 16, 'torchtitan-eager', {'zero': 3, 'micro_batch': 1, 'global_batch': 16, 'seq': 4096, 'recompute': 'full'}),
     {}, 'no fused passes', {'mfu': True}),
    ('throttle', ('llama3-8b', H, 8, 'torchtitan', {'zero': 3, 'micro_batch': 2, 'global_batch': 16, 'seq': 8192, 'recompute': 'full'}),
     {'cluster.gpu.peak.': ('*', 0.6)}, 'clock or power cap', {'clock': 0.6}),
    ('eval-every-20', ('gpt2-xl', A, 8, 'nanogpt', {'micro_batch': 4, 'global_batch': 64, 'seq': 1024}),
     {'steps': 'every10'}, 'checkpoints', {'steps': True, 'slow': 6.0}),
    ('loader-steps', ('llama3-8b', H, 32, 'fsdp', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 8192, 'recompute': 'full'}),
     {'steps': 'irregular'}, 'waits for data', {'steps': True, 'slow': 2.0}),
    ('micro-as-step', ('llama3-8b', H, 16, 'nemo', {'tp': 2, 'zero': 1, 'micro_batch': 1, 'global_batch': 128, 'seq': 8192, 'sequence_parallel': 'true'}),
     {'rate': 0.0625}, 'a micro-batch taken for a step', {}),
    ('sparse-mfu', ('llama2-70b', H, 64, 'megatron-core', {'tp': 8, 'pp': 2, 'zero': 1, 'micro_batch': 1, 'global_batch': 256, 'seq': 4096, 'sequence_parallel': 'true'}),
     {'rate': 2}, 'wrong count in the MFU', {'mfu': True}),
    ('imbalance', ('qwen3-30b-a3b', H, 8, 'megatron-core', {'ep': 8, 'zero': 1, 'micro_batch': 2, 'global_batch': 128, 'seq': 4096, 'recompute': 'full'}),
     {'routing.kind': 'zipf', 'routing.skew': 1.2}, 'imbalance of experts', {'elsewhere': True}),
    ('hsdp', ('llama2-70b', A, 128, 'fsdp', {'zero': 3, 'shard': 8, 'micro_batch': 1, 'global_batch': 128, 'seq': 2048, 'recompute': 'full', 'cluster.link.inter.bandwidth': '6 GB/s'}),
     {'parallelism.shard': 0}, 'sharding over all nodes', {}),
    ('fine', ('llama3-70b', H, 64, 'torchtitan', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 8192, 'recompute': 'full'}),
     {}, '', {'mfu': True}),
    ('slow-cpu', ('gpt2-xl', H, 16, 'deepspeed-transformers', {'zero': 1, 'micro_batch': 2, 'global_batch': 64, 'seq': 1024}),
     {'cluster.host.load': 3}, 'slow host', {'busy': 0.4}),
]

THIRD = [  # of 30 November, after causes that trackers found, written before diagnose was asked
    ('efa-sockets', ('llama2-7b', A, 32, 'fsdp', {'zero': 3, 'micro_batch': 2, 'global_batch': 64, 'seq': 4096, 'recompute': 'full'}),
     {'cluster.link.inter.bandwidth': ('*', 0.1)}, 'network between nodes', {'one_node': True}),
    ('p2p-disabled', ('llama3-8b', A, 4, 'torchtune', {'zero': 3, 'micro_batch': 2, 'global_batch': 64, 'seq': 4096, 'recompute': 'full'}),
     {'cluster.link.intra.bandwidth': ('*', 0.06)}, 'PCIe inside the node|links inside the node', {'busy': 0.95}),
    ('trainer-no-bf16', ('llama3-8b', H, 8, 'transformers', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 2048, 'recompute': 'full'}),
     {'dtype': 'fp32'}, 'computes in 32 bits', {'busy': 0.98}),
    ('no-loader-workers', ('gpt2-xl', A, 8, 'transformers-trainer', {'zero': 0, 'micro_batch': 4, 'global_batch': 64, 'seq': 1024, 'recompute': 'full'}),
     {'step': 1.8}, 'waits for data', {'busy': 0.55}),
    ('one-hot-node', ('llama2-70b', H, 128, 'megatron-core', {'tp': 8, 'pp': 4, 'zero': 1, 'micro_batch': 1, 'global_batch': 256, 'seq': 4096, 'sequence_parallel': 'true'}),
     {'step': 1.35}, 'one slow rank', {'elsewhere': True}),
    ('its-counts-micro', ('llama3-8b', H, 8, 'transformers', {'zero': 3, 'micro_batch': 1, 'global_batch': 128, 'seq': 2048, 'recompute': 'full'}),
     {'rate': 0.0625}, 'a micro-batch taken for a step', {}),
    ('saves-every-50', ('llama3-8b', H, 64, 'torchtitan', {'zero': 3, 'micro_batch': 1, 'global_batch': 64, 'seq': 8192, 'recompute': 'full'}),
     {'steps': 'every10'}, 'checkpoints', {'steps': True, 'slow': 8.0}),
    ('eager-attention', ('mistral-7b', A, 8, 'transformers', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 8192, 'recompute': 'full'}),
     {'runtime.attention': 'plain'}, 'attention without a fused kernel', {'memory': 1}),
    ('checkpointing-by-default', ('llama2-7b', H, 8, 'fsdp', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 4096}),
     {'parallelism.recompute': 'full'}, 'recompute is on', {'memory': 1}),
    ('no-aux-loss', ('mixtral-8x7b', H, 32, 'megatron-core', {'tp': 2, 'ep': 8, 'zero': 1, 'micro_batch': 1, 'global_batch': 128, 'seq': 4096, 'sequence_parallel': 'true'}),
     {'routing.kind': 'zipf', 'routing.skew': 1.0}, 'imbalance of experts', {'mfu': True}),
    ('neighbour', ('llama3-8b', A, 8, 'deepspeed', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 4096, 'recompute': 'full'}),
     {'step': 1.9}, 'shared devices', {'busy': 1.0, 'clock': 0.97}),
    ('z3-offload-cpu', ('llama2-13b', A, 8, 'deepspeed', {'zero': 3, 'micro_batch': 1, 'global_batch': 32, 'seq': 2048, 'recompute': 'full'}),
     {'run.offload_optimizer': 'true'}, 'optimizer on the host', {'busy': 0.4, 'memory': 1}),
]


def asked(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, cwd=tempfile.gettempdir())
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def scaled(run, prefix, factor):
    """Keys of the machine below `prefix`, times `factor`."""
    for line in asked("show", run[0], "--cluster", run[1], "--gpus", run[2], "--framework", run[3]).splitlines():
        found = re.match(r'([\w.]+) = "?([\d.e+]+) ?([A-Za-z/]*)"?', line)
        if found and ("cluster." + found[1] == prefix or (prefix.endswith(".") and ("cluster." + found[1]).startswith(prefix))):
            yield "cluster." + found[1], f"{float(found[2]) * factor:.6g} {found[3]}".strip()


def words_of(stated, really={}):
    model, cluster, gpus, framework, keys = stated
    preset, sizes = MODELS.get(model, (model, {}))
    keys = {**{"workload." + k: v for k, v in sizes.items()}, **keys}
    framework = really.get("framework", framework)
    for key, value in really.items():
        if isinstance(value, tuple):
            keys.update(scaled((preset, cluster, gpus, framework), key, value[1]))
        elif key not in ("framework", "step", "rate", "steps"):
            keys[key] = value
    return [preset, "--cluster", cluster, "--gpus", gpus, "--framework", framework, *(w for k, v in keys.items() for w in ("--set", f"{k}={v}"))]


def simulated(words):
    found = json.loads(asked("simulate", *words, "--json"))
    return found[0] if isinstance(found, list) else found


def measured(thread, plain, step):
    """What --measured says."""
    name, stated, really, _, says = thread
    chance = random.Random(name)
    if "steps" in really:
        regular = really["steps"] == "every10"
        slow = [i % 10 == 9 if regular else chance.random() < 0.3 for i in range(30)]
        return ",".join(f"{step * math.exp(chance.gauss(0, 0.01)) * (says['slow'] * math.exp(0 if regular else chance.gauss(0, 0.3)) if s else 1):.4f}s"
                        for s in slow)
    step *= really.get("rate", 1)
    tokens = plain["tokens_per_s"] * plain["step_s"]["p50"]
    if says.get("mfu"):
        return f"{100 * plain['model_flops_utilization'] * plain['step_s']['p50'] / step:.2f}%MFU"
    if says.get("tokens_gpu"):
        return f"{tokens / stated[2] / step:.2f}tokens/s/gpu"
    return f"{tokens / step:.2f}tokens/s" if says.get("tokens") else f"{step:.4f}s"


def told(thread, really, plain, error):
    """What he adds."""
    name, stated, fault, _, says = thread
    chance, words = random.Random("told " + name), []
    near = lambda value, width: value * math.exp(chance.gauss(0, width))
    if says.get("elsewhere"):
        words += ["--sound", f"{near(plain['step_s']['p50'] * error, 0.05):.4f}s"]
    if says.get("one_node"):
        batch = stated[4]["global_batch"] * 8 // stated[2]
        one = (*stated[:2], 8, stated[3], {**stated[4], "global_batch": batch})
        step = simulated(words_of(one, {k: v for k, v in fault.items() if k != "parallelism.shard"}))["step_s"]["p50"]
        words += ["--beside", f"gpus=8,global_batch={batch}:{near(step * error, 0.05):.4f}s"]
    if "busy" in says:
        words += ["--seen", f"busy={100 * says['busy']:.0f}%"]
    if says.get("memory"):
        words += ["--seen", f"memory={near(really['memory_bytes']['peak'], 0.1) / 2**30:.1f}GiB"]
    if "clock" in says:
        words += ["--seen", f"clock={95 * says['clock']:.0f}%"]
    return words


def place(found, cause):
    """1: the likeliest; nothing is wrong counts among the causes."""
    nothing, causes = found["probability_nothing_is_wrong"], found["causes"]
    if not cause:
        return 1 if found["verdict"] == "nothing_wrong" else 1 + sum(c["probability"] > nothing for c in causes)
    return min((1 + i + (nothing > c["probability"] and not c["in_some_steps"])
                for i, c in enumerate(causes) if c["name"] in cause.split("|")), default=99)


def main():
    for title, threads in (("FIRST", FIRST), ("SECOND", SECOND), ("THIRD", THIRD)):
        noise, right = random.Random(50), 0
        for thread in threads:
            name, stated, fault, cause, _ = thread
            error = math.exp(noise.gauss(0, 0.1))
            really, plain = simulated(words_of(stated, fault)), simulated(words_of(stated))
            step = really["step_s"]["p50"] * error * fault.get("step", 1)
            more = told(thread, really, plain, error) if "--told" in sys.argv else []
            found = json.loads(asked("diagnose", *words_of(stated), "--measured", measured(thread, plain, step), *more, "--json"))
            at = place(found, cause)
            right += at <= 2
            print(f"{at:3d}  {name}: {cause or 'nothing'} (x {step / error / plain['step_s']['p50']:.2f}); first: "
                  + ", ".join(f"{c['name']} {c['probability']:.2f}" for c in found["causes"][:3]))
        print(f"{title}: {right} of {len(threads)} among the first two")


if __name__ == "__main__":
    main()
