#include "calibrate/kernel_comparisons.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "calibrate/building_blocks.h"
#include "calibrate/exchange_tables.h"
#include "calibrate/named_kernels.h"
#include "calibrate/script_tables.h"
#include "calibrate/table_cases.h"
#include "import/tables/cluster.h"
#include "import/tables/row_parts.h"
#include "import/tables/shelf.h"
#include "measured/nearest.h"
#include "measured/priors.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/presets.h"
#include "model/records/provenance.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

// The devices with their numbers of rows, in the order of their first rows; "" for tables without a
// column `gpu`. Cells that differ only in case, blanks and the maker name the same device.
std::vector<std::pair<std::string, int>> devices_in(const std::string& path) {
    CsvReader reader(path);
    find_header(reader);
    TableRow row(reader);
    std::vector<std::pair<std::string, int>> devices;
    while (row.next()) {
        const std::string gpu = row.text("gpu");
        const auto known = first_where(devices, [&](const auto& device) {
            return names_device(gpu, Gpu{.name = device.first});
        });
        if (!known)
            devices.emplace_back(gpu, 1);
        else
            ++known->second;
    }
    return devices;
}

// The preset with this GPU; if there are several, the one with the most of them, whose links are
// known, then the one fitted to most samples.
Cluster cluster_of_device(const std::string& device, Shelf& shelf) {
    const Cluster* best = nullptr;
    for (const std::string& preset : preset_names(PresetKind::cluster)) {
        const Cluster& cluster = shelf.cluster(preset);
        if (!names_device(device, cluster.gpu)) continue;
        const auto known = [](const Cluster& c) {
            return std::pair(rank_count(c), c.fitted ? c.fitted->samples : 0);
        };
        if (!best || known(cluster) > known(*best)) best = &cluster;
    }
    if (best) return *best;
    constexpr std::string_view maker = "NVIDIA ";
    try {
        return shelf.cluster(
            cluster_for(device.starts_with(maker) ? device.substr(maker.size()) : device, shelf));
    } catch (const ConfigError&) {
        throw ConfigError(
            "no shipped cluster has this GPU; expected another device, or name a cluster with "
            "--cluster");
    }
}

class Table {
public:
    Table(std::string device, Cluster cluster)
        : device_(std::move(device)), cluster_(std::move(cluster)) {
        fitted_ = fitted_rows(cluster_);
        alike_ = !cluster_.fitted && has_like_machine(cluster_);
    }

    KernelComparisons rows_of(const std::string& path) {
        Gpu gpu = cluster_.gpu;  // with the table's name for it
        gpu.name = device_;
        gpu.aliases.clear();
        BuildingBlocks blocks;
        read_building_blocks(path, gpu, blocks, TracedRows::as_kernels);
        for (const GemmRow& row : blocks.gemms) add_gemm(row);
        for (const KernelRow& row : blocks.kernels) add_kernel(row);
        for (const AttentionRow& row : blocks.attentions) add_attention(row);
        for (const CastRow& row : blocks.casts)
            if (!row.of_product) add_cast(row);
        for (const MoeLayerRow& row : blocks.moe_layers) add_layer(row);
        for (const CollectiveRow& row : blocks.collectives) add_collective(row);
        for (const ExchangeRow& row : blocks.exchanges) add_exchange(row);
        refuse("an operation without a cost model, or a dtype that the device has no rate for",
               blocks.other_op_rows);
        refuse("no size or no time", blocks.unstated_rows);
        if (!blocks.launches.empty())
            refuse("a launch, which no single kernel is", as_int(blocks.launches.size()));
        for (const auto& [reason, rows] : refused_)
            found_.refused.push_back({device_, reason, rows});
        return std::move(found_);
    }

private:
    void refuse(const std::string& reason, int rows = 1) {
        if (rows > 0) refused_[reason] += rows;
    }

