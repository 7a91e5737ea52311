#include "reports/graph_dot.h"

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "model/step.h"
#include "tests/reports/samples.h"
#include "tests/transformers.h"

using namespace stepcast;
using Catch::Contains;

namespace {

TaskGraph two_tasks(std::string_view first) {
    TaskGraph graph(2);
    graph.set_label({.stage = 0, .slot = 0, .micro_batch = 1, .layer = 2});
    const TaskId gemm = graph.add(first, Phase::forward, Gemm{64, 32, 16, 1, Dtype::fp16},
                                  {Place(0, Lane::compute)}, {});
    graph.set_label({});
    graph.add("send", Phase::forward, SendRecv{Bytes(8)},
              {Place(0, Lane::send_up), Place(1, Lane::receive_up)}, {gemm});
    return graph;
}

}  // namespace

// Task 1 waits for task 0: the edge leads back, and is drawn forward.
TEST_CASE("a graph is written with what each task is, where it runs and what it waits for") {
    CHECK(dot_of(two_tasks("gemm"), "small") ==
          "digraph G {\n"
          "label=\"small\";\n"
          "rankdir=BT;\n"
          "node [shape=box, style=filled, fontname=\"sans-serif\"];\n"
          "edge [dir=back];\n"
          "0[label=\"gemm\\nstage 0, micro-batch 1, layer 2\\nrank 0 compute\", "
          "fillcolor=\"#a6cee3\"];\n"
          "1[label=\"send\\nrank 0 send_up, rank 1 receive_up\", fillcolor=\"#b2df8a\"];\n"
          "1->0 ;\n"
          "}\n");
}

// A name cannot end its string, and what would be a command of Graphviz (\G, \N) stays text.
TEST_CASE("names and titles of any characters are text") {
    const std::string dot = dot_of(two_tasks("a\"];x->y[\\N\t\n"), "b\"]; evil \\G");
    CHECK_THAT(dot, Contains(R"(0[label="a\"];x->y[\\N \n\nstage 0)"));
    CHECK_THAT(dot, Contains("label=\"b\\\"]; evil \\\\G\";\n"));
}

TEST_CASE("a step of every task has a box, and every dependency an arrow") {
    Experiment e = small_gpt();
    e.workload.layers = 1;
    const TaskGraph graph = build_step(e, {});
    std::size_t edges = 0;
    for (TaskId t = 0; t < graph.size(); ++t) edges += graph.predecessors(t).size();
    const std::string dot = dot_of(graph, e.workload.name);
    const auto count = [&](std::string_view text) {
        std::size_t found = 0;
        for (std::size_t at = dot.find(text); at != std::string::npos; at = dot.find(text, at + 1))
            ++found;
        return found;
    };
    CHECK(count("[label=") == graph.size());
    CHECK(count("->") == edges);
    CHECK(edges > 0);
    CHECK_THAT(dot, Contains("layer 0"));
    const std::string path = samples::temporary_folder("dot") + "/step.dot";
    write_dot(graph, e.workload.name, path);
    CHECK(samples::file_text(path) == dot);
}

TEST_CASE("a graph that no picture can show is refused, with what makes it smaller") {
    TaskGraph graph;
    for (std::size_t i = 0; i <= most_drawn_tasks; ++i)
        graph.add("gemm", Phase::forward, Gemm{64, 32, 16, 1, Dtype::fp16},
                  {Place(0, Lane::compute)}, {});
    CHECK_THROWS_WITH(
        dot_of(graph, "large"),
        "--graph: the step has 2001 tasks; expected at most 2000, which a picture can "
        "show: fewer workload.layers or a smaller parallelism.global_batch");
}
