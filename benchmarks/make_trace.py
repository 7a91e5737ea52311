#!/usr/bin/env python3
"""Makes up a PyTorch (Kineto) trace: eager training steps of a Llama under data parallelism, one file a rank.

Shapes, operators, launches, phases, NCCL arguments and memory are as the profiler writes them; times follow from simple rates, so
that the file is no measurement. --bytes 1e9 repeats steps until the file has that size: what the import's speed is measured on.
"""
import argparse
import gzip
import json
import random

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, value in [("layers", 2), ("hidden", 2048), ("ffn", 8192), ("heads", 32), ("kv_heads", 8), ("vocab", 32000), ("seq", 2048),
                    ("batch", 2), ("steps", 3), ("ranks", 2), ("rank", 0), ("seed", 1)]:
    parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
parser.add_argument("--bytes", type=float, default=0, help="instead of --steps: until the file is so large")
parser.add_argument("--out", required=True, help="FILE.json or FILE.json.gz")
a = parser.parse_args()
dice = random.Random(a.seed * 1000 + a.rank)
BASE = 1_700_000_000_000_000_000
GEMM, MEMORY, LINK, LAUNCH = 520e6, 2.3e6, 0.2e6, 4.0  # flop, bytes, bytes a us; us
TOKENS, HEAD = a.batch * a.seq, a.hidden // a.heads


class Writer:
    def __init__(self):
        self.file = gzip.open(a.out, "wt", compresslevel=9) if a.out.endswith(".gz") else open(a.out, "w", buffering=1 << 20)
        self.size, self.first = 0, True
        head = {"schemaVersion": 1,
                "deviceProperties": [{"id": i, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028765696, "computeMajor": 9,
                                      "computeMinor": 0, "numSms": 132} for i in range(max(8, a.ranks))],
                "distributedInfo": {"backend": "nccl", "rank": a.rank, "world_size": a.ranks, "pg_count": 1,
                                    "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": a.ranks}]},
                "record_shapes": 1, "profile_memory": 1}
        self.text(json.dumps(head)[:-1] + ', "traceEvents": [\n')

    def text(self, text):
        self.file.write(text)
        self.size += len(text)

    def event(self, **fields):
        self.text(("" if self.first else ",\n") + json.dumps(fields))
        self.first = False

    def close(self):
        self.text(f'\n], "baseTimeNanoseconds": {BASE}, "displayTimeUnit": "ms", "traceName": "trace.json"}}\n')
        self.file.close()


out = Writer()


class Machine:
    """One rank: a host that launches, a stream that computes, a stream that communicates."""
    host, compute, network, correlation, ident, memory = 100.0, 0.0, 0.0, 1, 1, 6e9

    def now(self):
        return round(self.host, 3)

    def kernel(self, name, us, stream, ident, extra=None):
        start = self.now()
        call = LAUNCH * dice.uniform(0.8, 1.3)
        out.event(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=10 + a.rank, tid=self.tid, ts=start, dur=round(call, 3),
                  args={"cbid": 211, "correlation": self.correlation, "External id": ident})
        self.host += call
        us *= dice.uniform(0.98, 1.03)
        if stream == 7:
            begin = max(self.compute, self.host + 2)
            self.compute = begin + us
        else:
            begin = max(self.network, self.compute, self.host + 2)
            self.network = begin + us
        args = {"External id": ident, "device": a.rank, "context": 1, "stream": stream, "correlation": self.correlation,
                "grid": [132, 1, 1], "block": [256, 1, 1]}
        args.update(extra or {})
        out.event(ph="X", cat="kernel", name=name, pid=a.rank, tid=stream, ts=round(begin, 3), dur=round(us, 3), args=args)
        self.correlation += 1

    def op(self, name, dims, kernel, us, types=None, strides=None, stream=7, extra=None, concrete=None):
        ident, start = self.ident, self.now()
        self.ident += 1
        self.host += dice.uniform(3, 6)
        self.kernel(kernel, us, stream, ident, extra)
        self.host += dice.uniform(1, 2)
        args = {"External id": ident, "Record function id": 0, "Input Dims": dims,
                "Input type": types or ["c10::BFloat16" if d else "Scalar" for d in dims],
                "Input Strides": strides or [contiguous(d) for d in dims]}
        if concrete:
            args["Concrete Inputs"] = concrete
        out.event(ph="X", cat="cpu_op", name=name, pid=10 + a.rank, tid=self.tid, ts=start, dur=round(self.host - start, 3), args=args)

    def span(self, name, start, cat="user_annotation"):
        out.event(ph="X", cat=cat, name=name, pid=10 + a.rank, tid=self.tid, ts=round(start, 3), dur=round(self.host - start, 3), args={})

    def allocate(self, size):
        self.memory += size
        out.event(ph="i", s="t", cat="cpu_instant_event", name="[memory]", pid=10 + a.rank, tid=self.tid, ts=self.now(),
                  args={"Addr": 1, "Bytes": int(size), "Total Allocated": int(self.memory), "Total Reserved": int(1.1 * self.memory),
                        "Device Type": 1, "Device Id": a.rank})


