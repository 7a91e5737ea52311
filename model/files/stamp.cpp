#include "model/files/stamp.h"

#include <cstdint>

#include <fmt/format.h>

#include "model/graph/task_graph.h"

namespace stepcast {
namespace {

// FNV-1a.
class Hash {
public:
    void add(std::string_view text) {
        for (const char c : text) add_byte(static_cast<unsigned char>(c));
    }
    void add(std::uint32_t number) {
        for (int byte = 0; byte < 4; ++byte) add_byte(static_cast<unsigned char>(number >> (8 * byte)));
    }
    [[nodiscard]] std::string text() const { return fmt::format("{:016x}", hash_); }

private:
    void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 1099511628211ULL; }
    std::uint64_t hash_ = 14695981039346656037ULL;
};

}  // namespace

std::string stamp_of(std::string_view text) {
    Hash hash;
    hash.add(text);
    return hash.text();
}

std::string stamp_of(const TaskGraph& graph) {
    Hash hash;
    hash.add(static_cast<std::uint32_t>(graph.rank_count()));
    for (TaskId task = 0; task < graph.size(); ++task) {
        hash.add(graph.name(task));
        hash.add(std::string_view("\0", 1));
        hash.add(kind_name(graph.op(task)));
        hash.add(static_cast<std::uint32_t>(graph.phase(task)));
        hash.add(static_cast<std::uint32_t>(graph.places(task).size()));
        for (const Place& place : graph.places(task)) hash.add(place.index);
        for (const TaskId earlier : graph.predecessors(task)) hash.add(earlier);
    }
    return hash.text();
}

}  // namespace stepcast
