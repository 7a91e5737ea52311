#include "cases/row_parts.h"

#include <fmt/format.h>

#include "cases/cells.h"
#include "model/errors.h"

namespace stepcast {
namespace {

int required(const CaseRow& row, const std::string& column) {
    if (const auto value = count_in(row, column)) return *value;
    throw ConfigError(column + ": missing; expected a count");
}

Workload layer_of(const CaseRow& row) {
    Workload w;
    const auto experts = count_in(row, "experts");
    w.kind = experts ? Workload::Kind::moe_layer : Workload::Kind::mlp;
    w.name = row.cell("model");
    w.layers = count_in(row, "layers", 1);
    w.hidden = required(row, "hidden");
    w.ffn = required(row, "ffn");
    // The dense layer that is compared with is as wide as the experts together.
    const auto& notes = row.cell("notes");
    if (const auto at = notes.find(" local experts"); !experts && at != std::string::npos)
        if (const auto count = number_before(notes, at)) w.ffn *= count_of(*count);
    w.seq = required(row, "seq");
    w.moe.experts = experts.value_or(0);
    w.moe.top_k = count_in(row, "topk", w.moe.top_k);
    const auto dtype = dtype_in(row.cell("precision"));
    if (!dtype) throw ConfigError("precision: \"" + row.cell("precision") + "\" names no dtype");
    w.dtype = *dtype;
    return w;
}

}  // namespace

bool is_single_layer(const CaseRow& row) { return lower_case(row.cell("model")).starts_with("single-moe-layer"); }

Case single_layer_case(const CaseRow& row, const std::string& cluster, Shelf& shelf) {
    if (contains(lower_case(row.cell("case_id")), "deepspeed"))
        throw ConfigError("case_id: dispatch by products with one-hot masks is not modelled");
    Case result;
    result.source = row.cell("source");
    result.case_id = row.cell("case_id").empty() ? fmt::format("line {}", row.line) : row.cell("case_id");
    result.series = row.cell("model");
    Experiment& e = result.experiment;
    e.name = result.case_id;
    e.workload = layer_of(row);
    const int ranks = count_in(row, "gpus", 1);
    e.cluster = cluster_of_row(row, ranks, cluster, shelf, result.assumptions);
    e.parallelism.dp = ranks;
    e.parallelism.ep = count_in(row, "ep", 1);
    e.parallelism.micro_batch = required(row, "mbs");
    e.parallelism.moe_system = MoeSystem::alltoall;
    e.parallelism.unfused = shelf.framework_of(row).unfused.value_or(false);
    e.routing.kind = RoutingSpec::Kind::uniform;
    result.assumptions.push_back(fmt::format("one layer in {}, forward and backward; tokens evenly over the experts",
                                             to_string(e.workload.dtype)));
    check_experiment(e);
    result.measured_step = measured_step(row);
    return result;
}

}  // namespace stepcast