    void add(const FitCase& c, KernelComparison row, const Cluster& machine) {
        row.kind = c.kind;
        row.device = device_.empty() ? cluster_.gpu.name : device_;
        row.cluster = cluster_.name;
        row.name = c.name;
        row.bandwidth = cluster_.gpu.memory_bandwidth;
        row.measured = c.measured;
        try {
            row.predicted = c.predict(machine);
        } catch (const ConfigError& error) {
            return refuse(error.what());
        }
        const double spread = std::exp(p90_of_normal * spread_of(c.kind));
        row.p10 = row.predicted / spread;
        row.p90 = spread * row.predicted;
        row.evidence = evidence_of({c.row}, fitted_, seen_rows());
        found_.rows.push_back(std::move(row));
    }

    // Standard deviation of the logarithm, from the kind's mean absolute error; 0 where none is
    // stated.
    [[nodiscard]] double spread_of(const std::string& kind) const {
        if (!cluster_.fitted) return transfer_spread(kind, alike_);
        for (const HeldOutError& e : cluster_.fitted->errors)
            if (e.kind == kind && e.method != "fitted") return mean_to_deviation * e.mape;
        return 0;
    }

    // Work in one dtype, with the device's peak for it.
    [[nodiscard]] KernelComparison in(Dtype dtype, Flops work, Bytes bytes = {}) const {
        KernelComparison k;
        k.dtype = to_string(dtype);
        k.work = work;
        k.peak = peak(cluster_.gpu, dtype);
        k.bytes = bytes;
        return k;
    }

    void add_gemm(const GemmRow& row) {
        const Gemm& g = row.gemm;
        const Bytes bytes =
            real(row.groups) * real(g.m * g.k + g.k * g.n + g.m * g.n) * size_of(g.dtype);
        add(gemm_case(row), in(g.dtype, row.groups * flops_of(g), bytes), cluster_);
    }

    void add_kernel(const KernelRow& row) {
        KernelComparison k;
        if (const auto* pass = std::get_if<MemoryPass>(&row.op))
            k.bytes = pass->read + pass->written;
        if (const auto* a = std::get_if<Attention>(&row.op)) k = in(a->dtype, flops_of(row.op));
        if (const auto* g = std::get_if<Gemm>(&row.op)) k = in(g->dtype, flops_of(row.op));
        add(kernel_case(row), std::move(k), cluster_);
    }

    void add_attention(const AttentionRow& row) {
        KernelComparison k = in(row.shape.op.dtype, flops_of(row.shape.op));
        k.kernel = row.kernel;
        k.stand_in = stand_in(row, cluster_);
        add(attention_by_name(row), std::move(k), cluster_);
    }

    void add_cast(const CastRow& row) {
        KernelComparison k;
        k.bytes = Bytes(3.0 * real(row.rows) * real(row.width));
        add(cast_cases({row}).front(), std::move(k), cluster_);
    }

    void add_layer(const MoeLayerRow& row) {
        const double slots = real(row.tokens) * row.top_k / row.ep;
        const auto width = row.ffn / row.tp;  // of one shard, in whole columns
        const Flops work(6 * slots * real(row.hidden) * real(width));
        const Bytes bytes = (3.0 * row.experts / row.ep * real(row.hidden * width) +
                             slots * real(2 * row.hidden + 3 * width)) *
                            size_of(row.dtype);
        KernelComparison k = in(row.dtype, work, bytes);
        k.kernel = kernel_of(row);
        k.stand_in = stand_in(row, cluster_);
        add(expert_by_name(row), std::move(k), cluster_);
    }

    void add_collective(const CollectiveRow& row) {
        const auto machine = machine_of(row, cluster_);
        if (!machine)
            return refuse(fmt::format("{} ranks on a node; {} has {}", row.ranks / row.nodes,
                                      cluster_.name, cluster_.gpus_per_node));
        KernelComparison k;
        k.bytes = row.bytes;
        k.ranks = row.ranks;
        k.bus_factor = bus_factor(row.op, row.ranks);
        add(collective_case(row, *machine), std::move(k), *machine);
    }

    void add_exchange(const ExchangeRow& row) {
        if (!has_kernels(cluster_, row))
            return refuse("dispatch kernels that this cluster has no constants of");
        KernelComparison k;
        k.bytes = row.tokens * row.bytes;
        k.ranks = row.ranks;
        k.bus_factor = 1;
        add(exchange_case(row), std::move(k), cluster_);
    }

