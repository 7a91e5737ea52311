#include "model/base/stamp.h"

#include <fmt/format.h>

#include "model/graph/task_graph.h"

namespace stepcast {
namespace {

std::string digits_of(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace

std::string stamp_of(std::string_view text) { return digits_of(fnv1a(text)); }

std::string stamp_of(const TaskGraph& graph) {
    std::uint64_t hash = fnv1a("");
    const auto add = [&](std::string_view text) { hash = fnv1a(text, hash); };
    const auto add_number = [&](std::uint32_t number) {
        for (int byte = 0; byte < 4; ++byte) {
            const char one = static_cast<char>(number >> (8 * byte) & 0xff);
            add({&one, 1});
        }
    };
    add_number(static_cast<std::uint32_t>(graph.rank_count()));
    for (TaskId task = 0; task < graph.size(); ++task) {
        add(graph.name(task));
        add({"\0", 1});
        add(kind_name(graph.op(task)));
        add_number(static_cast<std::uint32_t>(graph.phase(task)));
        add_number(static_cast<std::uint32_t>(graph.places(task).size()));
        for (const Place& place : graph.places(task)) add_number(place.index);
        for (const TaskId earlier : graph.predecessors(task)) add_number(earlier);
    }
    return digits_of(hash);
}

}  // namespace stepcast
