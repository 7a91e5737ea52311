#include "calibrate/building_blocks.h"

#include <algorithm>

#include <fmt/format.h>

#include "calibrate/atlas_tables.h"
#include "calibrate/exchange_tables.h"
#include "calibrate/script_tables.h"
#include "calibrate/traced_tables.h"
#include "import/profiles/table_words.h"
#include "model/base/characters.h"
#include "model/base/csv.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "model/base/units.h"

namespace stepcast {
namespace {

using Names = std::vector<std::string>;

// The columns by which a kind of table is known; of several kinds that a header has, the first.
struct KnownTable {
    TableKind kind;
    std::initializer_list<const char*> columns;
    const char* missing = nullptr;  // a column that it does not have
};
const KnownTable known_tables[] = {
    {TableKind::cases, {"step_s", "gpus"}},
    {TableKind::cases, {"step_s", "model"}},
    {TableKind::samples, {"run_id", "phase", "step", "value"}},
    {TableKind::attentions, {"batch", "heads", "head_dim", "seq_q", "kernel", "time_us"}},
    {TableKind::casts, {"rows", "width", "granularity", "time_us"}},
    {TableKind::moe_layers, {"num_tokens", "hidden", "inter", "topk", "experts"}},
    {TableKind::exchanges, {"op", "tokens_per_rank", "hidden", "topk", "experts", "time_us"}},
    {TableKind::batches, {"batch", "m", "n", "k", "dtype", "time_us"}, "op"},
    {TableKind::passes, {"kind", "bytes", "time_us"}},
    {TableKind::launches, {"kind", "calls", "time_us_per_call"}},
    {TableKind::gemms, {"m", "n", "k", "time_us"}},
    {TableKind::gemms, {"m", "n", "k", "value", "unit"}},
    {TableKind::collectives, {"op", "ranks", "nodes", "bytes", "time_us"}},
    {TableKind::collectives, {"op", "ranks", "nodes", "bytes", "value", "unit"}}};

TableKind kind_of(const CsvReader& reader) {
    const Names& header = reader.fields();
    if (header == Names{"key", "value"}) return TableKind::environment;
    for (const KnownTable& table : known_tables)
        if (has_columns(header, table.columns) &&
            !(table.missing && has_columns(header, {table.missing})))
            return table.kind;
    reader.fail("found header \"" + reader.fields().front() + ",..\" of " +
                std::to_string(header.size()) +
                " columns; expected GEMMs (m,n,k,groups,dtype,time_us), collectives "
                "(op,ranks,nodes,bytes,time_us), MoE "
                "layers (num_tokens,hidden,inter,topk,experts,..), dispatch and combine "
                "(op,tokens_per_rank,hidden,topk,experts,time_us), kernels of a script "
                "(docs/files.md), cases "
                "(docs/files.md) or imported measurements");
}

// An "fp32" after the arrow means that C is fp32.
bool fp32_result(const std::string& cell) {
    return cell.ends_with("-> fp32") && !cell.starts_with("fp32");
}

Gemm::Layout layout_of(const TableRow& row) {
    const std::string text = row.text("layout");
    const auto* const found = std::ranges::find(layout_names, text);
    if (found == std::end(layout_names))
        row.fail("layout", "found \"" + text + "\"; expected NT, NN or TN");
    return static_cast<Gemm::Layout>(found - layout_names);
}

// Rows of GEMMs by the column op.
struct GemmKind {
    std::string_view op;
    bool sustained, casts;
};
constexpr GemmKind gemm_kinds[] = {{"gemm", false, false},
                                   {"cast_gemm", false, true},
                                   {"sustained_gemm", true, false},
                                   {"sustained_cast_gemm", true, true}};

GemmRow gemm_of(const TableRow& row, const GemmKind& kind, const std::vector<SourceRow>& layouts) {
    GemmRow found;
    found.sustained = kind.sustained;
    found.uninitialised = kind.sustained && row.text("implementation").starts_with("vLLM");
    found.casts = kind.casts;
    const std::string dtype = row.text("dtype");
    found.gemm = {row.integer("m"),
                  row.integer("n"),
                  row.integer("k"),
                  1,
                  row.read("dtype", [&] { return operand_dtype(dtype); }),
                  fp32_result(dtype)};
    found.scaled_blocks = has(dtype, "128-wide");
    found.layout_apart =
        found.scaled_blocks && std::ranges::any_of(layouts, [&](const SourceRow& release) {
            return release.at("kernels") == row.text("implementation");
        });
    if (!row.text("groups").empty()) found.groups = row.integer("groups", 1);
    if (row.has("layout")) {
        found.between_events = row.text("timer") != "kernel";
        if (!row.text("layout").empty()) found.gemm.layout = layout_of(row);
    }
    found.in_steps = row.has("timer") && row.text("timer") == "step";
    found.gemm.alignment = alignment_of(found.gemm);
    found.time = row.time(found.groups * flops_of(found.gemm));
    found.row = row.hash();
    return found;
}

void add_gemm(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks,
              const std::vector<SourceRow>& layouts) {
    const std::string op = row.has("op") ? row.text("op") : "gemm";
    const auto* const kind = std::ranges::find(gemm_kinds, op, &GemmKind::op);
    if (kind == std::end(gemm_kinds)) return void(++blocks.other_op_rows);
    const GemmRow found = gemm_of(row, *kind, layouts);
    if (!has_rate(gpu, found.gemm.dtype)) return void(++blocks.other_op_rows);
    blocks.gemms.push_back(found);
    if (found.casts && !found.scaled_blocks && row.has("cast_us") && !row.text("cast_us").empty())
        blocks.casts.push_back({row.text("implementation"), found.gemm.m, found.gemm.k,
                                CastScale::tensor, Seconds(1e-6 * row.positive("cast_us")),
                                found.row, true});
}

// "NCCL 2.29.2 (nccl-tests)" -> 2, 29, 2; empty if the text does not begin with the library's name.
std::vector<int> release_in(const std::string& text, const std::string& library) {
    std::vector<int> numbers;
    if (!text.starts_with(library + ' ')) return numbers;
    const std::string release = text.substr(library.size() + 1);
    for (const std::string& number :
         words_of(release.substr(0, release.find_first_not_of("0123456789.")), "."))
        numbers.push_back(as_number<int>(number).value_or(0));
    return numbers;
}

// exchange_small of the latest [[release]] that is no newer than the row's.
std::optional<Bytes> small_message(const TableRow& row, const std::vector<SourceRow>& releases) {
    std::optional<Bytes> small;
    if (!row.has("implementation")) return small;
    const std::string text = row.text("implementation");
    for (const SourceRow& release : releases) {
        const std::string &library = release.at("library"), since = release.at("since");
        const std::vector<int> found = release_in(text, library);
        if (!found.empty() && found >= release_in(library + ' ' + since, library))
            small = parse_bytes(release.at("exchange_small"));
    }
    return small;
}

void add_collective(const TableRow& row, const std::vector<SourceRow>& releases,
                    BuildingBlocks& blocks) {
    if (!collective_op(row.text("op"), Bytes(0), 1)) return void(++blocks.other_op_rows);
    if (row.text("bytes").empty() || (row.has("time_us") && row.text("time_us").empty()))
        return void(++blocks.unstated_rows);
    CollectiveRow found{row.text("op"), row.integer("ranks"), row.integer("nodes", 1), {}, {}};
    found.in_switch = row.text("dtype") != "int8";
    found.small = small_message(row, releases);
    found.bytes = Bytes(row.positive("bytes"));
    found.time = row.time(Flops(0));
    found.row = row.hash();
    if (found.ranks < 2 || found.ranks % found.nodes != 0)
        row.fail("ranks",
                 fmt::format("{} ranks on {} nodes; expected two or more, as many on every node",
                             found.ranks, found.nodes));
    blocks.collectives.push_back(found);
}

std::string plain_name(std::string_view text) {
    std::string plain;
    for (const char c : text)
        if (c != ' ' && c != '-' && c != '_') plain += lower_case(c);
    if (plain.starts_with("nvidia")) plain.erase(0, 6);
    // drivers name early data centre GPUs "Tesla"
    if (plain.starts_with("tesla")) plain.erase(0, 5);
    return plain;
}

}  // namespace

TableKind kind_of_table(const std::string& path) {
    CsvReader reader(path);
    find_header(reader);
    return kind_of(reader);
}

bool names_device(std::string_view cell, const Gpu& gpu) {
    const std::string wanted = plain_name(cell);
    if (wanted == plain_name(gpu.name)) return true;
    return std::ranges::any_of(words_of(gpu.aliases), [&](const std::string& alias) {
        return plain_name(alias) == wanted;
    });
}

std::optional<Op> collective_op(std::string_view op, Bytes bytes, int ranks, bool in_switch) {
    if (op == "all_reduce") return AllReduce{bytes, in_switch};
    if (op == "all_gather") return AllGather{bytes};
    if (op == "reduce_scatter") return ReduceScatter{bytes};
    if (op == "broadcast") return Broadcast{bytes, 0};
    if (op == "reduce") return Reduce{bytes, 0};
    if (op != "all_to_all") return std::nullopt;
    const auto n = as_index(ranks);
    return AllToAll{std::vector<Bytes>(n * n, bytes / ranks)};
}

double bus_factor(std::string_view op, int ranks) {
    const double others = (ranks - 1.0) / ranks;
    if (op == "all_reduce") return 2 * others;
    return op == "all_gather" || op == "reduce_scatter" || op == "all_to_all" ? others : 1;
}

void read_building_blocks(const std::string& path, const Gpu& gpu, BuildingBlocks& blocks,
                          TracedRows traced) {
    CsvReader reader(path);
    find_header(reader);
    const TableKind kind = kind_of(reader);
    if (kind == TableKind::samples || kind == TableKind::cases)
        throw ConfigError(path + ":1: steps of a job; expected a table of kernels or collectives");
    TableRow row(reader);
    Shelf shelf;
    while (row.next()) {
        if (row.has("gpu") && !names_device(row.text("gpu"), gpu)) {
            ++blocks.other_device_rows;
            put(blocks.devices, row.text("gpu"));
            continue;
        }
        if (traced == TracedRows::in_steps && is_traced(kind, row)) {
            add_traced_row(kind, row, gpu, blocks);
            continue;
        }
        if (kind == TableKind::gemms) add_gemm(row, gpu, blocks, shelf.sources("scale_layout"));
        if (kind == TableKind::collectives) add_collective(row, shelf.sources("release"), blocks);
        if (kind == TableKind::attentions)
            add_attention(row, gpu, blocks, shelf.sources("compiler"));
        if (kind == TableKind::casts) add_cast(row, blocks);
        if (kind == TableKind::moe_layers) add_moe_layer(row, gpu, blocks, shelf.sources("tuned"));
        if (kind == TableKind::exchanges) add_exchange(row, blocks);
        add_script_row(kind, row, gpu, blocks);
    }
}

}  // namespace stepcast