def contiguous(dims):
    strides, step = [], 1
    for d in reversed(dims):
        strides.insert(0, step)
        step *= d
    return strides


m = Machine()
m.tid = 1


def mm(rows, n, k, layout="NT"):
    """layout NT: a linear layer's forward; NN: the gradient of its input; TN: of its weight."""
    left = [[k, 1], [1, rows]][layout == "TN"]
    right = [[n, 1], [1, k]][layout == "NT"]
    m.op("aten::mm", [[rows, k], [k, n]], "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_" + layout, 2 * rows * n * k / GEMM + 2, strides=[left, right])


def passes(op, tensors, kernel, width=2):
    m.op(op, tensors, "void at::native::vectorized_elementwise_kernel<4, at::native::" + kernel + ">(int)",
         width * (sum(product(t) for t in tensors) + product(tensors[0])) / MEMORY + 1,
         types=["c10::BFloat16" if width == 2 else "float" for t in tensors])


def product(dims):
    result = 1
    for d in dims:
        result *= d
    return result


def linears():
    kv = a.kv_heads * HEAD
    return [("q", a.hidden, a.hidden), ("k", kv, a.hidden), ("v", kv, a.hidden), ("o", a.hidden, a.hidden),
            ("gate", a.ffn, a.hidden), ("up", a.ffn, a.hidden), ("down", a.hidden, a.ffn)]


def norm(times=1):
    wide = [a.batch, a.seq, a.hidden]
    for _ in range(times):
        passes("aten::copy_", [wide, wide], "direct_copy_kernel_cuda", 2)
        passes("aten::mul", [wide, wide], "BinaryFunctor<MulFunctor>", 4)
        passes("aten::rsqrt", [wide[:2] + [1]], "rsqrt_kernel_cuda", 4)
        passes("aten::mul", [wide, wide], "BinaryFunctor<MulFunctor>", 4)
        passes("aten::mul", [wide, wide], "BinaryFunctor<MulFunctor>", 2)


def attention(backward=False):
    q = [a.batch, a.heads, a.seq, HEAD]
    flops = 4 * a.batch * a.heads * a.seq * a.seq * HEAD * 0.5 * (2.5 if backward else 1)
    if backward:
        m.op("aten::_flash_attention_backward", [[a.batch, a.seq, a.heads, HEAD]] + [[a.batch, a.seq, a.heads, HEAD]] * 5,
             "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", flops / (0.5 * GEMM), concrete=[""] * 11 + ["True"])
    else:
        m.op("aten::_flash_attention_forward", [[a.batch, a.seq, a.heads, HEAD]] * 3, "void pytorch_flash::flash_fwd_kernel",
             flops / (0.6 * GEMM), concrete=[""] * 8 + ["True", "False"])


def layer_forward():
    m.allocate(34.0 * TOKENS * a.hidden)
    wide = [a.batch, a.seq, a.hidden]
    norm()
    for name, n, k in linears()[:3]:
        mm(TOKENS, n, k)
    passes("aten::mul", [wide, wide], "BinaryFunctor<MulFunctor>")  # rotary
    attention()
    mm(TOKENS, a.hidden, a.hidden)
    passes("aten::add", [wide, wide], "CUDAFunctor_add")
    norm()
    for name, n, k in linears()[4:6]:
        mm(TOKENS, n, k)
    passes("aten::silu", [[TOKENS, a.ffn]], "silu_kernel")
    passes("aten::mul", [[TOKENS, a.ffn], [TOKENS, a.ffn]], "BinaryFunctor<MulFunctor>")
    mm(TOKENS, a.hidden, a.ffn)
    passes("aten::add", [wide, wide], "CUDAFunctor_add")


