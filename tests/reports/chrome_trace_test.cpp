#include "reports/chrome_trace.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/errors.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using TraceJson = nlohmann::json;

namespace {

// Rank 0 computes a GEMM for 2 us; then both ranks all-reduce for 3 us.
TaskGraph two_rank_graph() {
    TaskGraph graph(2);
    const TaskId gemm = graph.add("gemm \"a\"", Phase::forward, Gemm{64, 32, 16, 1, Dtype::fp16},
                                  {Place(0, Lane::compute)}, {});
    graph.add("sum", Phase::gradient_sync, AllReduce{Bytes(4096)},
              {Place(0, Lane::collective), Place(1, Lane::collective)}, {gemm});
    return graph;
}
Trace two_rank_trace() {
    Trace trace;
    trace.spans = {{0, Place(0, Lane::compute), Seconds(0), Seconds(2e-6)},
                   {1, Place(0, Lane::collective), Seconds(2e-6), Seconds(5e-6)},
                   {1, Place(1, Lane::collective), Seconds(2e-6), Seconds(5e-6)}};
    return trace;
}

std::vector<TraceJson> events_of(const TraceJson& trace, const std::string& kind) {
    std::vector<TraceJson> events;
    for (const TraceJson& event : trace["traceEvents"])
        if (event["ph"] == kind) events.push_back(event);
    return events;
}

TraceJson written(const Trace& trace, const std::vector<MemoryPoint>& memory = {}) {
    const std::string path = samples::temporary_folder("trace") + "/step.json";
    write_chrome_trace(two_rank_graph(), trace, path,
                       {.notes = {{"draw", "3 of \"5\""}}, .memory = memory});
    return TraceJson::parse(samples::file_text(path));
}

}  // namespace

TEST_CASE(
    "A trace has a process per rank, a named track per used lane and a span per task and place") {
    const TraceJson trace = written(two_rank_trace());
    CHECK(trace["otherData"] == TraceJson{{"origin", "simulated"}, {"draw", "3 of \"5\""}});
    std::vector<std::string> processes, tracks;
    for (const TraceJson& event : events_of(trace, "M")) {
        if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
        if (event["name"] == "thread_name")
            tracks.push_back(std::to_string(event["pid"].get<int>()) + " " +
                             event["args"]["name"].get<std::string>());
    }
    CHECK(processes == std::vector<std::string>{"rank 0", "rank 1"});
    CHECK(tracks == std::vector<std::string>{"0 compute", "0 collective", "1 collective"});
    const auto spans = events_of(trace, "X");
    REQUIRE(spans.size() == 3);
    CHECK(spans[0]["name"] == "gemm \"a\"");
    CHECK(spans[0]["cat"] == "gemm");
    CHECK(spans[0]["ts"] == 0.0);
    CHECK(spans[0]["dur"] == 2.0);
    CHECK(spans[0]["args"] == TraceJson{{"task", 0},
                                        {"phase", "forward"},
                                        {"m", 64},
                                        {"n", 32},
                                        {"k", 16},
                                        {"batch", 1},
                                        {"dtype", "fp16"}});
    CHECK(spans[2]["pid"] == 1);
    CHECK(spans[2]["ts"] == 2.0);
    CHECK(spans[2]["dur"] == 3.0);
    CHECK(spans[2]["args"] == TraceJson{{"task", 1}, {"phase", "gradient_sync"}, {"bytes", 4096}});
    CHECK(events_of(trace, "s").empty());  // arrows are those of sends
}

TEST_CASE("An executed trace looks like a simulated one but for its origin") {
    Trace executed = two_rank_trace();
    executed.origin = Trace::Origin::executed;
    TraceJson a = written(two_rank_trace()), b = written(executed);
    CHECK(b["otherData"]["origin"] == "executed");
    CHECK(a["traceEvents"] == b["traceEvents"]);
}

TEST_CASE("Memory is a counter track of its rank") {
    const auto counters =
        events_of(written(two_rank_trace(), {{1, Seconds(1e-6), Bytes(2048)}}), "C");
    REQUIRE(counters.size() == 1);
    CHECK(counters[0]["pid"] == 1);
    CHECK(counters[0]["ts"] == 1.0);
    CHECK(counters[0]["args"]["bytes"] == 2048);
}

TEST_CASE("Every kind of op writes sizes that parse") {
    TaskGraph graph(2);
    const std::vector<Op> ops{Gemm{},
                              GroupedGemm{{3, 4}, 5, 6, Dtype::fp32, true},
                              FusedGemm{},
                              Attention{},
                              MemoryPass{},
                              AllGather{},
                              ReduceScatter{},
                              AllToAll{{Bytes(1), Bytes(2), Bytes(3), Bytes(4)}},
                              Broadcast{},
                              Reduce{},
                              SendRecv{Bytes(8), 2},
                              Barrier{},
                              HostWork{}};
    Trace trace;
    for (const Op& op : ops) {
        const TaskId id = graph.add("t", Phase::forward, op, {Place(0, Lane::compute)}, {});
        trace.spans.push_back({id, Place(0, Lane::compute), Seconds(id), Seconds(id + 1.0)});
    }
    const std::string path = samples::temporary_folder("ops") + "/ops.json";
    write_chrome_trace(graph, trace, path);
    const auto spans = events_of(TraceJson::parse(samples::file_text(path)), "X");
    REQUIRE(spans.size() == ops.size());
    CHECK(spans[1]["args"]["rows"] == 7);
    CHECK(spans[7]["args"]["bytes"] == 5);  // 2 + 3: what crosses a link
    CHECK(spans[10]["args"]["messages"] == 2);
}

