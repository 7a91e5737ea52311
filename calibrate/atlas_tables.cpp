#include "calibrate/atlas_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/text_search.h"

namespace stepcast {
namespace {

// "power_law_1.2" -> 1.2; balanced -> 0.
double skew_of(const TableRow& row) {
    const std::string text = row.text("distribution"), prefix = "power_law_";
    if (text.empty() || text == "balanced") return 0;
    if (text.starts_with(prefix))
        return row.read("distribution", [&] { return csv_number(text.substr(prefix.size())); });
    row.fail("distribution", "found \"" + text + "\"; expected balanced or power_law_EXPONENT");
}

// Bytes per weight: 4-bit weights have one scale byte per 16 (nvfp4) or per 32 (mxfp4) of them.
double weight_bytes_of(const std::string& dtype, Dtype operands) {
    if (has(dtype, "mxfp4")) return 0.53;
    return operands == Dtype::fp4 ? 0.5625 : size_of(operands).si();
}

// Whether a row of [[tuned]] names the layer's kernels, device and shape (experts x width).
bool names_shape(const SourceRow& tiles, const MoeLayerRow& layer, const Gpu& gpu) {
    const std::string shape = fmt::format(" {}x{},", layer.experts, layer.ffn / layer.tp);
    return layer.implementation.starts_with(tiles.at("kernels")) &&
           has(layer.implementation, tiles.at("form")) && names_device(tiles.at("device"), gpu) &&
           (" " + tiles.at("shapes") + ",").find(shape) != std::string::npos;
}

}  // namespace

Dtype operand_dtype(const std::string& cell) {
    return parse_name<Dtype>(cell.substr(0, cell.find(' ')));
}

bool has_rate(const Gpu& gpu, Dtype dtype) { return gpu.peaks[dtype] > FlopsPerSecond(0); }

// Kernels are identified by name. An unmasked kernel and each form of a latent one count as kernels
// of their own.
AttentionRow attention_row(const TableRow& row) {
    const std::string op = row.text("op");
    AttentionRow found;
    found.kernel = row.text("kernel");
    if (op == "encoder_attention") found.kernel = "unmasked " + found.kernel;
    if (op == "mla_attention") found.kernel = "latent, " + row.text("form") + ": " + found.kernel;
    found.kind = op;
    Attention& a = found.shape.op;
    a.batch = row.integer("batch");
    a.heads = row.integer("heads");
    a.seq_q = row.integer("seq_q");
    a.seq_k = row.integer("seq_k");
    a.head_dim = row.integer("head_dim");
    if (row.has("value_dim")) a.value_dim = row.integer("value_dim");
    a.causal = row.text("causal") == "1";
    a.dtype = row.read("dtype", [&] { return operand_dtype(row.text("dtype")); });
    a.flash = true;
    found.shape.kv_heads = row.integer("kv_heads");
    if (!row.text("window").empty())
        found.shape.op.window = row.read("window", [&] { return csv_int(row.text("window"), 0); });
    found.time = row.time(Flops(0));
    found.row = row.hash();
    return found;
}

void add_attention(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks,
                   const std::vector<SourceRow>& compilers) {
    const std::string op = row.text("op");
    if (op != "attention" && op != "encoder_attention" && op != "mla_attention")
        return void(++blocks.other_op_rows);
    AttentionRow found = attention_row(row);
    for (const SourceRow& compiler : compilers)
        if (has(found.kernel, compiler.at("word"))) found.compiler = compiler.at("word");
    has_rate(gpu, found.shape.op.dtype) ? blocks.attentions.push_back(found)
                                        : void(++blocks.other_op_rows);
}

void add_cast(const TableRow& row, BuildingBlocks& blocks) {
    CastRow found;
    found.rows = row.integer("rows");
    found.width = row.integer("width");
    const std::string granularity = row.text("granularity");
    found.scale = granularity == "per row"           ? CastScale::rows
                  : row.text("op") == "cast_dynamic" ? CastScale::tensor
                                                     : CastScale::given;
    found.implementation = row.text("implementation");
    // vLLM's kernels use one thread block per row, whether or not they compute its scale.
    if (found.scale == CastScale::given && found.implementation.starts_with("vLLM"))
        found.scale = CastScale::given_rows;
    found.time = row.time(Flops(0));
    found.row = row.hash();
    blocks.casts.push_back(found);
}

void add_moe_layer(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks,
                   const std::vector<SourceRow>& tuned) {
    MoeLayerRow found;
    found.implementation = row.text("dtype") + (row.text("implementation").empty() ? "" : " ") +
                           row.text("implementation");
    found.tokens = row.integer("num_tokens");
    found.hidden = row.integer("hidden");
    found.ffn = row.integer("inter");
    found.top_k = row.integer("topk");
    found.experts = row.integer("experts");
    found.tp = row.integer("tp_in_expert", 1);
    found.ep = row.integer("ep", 1);
    found.skew = skew_of(row);
    found.dtype = row.read("dtype", [&] { return operand_dtype(row.text("dtype")); });
    found.weight_bytes = weight_bytes_of(row.text("dtype"), found.dtype);
    found.tuned = std::ranges::any_of(
        tuned, [&](const SourceRow& tiles) { return names_shape(tiles, found, gpu); });
    found.time = row.time(Flops(0));
    found.row = row.hash();
    if (found.experts % found.ep != 0)
        row.fail("ep", fmt::format("{} experts over {} ranks; expected a divisor", found.experts,
                                   found.ep));
    has_rate(gpu, found.dtype) ? blocks.moe_layers.push_back(found) : void(++blocks.other_op_rows);
}

}  // namespace stepcast
