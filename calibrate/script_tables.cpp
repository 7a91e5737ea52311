#include "calibrate/table_readers.h"

#include <array>

namespace stepcast {
namespace {

using Access = MemoryPass::Access;

// What the script calls, how the kernel goes through memory, and how many of its tensors are read for one written.
struct Call {
    std::string_view name, kind;
    Access access;
    double read;
};
constexpr std::array<Call, 5> calls{{{"copy", "memory_pass", Access::stream, 1},
                                     {"add", "memory_pass", Access::stream, 2},
                                     {"gelu", "memory_pass", Access::stream, 1},
                                     {"softmax", "rows", Access::rows, 1},
                                     {"layernorm", "rows", Access::rows, 1}}};

// `bytes` counts everything that is read and written.
void add_pass(const TableRow& row, BuildingBlocks& blocks) {
    const std::string name = row.text("kind");
    for (const Call& call : calls) {
        if (call.name != name) continue;
        const Bytes bytes(row.positive("bytes"));
        const Bytes read = bytes * (call.read / (call.read + 1));
        blocks.kernels.push_back({std::string(call.kind), name,
                                  MemoryPass{read, bytes - read, call.access}, row.time(Flops(0)), row.hash(),
                                  row.text("timer") != "kernel"});
        return;
    }
    row.fail("kind", "found \"" + name + "\"; expected copy, add, gelu, softmax or layernorm");
}

// A row of attention states heads of all sequences as the batch, both lengths and the width of a head.
void add_batch(const TableRow& row, BuildingBlocks& blocks) {
    const std::string text = row.text("dtype"), flash = "-flash-causal";
    const bool attends = text.ends_with(flash);
    const Dtype dtype =
        row.read("dtype", [&] { return parse_name<Dtype>(attends ? text.substr(0, text.size() - flash.size()) : text); });
    const long batch = row.integer("batch"), m = row.integer("m"), n = row.integer("n"), k = row.integer("k");
    const Op op = attends ? Op(Attention{batch, 1, m, n, k, true, false, dtype, true})
                          : Op(Gemm{.m = m, .n = n, .k = k, .batch = batch, .dtype = dtype});
    const char* kind = attends ? "attention" : "batched_gemm";
    blocks.kernels.push_back({kind, attends ? "attention" : "bmm", op, row.time(Flops(0)), row.hash(),
                              row.text("timer") != "kernel"});
}

void add_launch(const TableRow& row, BuildingBlocks& blocks) {
    blocks.launches.push_back({row.text("kind"), row.integer("calls"),
                               row.positive("time_us_per_call") * parse_seconds("1 us"), row.hash()});
}

}  // namespace

void add_script_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks) {
    if (kind == TableKind::passes) add_pass(row, blocks);
    if (kind == TableKind::batches) add_batch(row, blocks);
    if (kind == TableKind::launches) add_launch(row, blocks);
    if (kind == TableKind::environment && row.text("key") == "gpu" && !names_device(row.text("value"), gpu))
        row.fail("gpu", "measured on \"" + row.text("value") + "\", but the cluster to start from has " + gpu.name +
                            "; expected its device");
}

}  // namespace stepcast
