// What the readers of either profiler keep of a file, field by field, and a replay told task by
// task.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sqlite3.h>
#include <catch2/catch.hpp>

#include "calibrate/replay.h"
#include "import/profiles/kineto.h"
#include "import/profiles/nsight.h"
#include "import/profiles/trace_events.h"
#include "import/profiles/trace_records.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

std::string span_text(const TraceRecords& r, const HostSpan& s) {
    return fmt::format("{} {} {} {} {}", r.names[s.name], r.threads[s.thread], s.start,
                       s.length.ns(), s.inputs);
}
std::string device_text(const TraceRecords& r, const DeviceRecord& d) {
    return fmt::format("{} {} {} {} d{} s{} c{} q{} {} {}", r.names[d.name], d.start, d.length.ns(),
                       d.correlation, d.device, d.stream, d.collective, d.sequence, d.bytes,
                       static_cast<int>(d.kind));
}
std::string call_text(const DriverCall& c) {
    return fmt::format("{} {} {} {}{}{}", c.start, c.length.ns(), c.correlation, c.launches,
                       c.graph, c.waits);
}

template <typename Records, typename Text>
std::vector<std::string> texts(const Records& records, Text text) {
    std::vector<std::string> all;
    for (const auto& one : records) all.push_back(text(one));
    return all;
}
using Texts = std::vector<std::string>;

}  // namespace

