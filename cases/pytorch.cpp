#include "cases/pytorch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "model/errors.h"
#include "model/files/csv.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

constexpr const char* default_cluster = "h200-x1";

bool holds(const std::vector<std::string>& header, std::initializer_list<const char*> columns) {
    return std::all_of(columns.begin(), columns.end(), [&](const char* column) {
        return std::find(header.begin(), header.end(), column) != header.end();
    });
}

bool holds_steps(const std::vector<std::string>& header) {
    return holds(header, {"case_id", "attention", "optimizer", "forward_s", "backward_s", "optimizer_s", "step_s"});
}
bool holds_layers(const std::vector<std::string>& header) {
    return holds(header, {"experts", "tokens", "d", "h", "top_k", "gate", "forward_s", "backward_s"});
}

// One row under the names of the header.
class Row {
public:
    explicit Row(const CsvReader& csv, const std::map<std::string, std::size_t>& columns)
        : csv_(csv), columns_(columns) {}

    [[nodiscard]] std::string text(const std::string& column) const {
        const auto at = columns_.find(column);
        return at == columns_.end() ? "" : csv_.fields()[at->second];
    }
    template <typename Parse>
    auto read(const std::string& column, Parse parse) const {
        try {
            return parse();
        } catch (const ConfigError& error) {
            csv_.fail(column + ": " + error.what());
        }
    }
    [[nodiscard]] int count(const std::string& column) const {
        return read(column, [&] { return csv_int(text(column), 1); });
    }
    [[nodiscard]] double positive(const std::string& column) const {
        const double value = read(column, [&] { return csv_number(text(column)); });
        if (!(value > 0)) csv_.fail(column + ": \"" + text(column) + "\" is not above 0; expected a measured value");
        return value;
    }
    [[nodiscard]] Seconds time(const std::string& column) const { return Seconds(positive(column)); }
    [[nodiscard]] std::string where() const { return csv_.path() + ":" + std::to_string(csv_.line()); }

private:
    const CsvReader& csv_;
    const std::map<std::string, std::size_t>& columns_;
};

Experiment script_on(const Cluster& cluster) {
    Experiment e;
    e.cluster = cluster;
    e.parallelism.eager_script = true;
    return e;
}

// The GPT of the script: pre-norm, biases but for the logits, learned positions, untied.
Workload workload_of(const Row& row) {
    Workload w;
    w.kind = Workload::Kind::transformer;
    w.name = row.text("case_id");
    w.layers = row.count("layers");
    w.hidden = row.count("hidden");
    w.heads = row.count("heads");
    w.ffn = row.count("ffn");
    w.vocab = row.count("vocab");
    w.seq = row.count("seq");
    w.tied = false;
    w.dtype = row.read("dtype", [&] { return parse_name<Dtype>(row.text("dtype")); });
    w.attention = row.read("attention", [&] { return parse_name<AttentionKind>(row.text("attention")); });
    w.causal = w.attention != AttentionKind::plain;
    w.fused_loss = false;
    w.optimizer = Optimizer::adam;
    if (const std::string found = row.text("optimizer"); found != "adamw-fused")
        throw ConfigError("optimizer: \"" + found + "\" is not modelled; expected adamw-fused");
    return w;
}

Case step_of(const Row& row, const Cluster& cluster) {
    Case c;
    c.experiment = script_on(cluster);
    c.experiment.workload = workload_of(row);
    c.experiment.parallelism.micro_batch = c.experiment.parallelism.global_batch = row.count("batch");
    check_experiment(c.experiment);
    c.measured_step = row.time("step_s");
    c.measured_forward = row.time("forward_s");
    c.measured_backward = row.time("backward_s");
    c.measured_phases = {{"optimizer", -1, row.time("optimizer_s")}};
    if (!row.text("peak_bytes").empty()) c.measured_peak = Bytes(row.positive("peak_bytes"));
    return c;
}

Case layer_of(const Row& row, const Cluster& cluster) {
    Case c;
    Experiment& e = c.experiment = script_on(cluster);
    e.workload.kind = Workload::Kind::moe_layer;
    e.workload.moe.experts = row.count("experts");
    e.workload.moe.top_k = row.count("top_k");
    e.workload.seq = row.count("tokens");
    e.workload.hidden = row.count("d");
    e.workload.ffn = row.count("h");
    e.workload.dtype = Dtype::fp16;
    e.routing.kind = RoutingSpec::Kind::file;
    const auto folder = std::filesystem::path(row.where()).parent_path();
    e.routing.file =
        fmt::format("{}#{}/{}", (folder / "moe_routing.csv").string(), e.workload.moe.experts, row.text("gate"));
    check_experiment(e);
    c.measured_forward = row.time("forward_s");
    c.measured_backward = row.time("backward_s");
    c.measured_step = *c.measured_forward + *c.measured_backward;  // medians of either; the table has none of the sum
    c.x = e.workload.moe.experts;
    return c;
}

Comparison comparison_of(const Row& row, const Cluster& cluster, bool layers) {
    Comparison found;
    Case& what = found.what;
    const std::string id = layers ? fmt::format("moe {} experts {}", row.text("experts"), row.text("gate"))
                                  : fmt::format("{} b{}{} {} {}", row.text("case_id"), row.text("batch"),
                                                row.text("seq") == "1024" ? "" : " s" + row.text("seq"),
                                                row.text("dtype"), row.text("attention"));
    if (row.text("forward_s") == "oom") {
        found.refused_because = row.where() + ": forward_s: ran out of memory when measured; no step to compare with";
    } else {
        try {
            what = layers ? layer_of(row, cluster) : step_of(row, cluster);
        } catch (const ConfigError& error) {
            const std::string text = error.what();
            found.refused_because = text.starts_with(row.where()) ? text : row.where() + ": " + text;
        }
    }
    what.rows = {row_hash([&](std::string_view column) { return row.text(std::string(column)); })};
    what.source = "pytorch";
    what.case_id = what.experiment.name = id;
    what.series = layers ? "moe " + row.text("gate") : row.text("case_id");
    return found;
}

}  // namespace

bool holds_pytorch_steps(const std::vector<std::string>& header) { return holds_steps(header) || holds_layers(header); }

std::vector<Comparison> comparisons_of_pytorch(const std::string& path, const std::string& cluster_name) {
    const Cluster cluster = read_cluster(cluster_name.empty() ? default_cluster : cluster_name);
    CsvReader csv(path);
    if (!csv.next() || !holds_pytorch_steps(csv.fields())) csv.fail("expected a table of PyTorch steps or MoE layers");
    const bool layers = holds_layers(csv.fields());
    std::map<std::string, std::size_t> columns;
    for (std::size_t i = 0; i < csv.fields().size(); ++i) columns[csv.fields()[i]] = i;
    std::vector<Comparison> found;
    while (csv.next()) {
        csv.expect_fields(columns.size());
        found.push_back(comparison_of(Row(csv, columns), cluster, layers));
    }
    return found;
}

}  // namespace stepcast
