#include "import/launch/refused_experiments.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "import/launch/lost_keys.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/input/check_experiment.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

// Only rules between keys of workload and split matter here, so the machine just has every number
// that a machine must have.
Cluster any_machine() {
    Experiment e;
    for (const auto& [key, value] : {std::pair{"cluster.gpu.memory", "80 GB"},
                                     {"cluster.gpu.memory_bandwidth", "2 TB/s"},
                                     {"cluster.link.intra.bandwidth", "100 GB/s"},
                                     {"cluster.link.inter.bandwidth", "10 GB/s"}})
        set_key(e, {key, value});
    for (const std::string_view dtype : name_list<Dtype>)
        set_key(e, {fmt::format("cluster.gpu.peak.{}", dtype), "100 TFLOP/s"});
    return e.cluster;
}

// Without replicas of its own it gets the fewest over which the experts can be spread. False if no
// cluster has that many ranks.
bool fill_ranks(Experiment& e, bool replicas_stated) {
    Parallelism& p = e.parallelism;
    const long split = ranks_of_replica(p), of_experts = long{ranks_of_expert(e)} * p.ep * p.pp;
    const long ranks = replicas_stated ? split * p.dp : std::lcm(split, of_experts);
    if (constexpr long most = 1 << 20; ranks > most) return false;
    p.dp = as_int(ranks / split);
    e.cluster.nodes = 1;
    e.cluster.gpus_per_node = as_int(ranks);
    return true;
}

// What is missing, or depends on how many ranks there are, the import has left open.
bool left_open(const std::string& complaint, bool stated, bool replicas_stated) {
    const bool of_ranks = complaint.starts_with("parallelism:") ||
                          complaint.starts_with("parallelism.ep") ||
                          complaint.starts_with("parallelism.shard") ||
                          complaint.starts_with("parallelism.global_batch");
    return (has(complaint, ": missing") && !stated) || complaint.starts_with("cluster.") ||
           complaint.starts_with("routing.") || (of_ranks && !replicas_stated);
}

}  // namespace

void name_what_is_refused(Translation& t) {
    const bool sized = t.find("workload.layers") || t.find("workload.preset");
    if (!sized) return;
    std::string complaint;
    const bool replicas_stated = t.find("parallelism.dp");
    try {
        (void)t.ranks_of_split();  // throws
        Experiment machine;
        machine.cluster = any_machine();
        Experiment e = experiment_of_script(machine, t);
        e.cluster = machine.cluster;
        if (fill_ranks(e, replicas_stated)) check_experiment(e);
        return;
    } catch (const ConfigError& error) {
        complaint = error.what();
    }
    // a value that its key refuses
    if (!complaint.starts_with("workload.") && !complaint.starts_with("parallelism.")) return;
    const std::string key = complaint.substr(0, complaint.find(": ")),
                      last = key.substr(key.rfind('.') + 1);
    const auto names = [&](const std::string& line) { return has(line, last); };
    const auto* setting = t.find(key);
    if (left_open(complaint, setting != nullptr, replicas_stated) ||
        std::ranges::any_of(t.problems, names))
        return;
    add_line(t.problems, "{}{}", setting ? setting->at + ": " : "", complaint);
}

}  // namespace stepcast