// Microseconds to the nanosecond; keys of old and recent versions; two calls of one collective are
// one entry.
TEST_CASE("a PyTorch trace, record by record") {
    const TestFolder folder;
    const TraceRecords r =
        read_kineto_records(folder.write("t.json", R"json({"baseTimeNanoseconds": 77,
 "deviceProperties": [{"id": 3, "name": "G", "numSms": 9, "totalGlobalMem": 500}, 7],
 "distributedInfo": {"rank": 2, "world_size": 5, "pg_config": [{"pg_name": "tp", "ranks": [0, 2]}, {"pg_name": "dp", "ranks": "[1, 2]"}, {"pg_name": "none"}]},
 "traceEvents": [
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":2,"ts":1.25,"dur":2.0625,"args":{"Input Dims":[[8, 16],[16, 32]],"Input type":["float","a b"],"Input Strides":[[1,2],[3,4]],"Concrete Inputs":["1"]}},
 {"ph":"X","cat":"Operator","name":"aten::_flash_attention_forward","pid":1,"tid":2,"ts":4,"dur":1,"args":{"Input dims":[[1]],"Concrete Inputs":["x"]}},
 {"ph":"X","cat":"user_annotation","name":"ProfilerStep#6","pid":1,"tid":2,"ts":0,"dur":90},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":1.5,"dur":0.5,"args":{"correlation":41}},
 {"ph":"X","cat":"hip_driver","name":"hipGraphLaunch","pid":1,"tid":2,"ts":2.5,"dur":0.5,"args":{"correlation":42}},
 {"ph":"X","cat":"Runtime","name":"cudaDeviceSynchronize","pid":1,"tid":2,"ts":3.5,"dur":0.5,"args":{"correlation":43}},
 {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":5,"args":{"device":3,"stream":7,"correlation":41,"Collective name":"allreduce"}},
 {"ph":"X","cat":"Kernel","name":"ncclDevKernel_X","pid":0,"tid":7,"ts":20,"dur":6,"args":{"Device Id":3,"stream":8,"correlation":42,"Collective name":"send","In msg nelems":11,"Out msg nelems":12,"Group size":4,"dtype":"Half",
   "Process Group Name":"tp","Process Group Ranks":"[0, 2]","Src Rank":5,"Dst Rank":6,"Seq":0}},
 {"ph":"X","cat":"kernel","name":"ncclDevKernel_X","pid":0,"tid":7,"ts":30,"dur":7,"args":{"device":3,"stream":8,"Collective name":"send","In msg nelems":11,"Out msg nelems":12,"Group size":4,"dtype":"Half",
   "Process Group Name":"tp","Process Group Ranks":"[0,2]","Src Rank":5,"Dst Rank":6}},
 {"ph":"X","cat":"kernel","name":"ncclDevKernel_Y","pid":0,"tid":7,"ts":40,"dur":8,"args":{"device":3,"stream":8,"Collective name":"recv"}},
 {"ph":"X","cat":"kernel","name":"ncclDevKernel_Z","pid":0,"tid":7,"ts":50,"dur":9,"args":{"device":-1,"stream":-2}},
 {"ph":"X","cat":"gpu_memcpy","name":"Memcpy","pid":0,"tid":7,"ts":60,"dur":1,"args":{"device":3,"stream":7,"bytes":96}},
 {"ph":"X","cat":"Memset","name":"Memset","pid":0,"tid":7,"ts":70,"dur":1,"args":{"device":3,"stream":7,"Bytes":32}},
 {"ph":"i","cat":"cpu_instant_event","name":"[memory]","ts":5,"args":{"Device Type":1,"Total Allocated":30,"Total Reserved":90}},
 {"ph":"i","name":"[memory]","ts":6,"args":{"Device Type":1,"Total Allocated":40,"Total Reserved":80}},
 {"ph":"i","name":"[memory]","ts":7,"args":{"Device Type":0,"Total Allocated":999,"Total Reserved":999}},
 {"ph":"X","cat":"python_function","name":"nn.Module: Decoder_Layer_0","pid":1,"tid":2,"ts":1,"dur":2000000,"args":{}},
 {"ph":"X","cat":"python_function","name":"nn.Module: Decoder_Layer_1","pid":1,"tid":2,"ts":1,"dur":4000000,"args":{}},
 {"ph":"X","cat":"python_function","name":"forward","pid":1,"tid":2,"ts":1,"dur":4,"args":{}},
 {"ph":"B","cat":"cpu_op","name":"begun","pid":1,"tid":2,"ts":1,"dur":4,"args":{}},
 {"ph":"X","cat":"overhead","name":"other","pid":1,"tid":2,"ts":-9,"dur":4,"args":{}},
 {"cat":"cpu_op","name":"plain","pid":1,"tid":3,"ts":-1.5,"dur":4}
]})json"));
    CHECK((r.base == 77 && r.rank == 2 && r.profile.ranks == 5 && r.profile.shapes &&
           r.profile.counts.events == 22 && r.profile.counts.dropped == 0));
    CHECK(r.devices.at(3) == ProfiledDevice{"G", 9, Bytes(500)});
    CHECK(r.devices.size() == 1);
    CHECK(r.groups == std::map<std::string, std::string>{{"tp", "[0,2]"}, {"dp", "[1,2]"}});
    CHECK(texts(r.host, [&](const HostSpan& s) { return span_text(r, s); }) ==
          Texts{"aten::mm 1/2 1250 2062 1", "aten::_flash_attention_forward 1/2 4000 1000 2",
                "ProfilerStep#6 1/2 0 90000 0", "plain 1/3 -1500 4000 0"});
    CHECK(r.operator_inputs.at(1) ==
          OperatorInputs{"[[8,16],[16,32]]", "[\"float\",\"a b\"]", "[[1,2],[3,4]]", ""});
    CHECK(r.operator_inputs.at(2) == OperatorInputs{"[[1]]", "", "", "[\"x\"]"});
    CHECK(texts(r.steps, [&](const HostSpan& s) { return span_text(r, s); }) ==
          Texts{"ProfilerStep#6 1/2 0 90000 0"});
    CHECK(texts(r.calls, call_text) == Texts{"1500 500 41 truefalsefalse",
                                             "2500 500 42 falsetruefalse",
                                             "3500 500 43 falsefalsetrue"});
    CHECK(
        texts(r.device, [&](const DeviceRecord& d) { return device_text(r, d); }) ==
        Texts{"k 10000 5000 41 d3 s7 c-1 q-1 0 0", "ncclDevKernel_X 20000 6000 42 d3 s8 c0 q0 0 1",
              "ncclDevKernel_X 30000 7000 0 d3 s8 c0 q-1 0 1",
              "ncclDevKernel_Y 40000 8000 0 d3 s8 c1 q-1 0 1",
              "ncclDevKernel_Z 50000 9000 0 d0 s0 c-1 q-1 0 1",
              "Memcpy 60000 1000 0 d3 s7 c-1 q-1 96 2", "Memset 70000 1000 0 d3 s7 c-1 q-1 32 3"});
    REQUIRE(r.profile.collectives.size() == 2);
    CHECK(r.profile.collectives[0] ==
          CollectiveCall{"send", "Half", "tp", "[0,2]", 4, 5, 6, 11, 12, true});
    CHECK(r.profile.memory == std::vector<ProfiledMemory>{{5000, 30, 90}, {6000, 40, 80}});
    CHECK((r.profile.peak_reserved == Bytes(90) && r.profile.peak_allocated == Bytes(40)));
    CHECK(r.modules.at("Decoder_Layer").instances ==
          std::set<std::string>{"Decoder_Layer_0", "Decoder_Layer_1"});
    CHECK(r.modules.at("Decoder_Layer").seconds == std::vector<float>{2, 4});
    CHECK(r.modules.size() == 1);
    CHECK(r.first == -1500);
    const TraceRecords odd = read_kineto_records(folder.write(
        "u.json",
        R"({"distributedInfo":{"rank":"two"},"deviceProperties":[{"id":"x"}],"traceEvents":[{"ph":1},{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1}]})"));
    CHECK(odd.profile.counts.dropped == 3);
    CHECK(odd.device.size() == 1);
}

// No such number fits: 1.7e20 as nanoseconds (a fuzzer's find), 3e9 as a rank of 32 bits, a
// fraction of a multiprocessor.
TEST_CASE("numbers of a trace that are too large for what they count say nothing") {
    const TestFolder folder;
    const TraceRecords r =
        read_kineto_records(folder.write("n.json", R"({"baseTimeNanoseconds":1.7e20,
 "distributedInfo":{"rank":3000000000,"world_size":1e300,"pg_config":[]},"deviceProperties":[{"id":-1,"name":"G","numSms":1.5}],
 "traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"args":{"correlation":-12,"device":1e20,"stream":-3}}]})"));
    CHECK(r.device.at(0).start == 1000);
    CHECK(r.device.at(0).stream == 0);
    CHECK((r.rank == -1 && r.profile.ranks == 0));
    CHECK(r.devices.at(0) ==
          read_kineto_records(
              folder.write("g.json", R"({"deviceProperties":[{"name":"G"}],"traceEvents":[]})"))
              .devices.at(0));
    CHECK(r.profile.counts.dropped == 4);
}

// Texts of numbers, with what stands behind them before the next comma, in nanoseconds; a double
// would round the one of 2023.
TEST_CASE("times of a PyTorch trace are read to the nanosecond however they are written") {
    const TestFolder folder;
    const auto start = [&](const std::string& written) {
        const TraceRecords r = read_kineto_records(
            folder.write("t.json", R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":)" +
                                       written + R"(,"dur":1}]})"));
        return r.device.empty() ? -1 : r.device.at(0).start;
    };
    CHECK(start("5") == 5000);
    CHECK(start("1700000000000001 \n\t") == 1'700'000'000'000'001'000);
    CHECK(start("\"1700000000000001.0625\"") == 1'700'000'000'000'001'062);
    CHECK(start("-1.25\r\n") == -1250);
    CHECK(start("12e6") == 12'000'000'000);
    CHECK(start("1.2e+07 ") == 12'000'000'000);
    CHECK(start("null") == -1);  // no time: the event is passed over
    CHECK(start("1E16") == -1);
}

// A trace is read in pieces of 1 MiB: wherever a piece ends in an event, be it between a backslash
// and what it escapes, the event is whole.
TEST_CASE("an event of a trace is whole wherever a piece of the file ends in it") {
    const TestFolder folder;
    const std::string event = R"({"a":"\\x\"}]","b":[1,{"c":-2.5e3}]})", member = R"("k" : "v\"w")";
    const std::string head = R"({"traceEvents":[)", tail = "," + event + "]," + member + "}";
    for (std::size_t cut = 0; cut <= event.size() + tail.size(); ++cut) {
        CAPTURE(cut);
        const std::string path = folder.write(
            "t.json", head + std::string((1 << 20) - head.size() - cut, ' ') + event + tail);
        Texts events, members;
        const TraceReading r = read_trace_events(
            path, [&](const TraceText& t) { events.emplace_back(t.json); },
            [&](std::string_view key, const TraceText& t) {
                members.push_back(std::string(key) + " " + std::string(t.json));
            });
        CHECK(r == TraceReading{2, ""});
        CHECK(events == Texts{event, event});
        CHECK(members == Texts{R"(k "v\"w")"});
    }
}

// Exports of other versions and of other options: tables and columns that lack cost nothing but
// what they would have told. 4e18 ns is the latest time; a graph traced as a whole is one kernel
// and belongs to a process as kernels do.
TEST_CASE("an Nsight export with fewer tables") {
    const TestFolder folder;
    int number = 0;
    const auto read = [&](const std::string& tables, int process = 0) {
        const std::string path = fmt::format("{}/{}.sqlite", folder.path(), number++);
        sqlite3* db = nullptr;
        REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
        REQUIRE(sqlite3_exec(db, tables.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
        sqlite3_close(db);
        return read_nsight_records(path, process);
    };
    const std::string strings =
        "CREATE TABLE StringIds(id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1,'k');";
    const std::string gpus =
        "CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT, smCount INTEGER, totalMemory "
        "INTEGER); INSERT INTO TARGET_INFO_GPU VALUES (2,'G',9,500);";
    const std::string kernels =
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, correlationId "
        "INTEGER, deviceId INTEGER, streamId INTEGER, shortName INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
        "(100,150,11,0,7,1),(4000000000000000000,4000000000000000000,12,0,7,1),("
        "4000000000000000001,5,13,0,7,1);";
    CHECK(read(strings + gpus).devices.at(2) == ProfiledDevice{"G", 9, Bytes(500)});
    CHECK_THROWS_AS(read(strings), ConfigError);
    CHECK_THROWS_AS(read(gpus), ConfigError);
    const TraceRecords r = read(strings + kernels);
    CHECK(r.devices.empty());
    CHECK(texts(r.device, [&](const DeviceRecord& d) { return device_text(r, d); }) ==
          Texts{"k 100 50 11 d0 s7 c-1 q-1 0 0", "k 4000000000000000000 0 12 d0 s7 c-1 q-1 0 0",
                "k 0 5 13 d0 s7 c-1 q-1 0 0"});
    // Process 6 (of device 0, by its graphs) before process 5 (of device 1); a process's other work
    // on a later device changes nothing.
    const std::string graphs =
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER, end INTEGER, correlationId "
        "INTEGER, globalPid INTEGER, deviceId INTEGER, streamId INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES "
        "(10,30,1,83886080,1,7),(20,50,2,100663296,3,7),(60,65,3,100663296,0,7);";
    const TraceRecords first = read(strings + gpus + graphs, 0),
                       second = read(strings + gpus + graphs, 1);
    CHECK((first.processes == 2 && first.whole_graphs == 2 && first.first == 20 &&
           second.whole_graphs == 1 && second.first == 10));
}

// One process alone: its correlation ids are taken with the upper bits of its global id (0x5000001
// >> 24 = 5).
TEST_CASE("an Nsight export, record by record") {
    const TestFolder folder;
    const std::string path = folder.path() + "/t.sqlite";
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    const char* const tables = R"(
CREATE TABLE StringIds(id INTEGER, value TEXT);
INSERT INTO StringIds VALUES (1,'sgemm'),(2,'ncclDevKernel_X'),(3,'cudaLaunchKernel_v7'),(4,'cudaStreamSynchronize'),(5,'named by id'),(6,'sgemm<float>(int)');
CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER, cuDevice INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (7,'G',9,500,3);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, correlationId INTEGER, globalPid INTEGER, deviceId INTEGER, streamId INTEGER, shortName INTEGER, demangledName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100,150,11,83886081,3,7,1,6),(200,260,12,83886081,3,8,2,2);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, correlationId INTEGER, globalPid INTEGER, deviceId INTEGER, streamId INTEGER, bytes INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (300,310,13,83886081,3,7,96);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INTEGER, end INTEGER, correlationId INTEGER, globalPid INTEGER, deviceId INTEGER, streamId INTEGER, bytes INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (400,405,14,83886081,3,7,32);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, correlationId INTEGER, globalTid INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (20,30,11,83886083,3),(40,45,15,83886083,4),(50,51,NULL,83886083,4);
CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId INTEGER, eventType INTEGER, binaryData BLOB);
INSERT INTO NVTX_EVENTS VALUES (10,60,83886083,'aten::mm, op_id = 12, sizes = [[8, 16], [16, 32]]',NULL,59,NULL),(11,61,83886083,NULL,5,60,NULL),
 (12,62,83886083,'aten::add, seq = 4',NULL,59,NULL),(13,63,83886083,'ncclAllReduce',NULL,59,X'0102'),(14,64,83886083,'aten::x',NULL,59,X'01'),(15,NULL,83886083,'open',NULL,59,NULL),(16,66,83886083,'mark',NULL,34,NULL),
 (17,67,83886083,'Iteration 12',NULL,59,NULL),(18,68,83886083,'step_7',NULL,59,NULL),(19,69,83886083,'footstep 7',NULL,59,NULL),(20,70,83886083,'train_step #3',NULL,59,NULL),(21,71,83886083,'12',NULL,59,NULL),(22,72,83886083,'step',NULL,59,NULL);
)";
    REQUIRE(sqlite3_exec(db, tables, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
    const TraceRecords r = read_nsight_records(path);
    const std::uint64_t upper = std::uint64_t{5} << 32;
    CHECK(r.devices.at(3) == ProfiledDevice{"G", 9, Bytes(500)});
    CHECK(texts(r.device, [&](const DeviceRecord& d) { return device_text(r, d); }) ==
          Texts{fmt::format("sgemm<float>(int) 100 50 {} d3 s7 c-1 q-1 0 0", upper + 11),
                fmt::format("ncclDevKernel_X 200 60 {} d3 s8 c-1 q-1 0 1", upper + 12),
                fmt::format(" 300 10 {} d3 s7 c-1 q-1 96 2", upper + 13),
                fmt::format(" 400 5 {} d3 s7 c-1 q-1 32 3", upper + 14)});
    CHECK(texts(r.calls, call_text) == Texts{fmt::format("20 10 {} truefalsefalse", upper + 11),
                                             fmt::format("40 5 {} falsefalsetrue", upper + 15)});
    CHECK(texts(r.host, [&](const HostSpan& s) { return span_text(r, s); }) ==
          Texts{"aten::mm 83886083 10 50 1", "named by id 83886083 11 50 0",
                "aten::add 83886083 12 50 0", "ncclAllReduce 83886083 13 50 0",
                "aten::x 83886083 14 50 0", "Iteration 12 83886083 17 50 0",
                "step_7 83886083 18 50 0", "footstep 7 83886083 19 50 0",
                "train_step #3 83886083 20 50 0", "12 83886083 21 50 0", "step 83886083 22 50 0"});
    CHECK(texts(r.steps, [&](const HostSpan& s) { return r.names[s.name]; }) ==
          Texts{"Iteration 12", "step_7", "train_step #3"});
    CHECK(r.operator_inputs.at(1).dims == "[[8, 16], [16, 32]]");
    CHECK((r.profile.shapes && r.nccl_payloads == 1 && r.processes == 1 && r.whole_graphs == 0 &&
           r.first == 100 && r.profile.counts.events == 2 + 1 + 1 + 2 + 11));
}

namespace {

DeviceSpan work(std::int64_t launched, std::int64_t start, std::int64_t finish, std::uint32_t name,
                std::uint32_t stream) {
    DeviceSpan s;
    s.launched = launched == 0 ? not_launched : 1000 * launched;
    s.start = 1000 * start;
    s.finish = 1000 * finish;
    s.name = name;
    s.stream = stream;
    s.phase = ProfilePhase::backward;
    return s;
}

}  // namespace

// Microseconds. k1 is launched at 10 and runs 20 .. 120; the host waits for it from 30 on; k2,
// launched at 130, runs 140 .. 200; an all-reduce, launched at 131, begins behind it (201 .. 280);
// k3, launched at 206, begins behind that (281 .. 300); a copy, launched at 207, runs 250 .. 260 on
// a third stream. From k1's start on, without the latencies of launches: k1 0 .. 100, k2 110 .. 170
// (the host goes on for 10 after its wait), the all-reduce 170 .. 249, k3 249 .. 268; as traced to
// 280. What held k1 for 10 is not told: kept.
TEST_CASE("a replay keeps what waits for what, task by task") {
    Profile p;
    p.path = "one";
    p.names = {"k1", "k2", "nccl", "k3", "copied"};
    p.spans = {work(10, 20, 120, 0, 7), work(130, 140, 200, 1, 7), work(131, 201, 280, 2, 20),
               work(207, 250, 260, 4, 9), work(206, 281, 300, 3, 7)};
    p.spans[2].kind = SpanKind::communication;
    p.spans[2].collective = 0;
    p.collectives = {{"allreduce", "Half", "dp", "", 2, -1, -1, 500, 500, true}};
    p.spans[3].kind = SpanKind::copy;
    p.spans[3].bytes = 64;
    p.spans[0].phase = ProfilePhase::forward;
    p.spans[1].phase = ProfilePhase::optimizer;
    p.waits = {{30'000, 120'000}};
    const Replay r = replay({p});
    std::string text;
    for (TaskId t = 0; t < r.graph.size(); ++t) {
        text += fmt::format("{} {} {} {} {}:", t, r.graph.name(t),
                            to_string(r.graph.places(t)[0].lane()), to_string(r.graph.phase(t)),
                            std::lround(1e6 * r.measured[t].si()));
        for (const TaskId before : r.graph.predecessors(t)) text += fmt::format(" {}", before);
        text += "\n";
    }
    CHECK(text ==
          "0 launched elsewhere receive_up between 10:\n1 host host between 0:\n2 k1 compute "
          "forward 100: 0 1\n3 host host between 20:\n4 host host between 0: 2\n"
          "5 host host between 10:\n6 k2 compute optimizer 60: 2 5\n7 host host between 1:\n8 nccl "
          "collective backward 79: 6 7\n9 host host between 75:\n"
          "10 k3 compute backward 19: 6 8 9\n11 host host between 1:\n12 Memcpy send_up backward "
          "10: 11\n");
    CHECK(r.graph.op(2) == Op(MemoryPass{}));
    CHECK(r.graph.op(8) == Op(AllReduce{Bytes(1000)}));
    CHECK(r.graph.op(12) == Op(MemoryPass{Bytes(64), Bytes(0)}));
    CHECK(r.table == r.measured);
    const auto us = [](Seconds time) { return std::lround(1e6 * time.si()); };
    CHECK(us(r.step.error.measured) == 280);
    CHECK(us(r.step.error.replayed) == 268);
    CHECK(us(r.step.error.predicted) == 268);
    REQUIRE(r.step.ranks.size() == 1);
    CHECK(us(r.step.ranks[0].measured_span) == 280);  // from 20 to 300
    CHECK(us(r.step.ranks[0].predicted_span) == 268);
    CHECK(us(r.step.ranks[0].measured_exposed) == 79);
    CHECK(us(r.step.ranks[0].predicted_exposed) == 79);
    CHECK(r.step.name == "one");
    // Kinds of exchanges by their names, with the bytes that nccl-tests counts (the gathered
    // result, twice as much from an operator).
    for (const auto& [name, op] : {std::pair{"_allgather_base", Op(AllGather{Bytes(1000)})},
                                   {"reduce_scatter", Op(ReduceScatter{Bytes(1000)})},
                                   {"alltoall", Op(AllToAll{{Bytes(1000)}})},
                                   {"broadcast", Op(Broadcast{Bytes(1000), 0})},
                                   {"reduce", Op(Reduce{Bytes(1000), 0})},
                                   {"send_recv", Op(SendRecv{Bytes(1000)})},
                                   {"nameless", Op(AllReduce{Bytes(1000)})}}) {
        Profile other = p;
        other.collectives[0].op = name;
        CHECK(replay({other}).graph.op(8) == op);
    }
    Profile sized = p;
    sized.operators = {
        {"aten::mm", "c10::Half", Gemm{8, 16, 32, 1, Dtype::fp16}, "", 0, true, true},
        {"aten::copy_", "float", MemoryPass{Bytes(3000), Bytes(0)}, "copy"},
        {"aten::x", "c10::Half", Attention{.batch = 2, .heads = 4}, "", 1}};
    sized.spans[0].sized = 0;
    sized.spans[1].sized = 1;
    sized.spans[4].sized = 2;
    const Replay of_sizes = replay({sized});
    CHECK(of_sizes.graph.op(2) == sized.operators[0].work);
    CHECK(of_sizes.graph.op(6) == Op(MemoryPass{Bytes(3000), Bytes(0)}));
    CHECK(of_sizes.graph.op(10) == sized.operators[2].work);
    // Of kernels of one name without sizes the mean counts: k1 and k3 as 59.5 each.
    p.names[3] = "k1";
    const Replay alike = replay({p});
    CHECK(alike.table[2].si() == Approx(59.5e-6));
    CHECK(us(alike.step.error.replayed) == 268);
    // k1 to 59.5, the wait's end then at 59.5: k2 69.5 .. 129.5, all-reduce to 208.5, k3 to 268.
    CHECK(us(alike.step.error.predicted) == 268);
    // By kind on the rank: passes of the forward 100 of 59.5 predicted, of the backward 19 + 10
    // of 59.5 + 10.
    Texts kinds;
    for (const KindError& k : alike.step.error.kinds)
        kinds.push_back(fmt::format("{} {} {:.1f} {:.1f} {:.1f}", to_string(k.phase), k.kind,
                                    1e6 * k.predicted.si(), 1e6 * k.measured.si(),
                                    1e6 * k.effect.si()));
    REQUIRE(kinds.size() == 4);
    std::sort(kinds.begin(), kinds.begin() + 2);  // as large as each other
    std::sort(kinds.begin() + 2, kinds.end());
    CHECK(kinds ==
          Texts{"backward memory_pass 69.5 29.0 40.5", "forward memory_pass 59.5 100.0 -40.5",
                "backward all_reduce 79.0 79.0 0.0", "optimizer memory_pass 60.0 60.0 0.0"});
}
