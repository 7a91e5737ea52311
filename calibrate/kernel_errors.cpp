#include "calibrate/kernel_errors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "calibrate/building_blocks.h"
#include "calibrate/fit_named_kernels.h"
#include "calibrate/fit_tables.h"
#include "model/errors.h"
#include "model/experiment.h"
#include "model/measurements.h"
#include "model/presets.h"

namespace stepcast {
namespace {

constexpr double p90 = 1.2816;          // of the normal distribution
constexpr double sigma_of_mean = 1.2533;  // standard deviation over mean absolute deviation, of the same

struct Predictable {
    std::string kind, dtype;
    FitCase what;
};

std::vector<Predictable> predictable(const BuildingBlocks& blocks, const Cluster& cluster, int& outside) {
    std::vector<Predictable> all;
    for (const GemmRow& row : blocks.gemms)
        all.push_back({row.sustained ? "sustained_gemm" : row.groups > 1 ? "grouped_gemm" : "gemm",
                       std::string(to_string(row.gemm.dtype)) + (row.scaled_blocks ? " blocks" : ""), gemm_case(row)});
    for (const AttentionRow& row : blocks.attentions)
        all.push_back({row.kind, std::string(to_string(row.shape.op.dtype)), attention_by_name(row)});
    for (const CastRow& row : blocks.casts)
        all.push_back({"cast", "bf16 -> fp8", cast_cases({row}).front()});
    for (const MoeLayerRow& row : blocks.moe_layers)
        all.push_back({"moe_layer", std::string(to_string(row.dtype)), expert_by_name(row)});
    for (const CollectiveRow& row : blocks.collectives) {
        if (row.nodes == 1 && row.ranks <= cluster.gpus_per_node)
            all.push_back({row.op, "", collective_case(row, cluster)});
        else
            ++outside;
    }
    return all;
}

// One standard deviation of the logarithm: the held-out error of the kind, else the largest of the file, else 30 %.
double spread_of(const Cluster& cluster, const std::string& kind) {
    double largest = 0;
    if (cluster.fitted)
        for (const HeldOutError& e : cluster.fitted->errors) {
            if (e.method == "fitted" || e.kind == "step") continue;
            if (e.kind == kind) return sigma_of_mean * e.mape;
            largest = std::max(largest, sigma_of_mean * e.mape);
        }
    return largest > 0 ? largest : 0.3;
}

struct Found {
    std::vector<double> errors;
    int inside = 0;
};

std::vector<std::string> devices_in(const std::string& path) {
    BuildingBlocks none;
    Gpu nobody;
    nobody.name = "no device";
    read_building_blocks(path, nobody, none);
    return none.devices;
}

std::optional<Cluster> cluster_of(const std::string& device, const std::string& wanted) {
    std::optional<Cluster> best;
    const std::vector<std::string> names = wanted.empty() ? preset_names(PresetKind::cluster) : std::vector{wanted};
    const auto samples = [](const Cluster& c) { return c.fitted ? c.fitted->samples : 0; };
    for (const std::string& name : names) {
        Cluster cluster = read_cluster(name);
        if (names_device(device, cluster.gpu) && (!best || samples(cluster) > samples(*best))) best = std::move(cluster);
    }
    return best;
}

class Errors {
public:
    void add(const std::string& path, const std::string& device, const Cluster& cluster) {
        BuildingBlocks blocks;
        read_building_blocks(path, cluster.gpu, blocks);
        int outside = blocks.other_op_rows + blocks.unstated_rows;
        for (const Predictable& p : predictable(blocks, cluster, outside)) {
            const double ratio = p.what.predict(cluster) / p.what.measured;
            Found& found = found_[{p.kind, device, p.dtype, cluster.name}];
            found.errors.push_back(ratio - 1);
            if (std::abs(std::log(ratio)) <= p90 * spread_of(cluster, p.what.kind)) ++found.inside;
        }
        if (outside > 0) refused_[{"without a law", device, "", cluster.name}] += outside;
    }
    void refuse(const std::string& device) { ++refused_[{"of no known device", device, "", ""}]; }

    [[nodiscard]] std::vector<KernelErrors> result() const {
        std::vector<KernelErrors> all;
        for (const auto& [key, found] : found_) {
            KernelErrors e{key[0], key[1], key[2], key[3]};
            e.rows = e.predicted = static_cast<int>(found.errors.size());
            std::vector<double> sizes;
            for (const double error : found.errors) {
                sizes.push_back(std::abs(error));
                e.mape += std::abs(error) / e.rows;
                e.bias += error / e.rows;
            }
            e.median_ape = median(sizes);
            e.inside_interval = static_cast<double>(found.inside) / e.rows;
            all.push_back(e);
        }
        for (const auto& [key, rows] : refused_) {
            KernelErrors e{key[0], key[1], key[2], key[3]};
            e.rows = rows;
            all.push_back(e);
        }
        return all;
    }

private:
    using Key = std::array<std::string, 4>;
    std::map<Key, Found> found_;
    std::map<Key, int> refused_;
};

}  // namespace

bool is_building_blocks(const std::string& path) {
    try {
        const TableKind kind = kind_of_table(path);
        return kind != TableKind::cases && kind != TableKind::samples;
    } catch (const ConfigError&) {
        return false;  // whoever reads it says what it lacks
    }
}

std::vector<KernelErrors> kernel_errors(const std::vector<std::string>& paths, const std::string& cluster) {
    Errors errors;
    for (const std::string& path : paths)
        for (const std::string& device : devices_in(path)) {
            if (const auto found = cluster_of(device, cluster))
                errors.add(path, device, *found);
            else
                errors.refuse(device);
        }
    return errors.result();
}

}  // namespace stepcast