TEST_CASE("An empty trace is a whole file") {
    const std::string path = samples::temporary_folder("empty") + "/empty.json";
    write_chrome_trace(TaskGraph(1), Trace{}, path);
    CHECK(events_of(TraceJson::parse(samples::file_text(path)), "X").empty());
}

TEST_CASE("A trace that cannot be written is said and leaves nothing behind") {
    const std::string folder = samples::temporary_folder("unwritable");
    std::ofstream(folder + "/file") << "no folder";
    CHECK_THROWS_AS(
        write_chrome_trace(two_rank_graph(), two_rank_trace(), folder + "/file/step.json"),
        ConfigError);
    // a folder where the file should go
    std::filesystem::create_directories(folder + "/taken.json/inside");
    CHECK_THROWS_AS(write_chrome_trace(two_rank_graph(), two_rank_trace(), folder + "/taken.json"),
                    ConfigError);
    const std::filesystem::directory_iterator entries(folder);
    CHECK(std::distance(begin(entries), end(entries)) == 2);
}

TEST_CASE("A span without a finite time is a bug of ours") {
    Trace trace = two_rank_trace();
    trace.spans[0].finish = Seconds(std::numeric_limits<double>::infinity());
    CHECK_THROWS_AS(written(trace), std::logic_error);
}

TEST_CASE("labels, arrows between ranks and traced work stand in the same file") {
    TaskGraph graph(2);
    graph.set_label({.micro_batch = 0, .layer = 0});
    const TaskId gemm = graph.add("gemm", Phase::forward, Gemm{64, 32, 16, 1, Dtype::fp16},
                                  {Place(0, Lane::compute)}, {});
    graph.set_label({});
    graph.add("send", Phase::forward, SendRecv{Bytes(8)},
              {Place(0, Lane::send_down), Place(1, Lane::receive_down)}, {gemm});
    Trace trace;
    trace.spans = {{0, Place(0, Lane::compute), Seconds(0), Seconds(2e-6)},
                   {1, Place(0, Lane::send_down), Seconds(2e-6), Seconds(4e-6)},
                   {1, Place(1, Lane::receive_down), Seconds(2e-6), Seconds(4e-6)}};
    TraceExtras extras;
    extras.prefix = "predicted ";
    extras.traced = {
        {{1000, "traced rank 0"}},
        {{1000, 7, "nvjet \"x\"", "gemm", "forward", Seconds(1e-6), Seconds(2e-6), 0, 1}},
        {{1000, Seconds(0), Bytes(5)}}};
    const std::string path = samples::temporary_folder("both") + "/both.json";
    write_chrome_trace(graph, trace, path, extras);
    const TraceJson json = TraceJson::parse(samples::file_text(path));
    const auto spans = events_of(json, "X");
    REQUIRE(spans.size() == 4);
    CHECK(spans[0]["args"]["micro_batch"] == 0);
    CHECK(spans[0]["args"]["layer"] == 0);
    CHECK_FALSE(spans[1]["args"].contains("layer"));
    CHECK_FALSE(spans[1]["args"].contains("micro_batch"));
    CHECK(spans[3]["pid"] == 1000);
    CHECK(spans[3]["name"] == "nvjet \"x\"");
    CHECK(spans[3]["args"] == TraceJson{{"phase", "forward"}, {"micro_batch", 0}, {"layer", 1}});
    const auto from = events_of(json, "s"), to = events_of(json, "f");
    REQUIRE((from.size() == 1 && to.size() == 1));
    CHECK(from[0]["pid"] == 0);
    CHECK(to[0]["pid"] == 1);
    CHECK(from[0]["id"] == to[0]["id"]);
    CHECK(from[0]["ts"] == 3.0);
    REQUIRE(events_of(json, "C").size() == 1);
    CHECK(events_of(json, "C")[0]["args"]["bytes"] == 5);
    // Tracks in the order of their numbers: ranks, their lanes, and what was traced beneath.
    std::vector<std::string> tracks;
    for (const TraceJson& event : events_of(json, "M"))
        tracks.push_back(
            event["name"].get<std::string>() + " " + std::to_string(event["pid"].get<int>()) +
            (event.contains("tid") ? ":" + std::to_string(event["tid"].get<int>()) : "") + " " +
            (event["args"].contains("name")
                 ? event["args"]["name"].get<std::string>()
                 : std::to_string(event["args"]["sort_index"].get<int>())));
    const auto lane = [](Lane of) { return std::to_string(static_cast<int>(of)); };
    const std::string compute = lane(Lane::compute), send = lane(Lane::send_down),
                      receive = lane(Lane::receive_down);
    CHECK(tracks ==
          std::vector<std::string>{
              "process_name 0 predicted rank 0", "process_sort_index 0 0",
              "process_name 1 predicted rank 1", "process_sort_index 1 1",
              "thread_name 0:" + compute + " compute",
              "thread_sort_index 0:" + compute + " " + compute,
              "thread_name 0:" + send + " send_down", "thread_sort_index 0:" + send + " " + send,
              "thread_name 1:" + receive + " receive_down",
              "thread_sort_index 1:" + receive + " " + receive, "process_name 1000 traced rank 0",
              "process_sort_index 1000 1000", "thread_name 1000:7 stream 7"});
}