def node(name, work):
    start = m.host
    m.host += 2
    work()
    m.span("autograd::engine::evaluate_function: " + name, start, "cpu_op")


def linear_backward(n, k):
    mm(TOKENS, k, n, "NN")
    mm(n, k, TOKENS, "TN")


def all_reduce(elements):
    us = 4 * elements * (2 * (a.ranks - 1) / a.ranks) / LINK + 12
    ident = m.ident
    m.ident += 1
    start = m.host
    m.host += 5
    m.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", us, 20, ident,
             {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float",
              "Group size": a.ranks, "Process Group Name": "0", "Process Group Description": "default_pg"})
    m.span("nccl:all_reduce", start, "user_annotation")


def layer_backward():
    wide = [a.batch, a.seq, a.hidden]
    for name, n, k in linears()[:3:-1]:
        node("MmBackward0", lambda: linear_backward(n, k))
        if name == "down":
            node("MulBackward0", lambda: passes("aten::mul", [[TOKENS, a.ffn], [TOKENS, a.ffn]], "BinaryFunctor<MulFunctor>"))
            node("SiluBackward0", lambda: passes("aten::silu_backward", [[TOKENS, a.ffn], [TOKENS, a.ffn]], "silu_backward_kernel"))
    node("RsqrtBackward0", lambda: norm(2))
    node("MmBackward0", lambda: linear_backward(a.hidden, a.hidden))
    node("FlashAttentionBackward0", lambda: attention(True))
    node("MulBackward0", lambda: passes("aten::mul", [wide, wide], "BinaryFunctor<MulFunctor>"))
    for name, n, k in linears()[2::-1]:
        node("MmBackward0", lambda: linear_backward(n, k))
    node("RsqrtBackward0", lambda: norm(2))
    m.allocate(-34.0 * TOKENS * a.hidden)
    if a.ranks > 1:
        node("torch::autograd::AccumulateGrad", lambda: all_reduce(sum(n * k for _, n, k in linears())))


def train(step):
    begin = m.host
    m.tid = 1
    passes("aten::mul", [[a.batch, a.seq, a.hidden], [a.batch, a.seq, a.hidden]], "BinaryFunctor<MulFunctor>")
    for _ in range(a.layers):
        layer_forward()
    norm()
    mm(TOKENS, a.vocab, a.hidden)
    m.op("aten::_log_softmax", [[TOKENS, a.vocab]], "void cunn_SoftMaxForward", 8 * TOKENS * a.vocab / MEMORY, types=["float"])
    main = m.tid
    m.tid = 2
    m.host += 30
    node("LogSoftmaxBackward0", lambda: m.op("aten::mul", [[TOKENS, a.vocab], [TOKENS, a.vocab]], "void cunn_SoftMaxBackward",
                                             8 * TOKENS * a.vocab / MEMORY, types=["float", "float"]))
    node("MmBackward0", lambda: linear_backward(a.vocab, a.hidden))
    node("RsqrtBackward0", lambda: norm(2))
    for _ in range(a.layers):
        layer_backward()
    if a.ranks > 1:
        node("torch::autograd::AccumulateGrad", lambda: all_reduce(2 * a.vocab * a.hidden))
    m.tid = main
    m.host += 20
    m.compute = max(m.compute, m.network)
    start = m.host
    weights = 2 * a.vocab * a.hidden + a.layers * sum(n * k for _, n, k in linears())
    m.op("aten::_fused_adamw_", [[], [], [], []], "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", 26 * weights / MEMORY,
         types=["TensorList"] * 4)
    m.span("Optimizer.step#AdamW.step", start)
    wait = m.now()
    m.host = max(m.host + 5, m.compute + 4)
    out.event(ph="X", cat="cuda_runtime", name="cudaStreamSynchronize", pid=10 + a.rank, tid=1, ts=wait, dur=round(m.host - wait, 3),
              args={"cbid": 131, "correlation": m.correlation})
    m.correlation += 1
    m.host += 15
    m.span(f"ProfilerStep#{step}", begin)


step = 0
while (out.size < a.bytes) if a.bytes else (step < a.steps):
    train(step)
    step += 1
out.close()
