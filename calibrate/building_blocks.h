// Published tables of kernels and collectives: GEMMs, NCCL operations, MoE layers. Reads their CSV forms and keeps the rows
// of one device; what they say about its constants is fit_tables.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/graph/op.h"
#include "sim/costs/attention_law.h"
#include "sim/costs/cast_law.h"

namespace stepcast {

// What a file given to `calibrate --measurements` holds, told by its header.
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

// Of every row: `row` is its content (model/records/provenance.h). `groups` > 1: one kernel over so many GEMMs of m rows each. `between_events`: timed by a pair of
// events around one call of a script, which a short kernel waits for.
struct GemmRow {
    Gemm gemm;
    int groups = 1;
    Seconds time;
    bool between_events = false;
    bool sustained = false;      // repeated for about a second
    bool uninitialised = false;  // weights of one value: less power, a higher clock
    bool casts = false;          // of a narrow dtype: the cast of the input is in the time
    bool scaled_blocks = false;  // a scale for 128 elements, not for the tensor
    bool layout_apart = false;   // of these: its release brings them into order by a kernel of its own (model/presets/sources.toml)
    RowHash row = 0;
    friend bool operator==(const GemmRow&, const GemmRow&) = default;
};

// `op` is a kind_name(); `bytes` as in model/graph/op.h: the whole result of an all-gather, the whole input of a
// reduce-scatter, and of an all-to-all what one rank holds.
struct CollectiveRow {
    std::string op;
    int ranks = 0, nodes = 0;
    Bytes bytes;
    Seconds time;
    RowHash row = 0;
    bool in_switch = true;  // a switch can add these numbers
    std::optional<Bytes> small = {};  // the longest small message of its library's release, where the row tells that
    friend bool operator==(const CollectiveRow&, const CollectiveRow&) = default;
};

// Dispatch or combine of an expert layer's tokens, timed by itself. `kernels` as the cluster's keys name them: "dispatch",
// "dispatch_low_latency", ..; `bytes` is what a token takes, with its scales. `even`: tokens spread over the ranks by turns, else
// over the experts at random.
struct ExchangeRow {
    std::string op, kernels;
    int ranks = 0, nodes = 0, top_k = 0, experts = 0, sms = 0;
    double tokens = 0;  // of a rank
    Bytes bytes;
    Seconds time;
    bool even = false;
    RowHash row = 0;
    friend bool operator==(const ExchangeRow&, const ExchangeRow&) = default;
};

// Forward of one MoE layer on one rank that holds experts / ep of the experts: gate and up, activation, down.
struct MoeLayerRow {
    long tokens = 0, hidden = 0, ffn = 0;
    int top_k = 0, experts = 0, ep = 1, tp = 1;
    double skew = 0;  // exponent of the density of the experts' loads (RoutingSpec::Kind::power_law); 0 = balanced
    Dtype dtype = Dtype::bf16;
    Seconds time;
    std::string implementation = {};  // as the table names dtype and kernels
    double weight_bytes = 2;
    RowHash row = 0;
    bool tuned = false;  // its framework's package holds tiles that were searched for this shape (model/presets/sources.toml)
    friend bool operator==(const MoeLayerRow&, const MoeLayerRow&) = default;
};

// `kind`: "attention", "encoder_attention", "mla_attention".
struct AttentionRow {
    std::string kind, kernel;
    AttentionShape shape;
    Seconds time;
    RowHash row = 0;
    std::string compiler = {};  // the word that says so, of a kernel that a compiler made for the device (model/presets/sources.toml)
    friend bool operator==(const AttentionRow&, const AttentionRow&) = default;
};

struct CastRow {
    std::string implementation;
    long rows = 0, width = 0;
    CastScale scale = CastScale::given;
    Seconds time;
    RowHash row = 0;
    bool of_product = false;  // timed alone beside the product that it precedes; `row` is the product's
    friend bool operator==(const CastRow&, const CastRow&) = default;
};

// Another kernel. `kind`: "memory_pass", "rows", "batched_gemm", "attention"; `call` what the script called.
struct KernelRow {
    std::string kind, call;
    Op op;
    Seconds time;
    RowHash row = 0;
    bool between_events = true;  // false: by a profiler (column timer = kernel)
    friend bool operator==(const KernelRow&, const KernelRow&) = default;
};

// One way of launching a kernel of nothing, many times: a call.
struct LaunchRow {
    std::string kind;
    int calls = 0;
    Seconds time;
    RowHash row = 0;
    friend bool operator==(const LaunchRow&, const LaunchRow&) = default;
};

// A kernel or collective as it ran inside the steps of a traced job (calibrate/table_readers.h): `kind` is the class whose
// constant it tells.
struct TracedRow {
    std::string kind;
    Op op;
    Seconds time;
    double calls = 1;
    RowHash row = 0;
    int ranks = 0, nodes = 0;  // of a collective
    friend bool operator==(const TracedRow&, const TracedRow&) = default;
};

struct BuildingBlocks {
    std::vector<GemmRow> gemms;
    std::vector<TracedRow> traced;
    std::vector<KernelRow> kernels;
    std::vector<LaunchRow> launches;
    std::vector<CollectiveRow> collectives;
    std::vector<ExchangeRow> exchanges;
    std::vector<MoeLayerRow> moe_layers;
    std::vector<AttentionRow> attentions;
    std::vector<CastRow> casts;
    std::vector<std::string> devices;  // of rows that were passed over, each once
    int other_device_rows = 0;
    int other_op_rows = 0;  // operations that no law here describes, and dtypes that the device has no rate for
    int upper_bound_rows = 0;  // collectives of which one rank was traced
    int unstated_rows = 0;  // size or time left empty
    int between_nodes_rows = 0;  // collectives of benchmarks that no constant here describes: left out before the fit
};

// Whether a `gpu` cell names this device: equal to gpu.name or one of gpu.aliases but for case, blanks, dashes and a
// leading "NVIDIA".
bool names_device(std::string_view cell, const Gpu& gpu);

// As an op of its ranks; nothing for names of no collective.
std::optional<Op> collective_op(std::string_view op, Bytes bytes, int ranks, bool in_switch = true);
// What nccl-tests multiplies the payload's rate by ("bus bandwidth"): what a rank sends, or receives, relative to it.
double bus_factor(std::string_view op, int ranks);

// Adds the rows of `gpu`'s device. Files without a column `gpu` are taken to be the device's. A time comes from `time_us`
// or from `value` and `unit` (TFLOP/s, ms, us). Throws ConfigError with file:line for a bad row or a file that is no
// building-block table.
// `traced`: rows of a profile's tables are work in steps (a fit), or single kernels as those of any table (compare).
enum class TracedRows : std::uint8_t { in_steps, as_kernels };
void read_building_blocks(const std::string& path, const Gpu& gpu, BuildingBlocks& blocks, TracedRows traced = TracedRows::in_steps);

}  // namespace stepcast