    static constexpr double mean_to_deviation = 1.2533;  // sqrt(pi / 2)

    std::string device_;
    Cluster cluster_;
    std::vector<RowHash> fitted_;
    bool alike_ = false;  // has no fit of its own, but one of the measured machines is like it
    KernelComparisons found_;
    std::map<std::string, int> refused_;
};

// Leaves out the rows of devices for which machine_of gives nothing.
KernelComparisons comparisons_on(
    const std::string& path,
    const std::function<std::optional<Cluster>(const std::string&)>& machine_of) {
    KernelComparisons all;
    for (const auto& [device, rows] : devices_in(path)) {
        try {
            const std::optional<Cluster> machine = machine_of(device);
            if (!machine) continue;
            add(all, Table(device, *machine).rows_of(path));
        } catch (const ConfigError& error) {
            // a row that cannot be read
            if (std::string_view(error.what()).starts_with(path)) throw;
            all.refused.push_back({device, error.what(), rows});
        }
    }
    return all;
}

// The spread with which p10 .. p90 holds four fifths of the n rows and of one more future row: the
// ceil(0.8 (n + 1))-th smallest error, with few rows the largest (split conformal prediction: Vovk,
// Gammerman, Shafer 2005, chapter 2).
double spread_holding_four_fifths(std::vector<double> log_errors) {
    std::ranges::sort(log_errors);
    const std::size_t rank = (4 * (log_errors.size() + 1) + 4) / 5;
    return log_errors[std::min(rank, log_errors.size()) - 1] / p90_of_normal;
}

}  // namespace

bool holds_kernels(const std::string& path) {
    std::error_code none;
    if (!std::filesystem::is_regular_file(path, none)) return false;
    try {
        const TableKind kind = kind_of_table(path);
        return kind != TableKind::cases && kind != TableKind::samples &&
               kind != TableKind::environment;
    } catch (const ConfigError&) {
        return false;
    }
}

// A new machine may be the worst of its kind, so each class of kernels gets the spread that its
// worst predicted machine needs. Machines without a similar measured one get at least the spread of
// those with one.
TransferSpreads transfer_spreads(const KernelComparisons& transferred) {
    std::map<std::string, bool> alike;
    std::map<std::pair<std::string, std::string>, std::vector<double>> errors;
    Shelf shelf;
    for (const KernelComparison& k : transferred.rows) {
        if (!alike.contains(k.cluster))
            alike[k.cluster] = has_like_machine(shelf.cluster(k.cluster));
        errors[{k.cluster, transfer_class(k.kind)}].push_back(
            std::abs(std::log(k.predicted / k.measured)));
    }
    TransferSpreads spreads;
    for (auto& [key, of_class] : errors) {
        double& widest = (alike.at(key.first) ? spreads.alike : spreads.alone)[key.second];
        widest = std::max(widest, spread_holding_four_fifths(std::move(of_class)));
    }
    for (auto& [name, spread] : spreads.alone)
        if (const auto like = value_in(spreads.alike, name)) spread = std::max(spread, *like);
    return spreads;
}

KernelComparisons read_kernel_comparisons(const std::string& path, const std::string& cluster) {
    Shelf shelf;
    return comparisons_on(path, [&](const std::string& device) {
        if (!cluster.empty()) return shelf.cluster(cluster);
        if (device.empty())
            throw ConfigError("gpu: missing; expected a device, or name a cluster with --cluster");
        return cluster_of_device(device, shelf);
    });
}

KernelComparisons read_own_kernels(const std::string& path, const Cluster& cluster) {
    return comparisons_on(path, [&](const std::string& device) {
        return device.empty() || names_device(device, cluster.gpu) ? std::optional(cluster)
                                                                   : std::nullopt;
    });
}

KernelComparisons read_transferred_kernels(const std::string& path) {
    Shelf shelf;
    const std::vector<std::string> machines = measured_machines();
    return comparisons_on(path, [&](const std::string& device) {
        const std::string name = cluster_of_device(device, shelf).name;
        if (!contains(machines, name))
            throw ConfigError(name + " is not among the measured machines");
        return cluster_from_others(name);
    });
}

}  // namespace stepcast
