// What --vary asks for: a key and its values, or every legal split.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/experiment.h"
#include "model/input/split_keys.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

// `values` as for --set. Every legal split is key "parallelism", value "all". parallelism.dp may be
// "rest": the ranks that others leave.
struct Axis {
    std::string key;
    std::vector<std::string> values;
    friend bool operator==(const Axis&, const Axis&) = default;
};

// Reads "KEY=A,B,C". A value may be a range of integers: 1..8, 1..64*2 (each is twice the one
// before), 8..64+8. Throws ConfigError for an unknown key, no value, a repeated value, and an empty
// or endless range.
Axis parse_axis(const std::string& text);

// Reads a line of framework.can.switches, "KEY=VALUE|VALUE". Throws ConfigError for an unknown key.
Axis parse_switch(std::string_view line);

// Sets one varied key. "machines" has values COUNTxCLUSTER: so many ranks of a cluster preset or
// file, on whole nodes. cluster.preset keeps the experiment's number of nodes, because a cluster
// file has one node or as many as were measured. `stated` keys of the preset's table override the
// preset, as in an experiment that starts from it.
void set_varied(Experiment& experiment, const std::string& key, const std::string& value,
                std::span<const Override> stated = {});
// Sets all keys of a point, presets before single keys, whatever their order on the command line.
void set_varied(Experiment& experiment, const Settings& settings, std::span<const Override> stated);
bool lays_preset(const Axis& axis);

// Throws ConfigError unless each key occurs once and accepts all its values.
void check_axes(std::span<const Axis> axes, const Experiment& experiment);

bool varies_every_split(std::span<const Axis> axes);
// The keys that parallelism=all varies, as rows show them.
inline constexpr std::array walked_splits = [] {
    using enum SplitKey;
    return std::array{tp, pp,          vp,       layout,    dp,   ep,
                      cp, micro_batch, schedule, recompute, zero, sequence_parallel};
}();

// What is stated is no choice of parallelism=all. Of a framework's switches that is what a file or
// --set states; of the layout what --set states, which becomes an axis of one value: the layouts of
// an experiment are asked for beside the one in its file.
bool is_fixed(std::string_view key, std::span<const Override> stated);
void fix_set_splits(std::vector<Axis>& axes, std::span<const std::string> set);

}  // namespace stepcast
