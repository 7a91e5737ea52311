#include "reports/graph_dot.h"

#include <array>
#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <boost/graph/graphviz.hpp>

#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"
#include "model/graph/dependencies.h"

namespace stepcast {
namespace {

// A string of the language: Graphviz takes a backslash and what follows as its own.
std::string dot_text(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ') {
            result += c == '\n' ? "\\n" : " ";
            continue;
        }
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + '"';
}

// By lane: light, so that black text can be read on them.
constexpr std::array<std::string_view, lane_count> lane_colours{"#a6cee3", "#fdbf6f", "#ffff99",
                                                                "#b2df8a", "#d9f0d3", "#fb9a99",
                                                                "#fde0dd", "#d9d9d9", "#cab2d6"};

std::string text_of(const TaskGraph& graph, TaskId t) {
    std::string text(graph.name(t));
    const TaskLabel& label = graph.label(t);
    std::string of;
    const auto add = [&](const char* what, int number) {
        if (number >= 0) of += fmt::format("{}{} {}", of.empty() ? "" : ", ", what, number);
    };
    add("stage", label.stage);
    add("micro-batch", label.micro_batch);
    add("layer", label.layer);
    if (!of.empty()) text += "\n" + of;
    std::string places;
    for (const Place& place : graph.places(t))
        places += fmt::format("{}rank {} {}", places.empty() ? "" : ", ", place.rank(),
                              to_string(place.lane()));
    return text + "\n" + places;
}

}  // namespace

std::string dot_of(const TaskGraph& graph, const std::string& title) {
    if (graph.size() > most_drawn_tasks)
        refuse(
            "--graph: the step has {} tasks; expected at most {}, which a picture can "
            "show: fewer workload.layers or a smaller parallelism.global_batch",
            graph.size(), most_drawn_tasks);
    std::ostringstream out;
    const auto task = [&](std::ostream& to, TaskId t) {
        const auto lane = as_index(graph.places(t).front().lane());
        to << fmt::format("[label={}, fillcolor=\"{}\"]", dot_text(text_of(graph, t)),
                          lane_colours.at(lane));
    };
    // Edges lead up to what a task waits for. They are drawn from there, so that time goes
    // down.
    const auto head = [&](std::ostream& to) {
        to << "label=" << dot_text(title) << ";\nrankdir=BT;\n"
           << "node [shape=box, style=filled, fontname=\"sans-serif\"];\nedge [dir=back];\n";
    };
    boost::write_graphviz(out, DependencyGraph(graph), task, boost::default_writer(), head);
    return out.str();
}

void write_dot(const TaskGraph& graph, const std::string& title, const std::string& path) {
    write_whole({{path, dot_of(graph, title)}});
}

}  // namespace stepcast
