#include "exec/kernel_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "model/base/lines.h"
#include "model/base/lists.h"

namespace stepcast {

std::string kind_of_task(const Op& op) {
    const auto* attention = std::get_if<Attention>(&op);
    return fmt::format("{}{}", attention != nullptr && attention->flash ? "flash " : "",
                       kind_name(op));
}

std::vector<std::string> kernel_table(const TaskGraph& graph, int rank,
                                      const std::function<std::string(TaskId, const Op&)>& ran) {
    struct Line {
        std::string kind, ran;
        std::size_t order, tasks;
    };
    std::vector<Line> lines;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const Op& op = graph.op(task);
        const std::vector<int> ranks = participants(graph.places(task));
        if (!has(ranks, rank) || (is_collective(op) && ranks.size() < 2)) continue;
        const std::string kind = kind_of_task(op), how = ran(task, op);
        const auto same = first_where(
            lines, [&](const Line& line) { return line.kind == kind && line.ran == how; });
        if (same)
            ++same->tasks;
        else
            lines.push_back({kind, how, op.index(), 1});
    }
    std::ranges::stable_sort(lines, [](const Line& a, const Line& b) {
        return std::tuple(a.order, b.tasks) < std::tuple(b.order, a.tasks);
    });
    std::vector<std::string> texts;
    for (const Line& line : lines)
        add_line(texts, "{}, {} task{}: {}", line.kind, line.tasks, line.tasks == 1 ? "" : "s",
                 line.ran);
    return texts;
}

}  // namespace stepcast
