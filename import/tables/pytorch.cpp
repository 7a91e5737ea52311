#include "import/tables/pytorch.h"

#include <filesystem>

#include <fmt/format.h>

#include "import/tables/shelf.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/check_experiment.h"
#include "model/records/table_row.h"
#include "sim/results/comparison.h"

namespace stepcast {
namespace {

bool holds_steps(const std::vector<std::string>& header) {
    return has_columns(header, {"case_id", "attention", "optimizer", "forward_s", "backward_s",
                                "optimizer_s", "step_s"});
}
bool holds_layers(const std::vector<std::string>& header) {
    return has_columns(header,
                       {"experts", "tokens", "d", "h", "top_k", "gate", "forward_s", "backward_s"});
}

Experiment script_on(const Cluster& cluster) {
    Experiment e;
    e.cluster = cluster;
    // the script has one rank, whatever the cluster has
    e.cluster.nodes = e.cluster.gpus_per_node = 1;
    e.runtime.kernels = KernelStyle::script;
    return e;
}

// The GPT of the script: pre-norm, biases everywhere except in the logits, learned positions,
// untied embedding.
Workload workload_of(const TableRow& row) {
    Workload w;
    w.kind = Workload::Kind::transformer;
    w.name = row.text("case_id");
    w.layers = row.integer("layers");
    w.hidden = row.integer("hidden");
    w.heads = row.integer("heads");
    w.ffn = row.integer("ffn");
    w.vocab = row.integer("vocab");
    w.seq = row.integer("seq");
    w.tied = false;
    w.dtype = row.read("dtype", [&] { return parse_name<Dtype>(row.text("dtype")); });
    w.optimizer = Optimizer::adam;
    if (const std::string found = row.text("optimizer"); found != "adamw-fused")
        throw ConfigError("optimizer: \"" + found + "\" is not modelled; expected adamw-fused");
    return w;
}

Case step_of(const TableRow& row, const Cluster& cluster) {
    Case c;
    c.experiment = script_on(cluster);
    c.experiment.workload = workload_of(row);
    c.experiment.runtime.attention =
        row.read("attention", [&] { return parse_name<AttentionKind>(row.text("attention")); });
    c.experiment.workload.causal = c.experiment.runtime.attention != AttentionKind::plain;
    c.experiment.runtime.loss.fused = false;
    c.experiment.parallelism.micro_batch = c.experiment.parallelism.global_batch =
        row.integer("batch");
    check_experiment(c.experiment);
    c.measured_step = Seconds(row.positive("step_s"));
    c.measured_forward = Seconds(row.positive("forward_s"));
    c.measured_backward = Seconds(row.positive("backward_s"));
    c.measured_phases = {{"optimizer", -1, Seconds(row.positive("optimizer_s"))}};
    if (!row.text("peak_bytes").empty()) c.measured_peak = Bytes(row.positive("peak_bytes"));
    return c;
}

Case layer_of(const TableRow& row, const Cluster& cluster) {
    Case c;
    Experiment& e = c.experiment = script_on(cluster);
    e.workload.kind = Workload::Kind::moe_layer;
    e.workload.moe.experts = row.integer("experts");
    e.workload.moe.top_k = row.integer("top_k");
    e.workload.seq = row.integer("tokens");
    e.workload.hidden = row.integer("d");
    e.workload.ffn = row.integer("h");
    e.workload.dtype = Dtype::fp16;
    e.routing.kind = RoutingSpec::Kind::file;
    const auto folder = std::filesystem::path(row.where()).parent_path();
    e.routing.file = fmt::format("{}#{}/{}", (folder / "moe_routing.csv").string(),
                                 e.workload.moe.experts, row.text("gate"));
    check_experiment(e);
    c.measured_forward = Seconds(row.positive("forward_s"));
    c.measured_backward = Seconds(row.positive("backward_s"));
    // both are medians; the table has no median of the sum
    c.measured_step = *c.measured_forward + *c.measured_backward;
    c.x = e.workload.moe.experts;
    return c;
}

Comparison comparison_of(const TableRow& row, const Cluster& cluster, bool layers) {
    Comparison found;
    Case& what = found.what;
    const std::string id =
        layers ? fmt::format("moe {} experts {}", row.text("experts"), row.text("gate"))
               : fmt::format("{} b{}{} {} {}", row.text("case_id"), row.text("batch"),
                             row.text("seq") == "1024" ? "" : " s" + row.text("seq"),
                             row.text("dtype"), row.text("attention"));
    if (row.text("forward_s") == "oom") {
        found.refused_because =
            row.where() + ": forward_s: ran out of memory when measured; no step to compare with";
    } else {
        try {
            what = layers ? layer_of(row, cluster) : step_of(row, cluster);
        } catch (const ConfigError& error) {
            const std::string text = error.what();
            found.refused_because =
                text.starts_with(row.where()) ? text : row.where() + ": " + text;
        }
    }
    what.cells = row.hash();
    if (found.refused_because.empty())
        what.rows = {row_hash(what.experiment, "", what.measured_step)};
    what.source = "pytorch";
    what.case_id = what.experiment.name = id;
    what.series = layers ? "moe " + row.text("gate") : row.text("case_id");
    return found;
}

}  // namespace

bool holds_pytorch_steps(const std::vector<std::string>& header) {
    return holds_steps(header) || holds_layers(header);
}

std::vector<Comparison> comparisons_of_pytorch(const std::string& path,
                                               const std::string& cluster_name) {
    const Cluster cluster = read_cluster(
        cluster_name.empty() ? Shelf().sources("script").front().at("cluster") : cluster_name);
    CsvReader csv(path);
    if (!csv.next() || !holds_pytorch_steps(csv.fields()))
        csv.fail("expected a table of PyTorch steps or MoE layers");
    const bool layers = holds_layers(csv.fields());
    TableRow row(csv);
    std::vector<Comparison> found;
    while (row.next()) found.push_back(comparison_of(row, cluster, layers));
    return found;
}

}  // namespace stepcast
