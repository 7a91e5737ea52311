// Reads the CSV forms of published tables of kernels and collectives (GEMMs, NCCL operations, MoE
// layers and others) and keeps the rows of one device. fit_tables.h fits the device's constants to
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/graph/op.h"
#include "model/records/collective_row.h"
#include "sim/costs/attention_law.h"
#include "sim/costs/cast_law.h"

namespace stepcast {

// The kinds of files that `calibrate --measurements` takes, recognised by their header.
enum class TableKind : std::uint8_t {
    samples,
    gemms,
    collectives,
    moe_layers,
    attentions,
    casts,
    exchanges,
    cases,
    batches,
    passes,
    launches,
    environment
};
TableKind kind_of_table(const std::string& path);  // throws ConfigError naming the known headers

// Every row struct has `row`, the hash of the row's content (model/records/provenance.h). `groups`
// > 1: one kernel computes that many GEMMs of m rows each. `between_events`: a script timed one
// call by a pair of events; a short kernel's time then includes waiting for the call.
struct GemmRow {
    Gemm gemm;
    int groups = 1;
    Seconds time;
    bool between_events = false;
    bool sustained = false;  // repeated for about a second
    // between other kernels, on operands that no cache holds: as steps run it
    bool in_steps = false;
    // all weights have one value: the GPU takes less power and runs at a higher clock
    bool uninitialised = false;
    bool casts = false;          // narrow dtype: the time includes the cast of the input
    bool scaled_blocks = false;  // one scale per 128 elements instead of one per tensor
    // with scaled_blocks: its release reorders the scales by a kernel of its own
    // (model/presets/sources.toml)
    bool layout_apart = false;
    RowHash row = 0;
    friend bool operator==(const GemmRow&, const GemmRow&) = default;
};

// Dispatch or combine of an expert layer's tokens, timed alone. `kernels` is named as in the
// cluster's keys: "dispatch", "dispatch_low_latency" and so on. `bytes`: of one token, with its
// scales. `even`: tokens go to the ranks in turn, else to random experts.
struct ExchangeRow {
    std::string op, kernels;
    int ranks = 0, nodes = 0, top_k = 0, experts = 0, sms = 0;
    double tokens = 0;  // of one rank
    Bytes bytes;
    Seconds time;
    bool even = false;
    RowHash row = 0;
    friend bool operator==(const ExchangeRow&, const ExchangeRow&) = default;
};

// Forward of one MoE layer on one rank that holds experts / ep of the experts: gate and up
// projections, activation, down projection.
struct MoeLayerRow {
    long tokens = 0, hidden = 0, ffn = 0;
    int top_k = 0, experts = 0, ep = 1, tp = 1;
    // exponent of the density of the experts' loads (RoutingSpec::Kind::power_law); 0: balanced
    double skew = 0;
    Dtype dtype = Dtype::bf16;
    Seconds time;
    std::string implementation = {};  // dtype and kernels as the table names them
    double weight_bytes = 2;
    RowHash row = 0;
    // its framework's package has tile sizes that were searched for this shape
    // (model/presets/sources.toml)
    bool tuned = false;
    friend bool operator==(const MoeLayerRow&, const MoeLayerRow&) = default;
};

// `kind`: "attention", "encoder_attention", "mla_attention".
struct AttentionRow {
    std::string kind, kernel;
    AttentionShape shape;
    Seconds time;
    RowHash row = 0;
    // for a kernel that a compiler generated for the device: the word that says so
    // (model/presets/sources.toml)
    std::string compiler = {};
    friend bool operator==(const AttentionRow&, const AttentionRow&) = default;
};

struct CastRow {
    std::string implementation;
    long rows = 0, width = 0;
    CastScale scale = CastScale::given;
    Seconds time;
    RowHash row = 0;
    // timed alone, beside the product that follows it; `row` is then the product's hash
    bool of_product = false;
    friend bool operator==(const CastRow&, const CastRow&) = default;
};

// Any other kernel, or any kernel or collective as it ran inside the steps of a traced job
// (script_tables.h). `kind`: "memory_pass", "rows", "batched_gemm" or "attention"; of a traced one
// the class of work whose constant it tells. `call`: the function that the script called.
struct KernelRow {
    std::string kind, call;
    Op op;
    Seconds time;
    RowHash row = 0;
    bool between_events = true;  // false: timed by a profiler (column timer = kernel)
    double calls = 1;            // traced ones
    int ranks = 0;               // of a collective
    friend bool operator==(const KernelRow&, const KernelRow&) = default;
};

// Time per call of one way (`kind`) to launch an empty kernel, over many calls.
struct LaunchRow {
    std::string kind;
    int calls = 0;
    Seconds time;
    RowHash row = 0;
    friend bool operator==(const LaunchRow&, const LaunchRow&) = default;
};

struct BuildingBlocks {
    std::vector<GemmRow> gemms;
    std::vector<KernelRow> kernels, traced;
    std::vector<LaunchRow> launches;
    std::vector<CollectiveRow> collectives;
    std::vector<ExchangeRow> exchanges;
    std::vector<MoeLayerRow> moe_layers;
    std::vector<AttentionRow> attentions;
    std::vector<CastRow> casts;
    std::vector<std::string> devices;  // devices of rows that were left out, each once
    int other_device_rows = 0;
    // operations that no cost law describes, and dtypes that the device has no rate for
    int other_op_rows = 0;
    int upper_bound_rows = 0;  // collectives of which only one rank was traced
    int unstated_rows = 0;     // rows without a size or time
    // collectives between nodes of a part of the nodes' ranks: left out before the fit
    int part_nodes_rows = 0;
};

// Whether a `gpu` cell names this device: gpu.name or one of gpu.aliases, apart from case, blanks,
// dashes and a leading "NVIDIA".
bool names_device(std::string_view cell, const Gpu& gpu);

// The collective as an op over `ranks` ranks; nullopt for a name that is no collective.
std::optional<Op> collective_op(std::string_view op, Bytes bytes, int ranks, bool in_switch = true);
// The factor from payload rate to "bus bandwidth" in nccl-tests: the bytes that one rank sends or
// receives, relative to the payload.
double bus_factor(std::string_view op, int ranks);

// Adds the rows of `gpu`'s device. A file without a column `gpu` counts as this device's. A time
// comes from `time_us` or from `value` and `unit` (TFLOP/s, ms, us). Throws ConfigError with
// file:line for a bad row or a file that is no building-block table. `traced`: rows of a profile's
// tables are work inside steps (for a fit), or single kernels like those of any table (for
// compare).
enum class TracedRows : std::uint8_t { in_steps, as_kernels };
void read_building_blocks(const std::string& path, const Gpu& gpu, BuildingBlocks& blocks,
                          TracedRows traced = TracedRows::in_steps);

}  // namespace stepcast
