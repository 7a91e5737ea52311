#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

#include "import/profiles/collective_times.h"
#include "import/profiles/import_profiles.h"
#include "import/profiles/kineto.h"
#include "import/profiles/operators.h"
#include "import/profiles/profile_times.h"
#include "import/profiles/trace_records.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

double us(Seconds time) { return time.si() * 1e6; }

// Two products of a forward, one of a backward launched by another thread, and a fused optimizer;
// one all-reduce beside the backward. Times in microseconds:
//   device  stream 7:  [mm 10..30] [mm 30..45]       [mm' 60..90] [adam 120..130]
//           stream 20:                               [all-reduce 70 .. 110]
// span 10..130 = 120; busy 35 + 50 + 10 = 95; idle 25; computing 75; communicating 40, of it 20
// beside mm', 20 exposed.
const char* const small_trace = R"json({"schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85000000000}],
  "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
  "traceEvents": [
 {"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":5,"tid":5,"ts":0.000,"dur":150.5,"args":{}},
 {"ph":"X","cat":"cpu_op","name":"aten::linear","pid":5,"tid":5,"ts":1,"dur":8,"args":{"External id":1,"Input Dims":[[64,128],[256,128]],"Input type":["float","float"]}},
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":5,"tid":5,"ts":2,"dur":6,"args":{"External id":2,
   "Input Dims":[[64, 128],[128, 256]],"Input type":["c10::BFloat16","c10::BFloat16"],"Input Strides":[[128,1],[1,128]]}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":5,"tid":5,"ts":3,"dur":4,"args":{"correlation":11,"External id":2}},
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":5,"tid":5,"ts":10,"dur":6,"args":{"External id":3,
   "Input Dims":[[64, 128],[128, 256]],"Input type":["c10::BFloat16","c10::BFloat16"],"Input Strides":[[128,1],[1,128]]}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":5,"tid":5,"ts":11,"dur":3,"args":{"correlation":12}},
 {"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: MmBackward0","pid":5,"tid":6,"ts":50,"dur":20,"args":{}},
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":5,"tid":6,"ts":52,"dur":8,"args":{
   "Input Dims":[[256, 64],[64, 128]],"Input type":["c10::BFloat16","c10::BFloat16"],"Input Strides":[[1,256],[128,1]]}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernelExC","pid":5,"tid":6,"ts":53,"dur":5,"args":{"correlation":13}},
 {"ph":"X","cat":"user_annotation","name":"Optimizer.step#AdamW.step","pid":5,"tid":5,"ts":95,"dur":20,"args":{}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":5,"tid":5,"ts":97,"dur":4,"args":{"correlation":14}},
 {"ph":"X","cat":"kernel","name":"gemm_a","pid":0,"tid":7,"ts":10,"dur":20,"args":{"device":0,"stream":7,"correlation":11}},
 {"ph":"X","cat":"kernel","name":"gemm_a","pid":0,"tid":7,"ts":30,"dur":15,"args":{"device":0,"stream":7,"correlation":12}},
 {"ph":"X","cat":"kernel","name":"gemm_b","pid":0,"tid":7,"ts":60,"dur":30,"args":{"device":0,"stream":7,"correlation":13}},
 {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)","pid":0,"tid":20,"ts":70,"dur":40,"args":{"device":0,
   "stream":20,"correlation":99,"Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"Group size":2,"dtype":"BFloat16","Process Group Name":"0"}},
 {"ph":"X","cat":"kernel","name":"adam \"fused\"","pid":0,"tid":7,"ts":120,"dur":10,"args":{"device":0,"stream":7,"correlation":14}},
 {"ph":"i","name":"[memory]","pid":5,"tid":5,"ts":5,"args":{"Device Type":1,"Bytes":512,"Total Allocated":4096,"Total Reserved":8192}}
], "traceName": "x"})json";

Profile read(const TestFolder& folder, const std::string& text,
             const std::string& name = "rank1.json") {
    return read_profiles(folder.write(name, text)).front();
}

}  // namespace

TEST_CASE("a trace splits its device's time into computing, communicating and idle") {
    const TestFolder folder;
    const Profile p = read(folder, small_trace);
    REQUIRE(p.rank == 1);
    REQUIRE(p.ranks == 2);
    REQUIRE(p.device.name == "NVIDIA H100 80GB HBM3");
    REQUIRE(p.peak_reserved == Bytes(8192));
    const DeviceTimes t = device_times(p);
    REQUIRE(us(t.span) == Approx(120));
    REQUIRE(us(t.busy) == Approx(95));
    REQUIRE(us(t.idle) == Approx(25));
    REQUIRE(us(t.compute) == Approx(75));
    REQUIRE(us(t.communication) == Approx(40));
    REQUIRE(us(t.exposed) == Approx(20));
    REQUIRE(us(t.phases.at(ProfilePhase::forward)) == Approx(35));
    REQUIRE(us(t.phases.at(ProfilePhase::backward)) == Approx(30));
    REQUIRE(us(t.phases.at(ProfilePhase::optimizer)) == Approx(10));
}

TEST_CASE(
    "products have the sizes, type and layout of the innermost operator, and the median of their "
    "calls") {
    const TestFolder folder;
    const auto products = operator_times(read(folder, small_trace));
    REQUIRE(products.size() == 2);
    // Two calls of 20 and 15 us; one of 30.
    REQUIRE(products[0].call.work ==
            Op(Gemm{64, 256, 128, 1, Dtype::bf16, false, {}, Gemm::Layout::nt}));
    REQUIRE(products[0].calls == 2);
    REQUIRE(us(products[0].total) == Approx(35));
    REQUIRE(us(products[0].typical) == Approx(17.5));
    REQUIRE(products[1].call.work ==
            Op(Gemm{256, 128, 64, 1, Dtype::bf16, false, {}, Gemm::Layout::tn}));
}

TEST_CASE("a collective's transfer is its shortest duration over the ranks, the rest is waiting") {
    const TestFolder folder;
    std::string other = small_trace;
    other.replace(other.find("\"rank\": 1"), 9, "\"rank\": 0");
    // Rank 0 arrives 30 us later and waits for nobody: 10 us from 100 to 110.
    other.replace(other.find("\"ts\":70,\"dur\":40"), 16, "\"ts\":100,\"dur\":10");
    const std::vector<Profile> ranks{read(folder, other, "a.json"),
                                     read(folder, small_trace, "b.json")};
    const auto all = collective_times(ranks);
    REQUIRE(all.size() == 1);
    REQUIRE(collective_kind(all[0].call) == "all_reduce");
    REQUIRE(collective_bytes(all[0].call) == Bytes(2000));
    REQUIRE(us(all[0].transfer) == Approx(10));
    REQUIRE(us(all[0].waiting) == Approx(15));  // (30 + 0) / 2
    // With one rank at hand the 40 us are an upper bound.
    REQUIRE(us(collective_times({ranks[1]})[0].transfer) == Approx(40));
}

TEST_CASE("ranks of different jobs are refused") {
    const TestFolder folder;
    std::string other = small_trace;
    other.replace(other.find("allreduce"), 9, "broadcast");
    const std::vector<Profile> ranks{read(folder, other, "a.json"),
                                     read(folder, small_trace, "b.json")};
    REQUIRE_THROWS_WITH(collective_times(ranks), Contains("traces of one job"));
}

TEST_CASE("a torn trace keeps what was read and says where it broke off") {
    const TestFolder folder;
    const std::string text = small_trace;
    const std::size_t cut = text.find("ncclDevKernel");  // inside an event
    const Profile p = read(folder, text.substr(0, cut));
    REQUIRE(p.spans.size() == 3);
    REQUIRE_THAT(p.broken, Contains("breaks off") && Contains("after 14 events"));
    REQUIRE_THAT(p.notes.front(), Contains("not whole"));
}

TEST_CASE("gzip is read by its bytes, and a torn stream is said") {
    const TestFolder folder;
    const std::string path = folder.path() + "/rank1.json";  // without the ending
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, small_trace, static_cast<unsigned>(std::strlen(small_trace)));
    gzclose(file);
    REQUIRE(device_times(read_profiles(path).front()).busy.si() == Approx(95e-6));
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const std::string torn = folder.write("torn.json.gz", bytes.substr(0, bytes.size() - 60));
    REQUIRE_THAT(read_profiles(torn).front().broken, Contains("gzip stream breaks off"));
}

TEST_CASE("an old trace, whose external ids are correlations, links by the call and its time") {
    const TestFolder folder;
    // External id 2 is the linear's in this file, but the kernel's 2 is its correlation with the
    // second call.
    const Profile p = read(folder, R"([
 {"ph":"X","cat":"Operator","name":"aten::linear","pid":1,"tid":1,"ts":10,"dur":5,"args":{"External id":2}},
 {"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: X","pid":1,"tid":2,"ts":20,"dur":5,"args":{"External id":7}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":25,"dur":1,"args":{"correlation":2,"External id":2}},
 {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":30,"dur":4,"args":{"device":0,"stream":7,"correlation":2,"External id":2}}])");
    // whole microseconds: the call at the operator's very end is inside
    REQUIRE(p.spans.at(0).phase == ProfilePhase::backward);
    REQUIRE_THAT(p.notes.back(), Contains("ProfilerStep"));
}

TEST_CASE("kernels of a graph launch and kernels from before the window are counted, not guessed") {
    const TestFolder folder;
    const Profile p = read(folder, R"({"traceEvents":[
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":9,"args":{"Input Dims":[[8,8],[8,8]],"Input type":["float","float"]}},
 {"ph":"X","cat":"cuda_runtime","name":"hipGraphLaunch","pid":1,"tid":1,"ts":2,"dur":1,"args":{"correlation":5}},
 {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":30,"dur":4,"args":{"device":0,"stream":7,"correlation":5}},
 {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":40,"dur":4,"args":{"device":0,"stream":7,"correlation":5}},
 {"ph":"X","cat":"kernel","name":"c","pid":0,"tid":7,"ts":50,"dur":4,"args":{"device":0,"stream":7,"correlation":6}}]})");
    REQUIRE(p.counts.graph_kernels == 2);
    CHECK(std::ranges::find(p.notes,
                            "2 kernels come from CUDA or HIP graphs: no operator, no shapes") !=
          p.notes.end());
    REQUIRE(p.counts.unlinked == 1);
    REQUIRE(operator_times(p).empty());
}

TEST_CASE("memory stays bounded: the later half of a trace that is too long is let go, and said") {
    const TestFolder folder;
    std::string text = R"({"traceEvents":[)";
    for (int i = 0; i < 2000; ++i)
        text += (i > 0 ? "," : "") +
                std::string(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)") +
                std::to_string(10 * i) +
                R"(,"dur":5,"args":{"device":0,"stream":7,"correlation":1}})";
    const std::string path = folder.write("long.json", text + "]}");
    const TraceRecords whole = read_kineto_records(path),
                       part = read_kineto_records(path, 1000 * sizeof(DeviceRecord));
    REQUIRE(whole.device.size() == 2000);
    REQUIRE_FALSE(whole.profile.shortened);
    REQUIRE(part.profile.shortened);
    REQUIRE(part.device.size() <= 1000);
    REQUIRE(part.device.size() >= 499);
}

// The second kernel lasts no more than 35 minutes, the third takes no time at all; the others begin
// at no time of ours (a time of 0 would be 54 years before those of a clock), one of them in
// nanoseconds since 1970.
TEST_CASE("times beyond all clocks do not overflow") {
    const TestFolder folder;
    std::string text =
        R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":10,"dur":5,"args":{"device":0,"stream":7}})";
    for (const char* times :
         {R"("ts":12,"dur":4000000000000000)", R"("ts":14,"dur":9223372036854775807)",
          R"("ts":-9223372036854775808,"dur":5)", R"("ts":1e300,"dur":5)", R"("ts":null,"dur":5)",
          R"("dur":5)", R"("ts":1700000000000000001,"dur":5)"})
        text += R"(,{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,)" + std::string(times) +
                R"(,"args":{"device":0,"stream":7}})";
    const TraceRecords found = read_kineto_records(folder.write("far.json", text + "]}"));
    REQUIRE(found.device.size() == 3);
    CHECK(found.profile.counts.dropped == 5);
    for (const DeviceRecord& d : found.device) {
        CHECK((d.start >= 10'000 && d.start <= 14'000));
        CHECK(d.length.ns() >= 0);
        CHECK(d.length.ns() <= 2147483647LL * 1000);
    }
    CHECK(found.device[2].length.ns() == 0);
}

// Two ranks' traces merged into one file have calls of the same numbers. A kernel whose duration is
// NaN or negative has none, which is told; so are events that only begin.
TEST_CASE("traces of several processes are refused, and what has no duration is told") {
    const TestFolder folder;
    const auto trace = [](const std::string& pid, const std::string& length,
                          const std::string& more) {
        return R"({"traceEvents": [{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":4,"tid":2,"ts":1,"dur":1,"args":{"correlation":5}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":)" +
               pid + R"(,"tid":3,"ts":2,"dur":1,"args":{"correlation":6}},
 {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":9,"dur":)" +
               length + R"(,"args":{"device":0,"stream":7,"correlation":5}})" + more + "]}";
    };
    REQUIRE_THROWS_WITH(read(folder, trace("71", "30", "")),
                        Contains("2 processes (pid 4, 71) launch kernels"));
    const auto notes = [&](const std::string& length, const std::string& more) {
        std::string all;
        for (const std::string& note : read(folder, trace("4", length, more)).notes)
            all += note + "\n";
        return all;
    };
    CHECK_THAT(notes("30", ""), !Contains("have no duration") && !Contains("ph B"));
    for (const char* length : {"-30", "NaN", "null"})
        CHECK_THAT(notes(length, ""), Contains("1 pieces of the GPU's work have no duration"));
    CHECK_THAT(
        notes("30", R"(,{"ph":"B","cat":"cpu_op","name":"aten::mm","pid":4,"tid":2,"ts":3})"),
        Contains("1 events are a begin and an end"));
    REQUIRE_THROWS_WITH(read(folder, trace("4", "0.0000009", "")),
                        Contains("none of which lasts a nanosecond"));
    // without calls, by the process under which each device's work stands
    const auto work = [](const char* pid, int device) {
        return fmt::format(
            R"({{"ph":"X","cat":"kernel","name":"k","pid":{},"tid":7,"ts":9,"dur":3,"args":{{"device":{},"stream":7}}}})",
            pid, device);
    };
    REQUIRE_THROWS_WITH(
        read(folder, R"({"traceEvents": [)" + work("0", 0) + "," + work("9", 0) + "]}"),
        Contains("2 processes (pid 0, 9) have work on a device of one number"));
    CHECK(read(folder, R"({"traceEvents": [)" + work("0", 0) + "," + work("9", 9) + "]}")
              .counts.other_devices == 1);
    REQUIRE_THROWS_WITH(
        read(
            folder,
            R"({"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"/device:GPU:0"}},{"ph":"X","pid":1,"tid":2,"name":"fusion","ts":1,"dur":2}]})"),
        Contains("JAX's profiler"));
}

TEST_CASE("what is no profile is refused, and pipes and devices are") {
    const TestFolder folder;
    REQUIRE_THROWS_WITH(read_profiles(folder.write("a.txt", "hello")).front(),
                        Contains("nsys export"));
    REQUIRE_THROWS_WITH(read_profiles("/dev/zero").front(), Contains("no regular file"));
    REQUIRE_THROWS_WITH(read(folder, R"({"traceEvents":[]})"),
                        Contains("none of them work on a GPU"));
    REQUIRE_THROWS_WITH(
        read_profiles(folder.write("b.sqlite", std::string("SQLite format 3\0", 16) + "damaged"))
            .front(),
        Contains("SQLite"));
}

TEST_CASE("import writes the tables that have rows, and refuses a rank twice") {
    const TestFolder folder;
    const std::string trace = folder.write("rank1.json", small_trace),
                      out = folder.path() + "/run.csv";
    const auto said = import_profiles({.paths = {trace},
                                       .out = out,
                                       .system = "",
                                       .model = "",
                                       .context = {.op = "", .nodes = 2}});
    // The times of the first case: 120 us from first to last, of which kernels take 95; 20 of 40 us
    // of communication have none beside them.
    REQUIRE(said.at(0) ==
            trace + ": rank 1 of 2, NVIDIA H100 80GB HBM3; 17 events, 5 kernels, 1 steps");
    REQUIRE(said.at(1) ==
            "  GPU: 0.120 ms from first to last work, 0.095 ms busy, 0.025 ms idle; computing "
            "0.075 ms, communicating 0.040 ms "
            "(0.020 ms exposed), copies 0.000 ms");
    REQUIRE(std::filesystem::exists(folder.path() + "/run.gemms.csv"));
    REQUIRE(std::filesystem::exists(folder.path() + "/run.launches.csv"));
    REQUIRE_FALSE(std::filesystem::exists(folder.path() + "/run.attention.csv"));
    // The one GPU in deviceProperties may be all that the process was shown: the nodes of two ranks
    // are said.
    std::ifstream collectives(folder.path() + "/run.collectives.csv");
    std::string header, row;
    std::getline(collectives, header);
    std::getline(collectives, row);
    REQUIRE_THAT(row, Catch::StartsWith("all_reduce,2,2,2000,40,"));
    REQUIRE_THAT(row, Contains("upper"));
    REQUIRE(read_measurements(out).front().ranks == 2);  // of which one is here
    REQUIRE(read_measurements(out).front().run_id == "run");
    const std::string again = folder.write("copy_rank1.json", small_trace);
    REQUIRE_THROWS_WITH(
        import_profiles(
            {.paths = {trace, again}, .out = out, .system = "", .model = "", .context = {}}),
        Contains("rank 1, and so is"));
    REQUIRE_THROWS_WITH(
        import_profiles({.paths = {trace}, .out = trace, .system = "", .model = "", .context = {}}),
        Contains("is an input itself"));
}

TEST_CASE("operators: products, passes and what attention leaves unsaid") {
    const auto bmm = sized_operator(
        "aten::baddbmm",
        {"[[4,8,16],[4,8,32],[4,32,16]]", R"(["float","c10::Half","c10::Half"])", "", ""});
    REQUIRE(bmm);
    REQUIRE(bmm->work == Op(Gemm{8, 16, 32, 4, Dtype::fp16, false, {}, Gemm::Layout::nn}));
    REQUIRE_FALSE(sized_operator("aten::mm", {"[[],[]]", "[]", "", ""}));
    // Two tensors of 64 floats read, one written.
    REQUIRE(sized_operator("aten::add", {"[[64],[64],[]]", R"(["float","float","Scalar"])", "", ""})
                ->work == Op(MemoryPass{Bytes(768), Bytes(0)}));
    const OperatorInputs sdpa{"[[2,4,128,64],[2,1,128,64],[2,1,128,64]]", R"(["c10::BFloat16"])",
                              "", R"(["","","","0.","True"])"};
    const auto attention = sized_operator("aten::_scaled_dot_product_flash_attention", sdpa);
    REQUIRE(attention);
    REQUIRE(std::get<Attention>(attention->work).causal);
    REQUIRE(attention->kv_heads == 1);
    REQUIRE_FALSE(sized_operator("aten::_scaled_dot_product_flash_attention",
                                 {sdpa.dims, sdpa.types, "", ""}));
}

namespace {

// One kernel of communication: its group's name and ranks, and what else stands in its arguments.
std::string exchange(double at, double us, const std::string& op, const std::string& group,
                     const std::string& more = "") {
    return "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_X(x)\",\"pid\":0,\"tid\":20,"
           "\"ts\":" +
           std::to_string(at) + ",\"dur\":" + std::to_string(us) +
           ",\"args\":{\"device\":0,\"stream\":20,\"Collective name\":\"" + op +
           "\",\"In msg nelems\":1000,\"Out msg nelems\":1000,\"dtype\":\"BFloat16\"," + group +
           more + "}}";
}
std::string rank_trace(int rank, int world, const std::string& events) {
    return "{\"deviceProperties\":[{\"id\":0,\"name\":\"H100\"},{\"id\":1,\"name\":\"H100\"}],"
           "\"distributedInfo\":{\"rank\":" +
           std::to_string(rank) + ",\"world_size\":" + std::to_string(world) +
           "},\"traceEvents\":[" + events + "]}";
}

}  // namespace

// Four ranks, two of tensor parallelism by two of data parallelism: groups tp {0,1} and {2,3}, dp
// {0,2} and {1,3}. A rank's duration of the tp call is 10 + rank, of the dp call 20 + 2 rank: the
// least of tp are 10 and 12 (median 11, on two nodes of two GPUs in the node), of dp 20 and 22
// (median 21, across). What takes longest in all comes first: 22 + 26, 20 + 24, then the four of
// tp, 46.
TEST_CASE(
    "ranks of several process groups: calls meet within their group, and members tell the nodes") {
    const TestFolder folder;
    std::vector<std::string> files;
    for (int r = 0; r < 4; ++r) {
        const std::string tp =
            r < 2 ? R"("Group size":2,"Process Group Name":"tp","Process Group Ranks":"[0, 1]")"
                  : R"("Group size":2,"Process Group Name":"tp","Process Group Ranks":"[2, 3]")";
        const std::string dp =
            r % 2 == 0
                ? R"("Group size":2,"Process Group Name":"5","Process Group Ranks":"[0, 2]")"
                : R"("Group size":2,"Process Group Name":"6","Process Group Ranks":"[1, 3]")";
        files.push_back(folder.write("rank" + std::to_string(r) + ".json",
                                     rank_trace(r, 4,
                                                exchange(0, 10 + r, "allreduce", tp) + "," +
                                                    exchange(50, 20 + 2 * r, "allreduce", dp))));
    }
    const std::string out = folder.path() + "/run.csv";
    (void)import_profiles({.paths = files, .out = out, .system = "", .model = "", .context = {}});
    std::ifstream in(folder.path() + "/run.collectives.csv");
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    REQUIRE_THAT(text, Contains("all_reduce,2,1,2000,11,H100,2,2,0.5,measured,tp"));
    REQUIRE_THAT(text, Contains("all_reduce,2,2,2000,20,H100,1,2,2,measured,5"));
    REQUIRE_THAT(text, Contains("all_reduce,2,2,2000,22,H100,1,2,2,measured,6"));
    const auto at = [&](const char* end) { return text.find(std::string("measured,") + end); };
    REQUIRE(at("6") < at("tp"));
    REQUIRE(at("tp") < at("5"));
}

// Rank 0 sends (30 us, 20 of them waiting), rank 1 receives in 10. Rank 1 sends on to rank 2, whose
// trace is not here.
TEST_CASE("a send meets its receive, and one whose peer is not here is an upper bound") {
    const TestFolder folder;
    const std::string group =
        R"("Group size":3,"Process Group Name":"pp","Process Group Ranks":"[0, 1, 2]")";
    const std::vector<Profile> ranks{
        read(folder, rank_trace(0, 3, exchange(0, 30, "send", group, R"(,"Dst Rank":1)")),
             "rank0.json"),
        read(folder,
             rank_trace(1, 3,
                        exchange(20, 10, "recv", group, R"(,"Src Rank":0)") + "," +
                            exchange(40, 7, "send", group, R"(,"Dst Rank":2)")),
             "rank1.json")};
    const Meetings m = meetings_of(ranks);
    REQUIRE(m.all.size() == 2);
    REQUIRE(m.untold == 0);
    const Meeting& first = m.all[m.of.at(&ranks[0].spans[0])];
    REQUIRE(first.ranks == std::vector<std::size_t>{0, 1});
    REQUIRE(us(first.least) == Approx(10));
    REQUIRE(m.of.at(&ranks[1].spans[0]) == m.of.at(&ranks[0].spans[0]));
    REQUIRE(m.all[m.of.at(&ranks[1].spans[1])].ranks == std::vector<std::size_t>{1});
}

// Without a peer's rank a pair cannot be told; without a group's name, other numbers of calls
// cannot.
TEST_CASE("calls that cannot be told to be one are counted, not matched") {
    const TestFolder folder;
    const std::string group = R"("Group size":2,"Process Group Name":"pp")";
    const std::vector<Profile> ranks{
        read(folder,
             rank_trace(0, 2,
                        exchange(0, 30, "send", group) + "," +
                            exchange(40, 30, "allreduce", R"("Group size":2)")),
             "rank0.json"),
        read(folder, rank_trace(1, 2, exchange(20, 10, "recv", group)), "rank1.json")};
    const Meetings m = meetings_of(ranks);
    for (const Meeting& meeting : m.all) REQUIRE(meeting.ranks.size() == 1);
    const std::vector<Profile> other{
        ranks[0], read(folder,
                       rank_trace(1, 2,
                                  exchange(40, 5, "allreduce", R"("Group size":2)") + "," +
                                      exchange(60, 5, "allreduce", R"("Group size":2)")),
                       "rank1b.json")};
    REQUIRE(meetings_of(other).untold == 3);
}

// Rank 1's window begins one call later: numbers 8 and 9 on rank 0, 9 and 10 on rank 1. Only 9 is
// on both.
TEST_CASE("calls that carry numbers meet by them, whatever the windows hold") {
    const TestFolder folder;
    const std::string group = R"("Group size":2,"Process Group Name":"0","Seq":)";
    const std::vector<Profile> ranks{
        read(folder,
             rank_trace(0, 2,
                        exchange(0, 30, "allreduce", group + "8") + "," +
                            exchange(40, 30, "allreduce", group + "9")),
             "rank0.json"),
        read(folder,
             rank_trace(1, 2,
                        exchange(60, 4, "allreduce", group + "9") + "," +
                            exchange(80, 5, "allreduce", group + "10")),
             "rank1.json")};
    const Meetings m = meetings_of(ranks);
    REQUIRE(m.all.size() == 3);
    REQUIRE(m.of.at(&ranks[0].spans[1]) == m.of.at(&ranks[1].spans[0]));
    REQUIRE(us(m.all[m.of.at(&ranks[0].spans[1])].least) == Approx(4));
}

// grad_out, query, key, value, out, logsumexp, .., causal at 11: four heads of queries, two of
// keys.
TEST_CASE("the first argument of an attention's backward is a gradient, not the queries") {
    const OperatorInputs inputs{
        "[[2,4,128,64],[2,4,128,64],[2,2,256,64],[2,2,256,64]]",
        R"(["c10::BFloat16","c10::BFloat16","c10::BFloat16","c10::BFloat16"])", "",
        R"(["","","","","","","","","","","0.","False"])"};
    const auto attention =
        sized_operator("aten::_scaled_dot_product_flash_attention_backward", inputs);
    REQUIRE(attention);
    REQUIRE(attention->kv_heads == 2);
    REQUIRE(std::get<Attention>(attention->work).seq_k == 256);
    REQUIRE(std::get<Attention>(attention->work).seq_q == 128);
}

// Every name another: the table of names ends at 8 MiB and says so; every kernel is still counted.
TEST_CASE("names are kept in bounded memory") {
    const TestFolder folder;
    std::string text = R"({"traceEvents":[)";
    const std::string tail(3000, 'x');
    for (int i = 0; i < 3000; ++i)
        text += (i > 0 ? "," : "") + std::string(R"({"ph":"X","cat":"kernel","name":")") +
                std::to_string(i) + tail + R"(","pid":0,"tid":7,"ts":)" + std::to_string(10 * i) +
                R"(,"dur":5,"args":{"device":0,"stream":7,"correlation":1}})";
    const Profile p = read(folder, text + "]}", "names.json");
    REQUIRE(p.counts.kernels == 3000);
    REQUIRE(p.names.size() < 1500);
    REQUIRE(std::ranges::any_of(p.notes, [](const std::string& note) {
        return note.find("more names") != std::string::npos;
    }));
}

// tests/data/two_processes.sqlite: both processes see their GPU as device 0. gemm 0..100 us (rank
// 1: 0..150), then an all-reduce to 200, and a graph recorded whole 210..260; a range "iteration
// 7"; the first has a range ncclAllReduce with a payload of 24 bytes.
TEST_CASE(
    "an Nsight export of several processes is as many ranks, and a graph recorded whole is busy "
    "time") {
    const std::vector<Profile> ranks = read_profiles(test_data() + "/two_processes.sqlite");
    REQUIRE(ranks.size() == 2);
    for (int r = 0; r < 2; ++r) {
        const DeviceTimes t = device_times(ranks[static_cast<std::size_t>(r)]);
        CHECK(us(t.communication) == Approx(r == 0 ? 100 : 50));
        CHECK(us(t.compute) == Approx(r == 0 ? 150 : 200));  // the graph's 50 counted
        CHECK(us(t.busy) == Approx(250));
        CHECK(ranks[static_cast<std::size_t>(r)].steps.size() == 1);
        CHECK(std::ranges::any_of(
            ranks[static_cast<std::size_t>(r)].notes,
            [](const std::string& note) { return note.find("one piece") != std::string::npos; }));
    }
    const auto told = [&](std::size_t rank) {
        return std::ranges::any_of(ranks[rank].notes, [](const std::string& note) {
            return note.starts_with("1 ranges of NCCL state bytes");
        });
    };
    CHECK(told(0));
    CHECK_FALSE(told(1));
    const Meetings m = meetings_of(ranks);
    REQUIRE(m.all.size() == 1);
    CHECK(us(m.all[0].least) == Approx(50));
}

TEST_CASE("times written as texts, and a byte order mark, are read as any others") {
    const TestFolder folder;
    const Profile p = read(folder,
                           "\xef\xbb\xbf"
                           R"({"traceEvents":[
 {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":"30.5","dur":"4.25","args":{"device":0,"stream":7}},
 {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":40,"dur":1,"args":{"device":0,"stream":7}}]})");
    REQUIRE(us(device_times(p).busy) == Approx(5.25));
    REQUIRE(us(device_times(p).span) == Approx(10.5));
    // Whole microseconds since 1970 have more digits than a double's thousandth; blanks may stand
    // behind them.
    const Profile whole = read(folder, R"({"traceEvents":[
 {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":"1700000000000001","dur":"4","args":{"device":0,"stream":7}}	,
 {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":1700000000000007	,"dur":1 ,"args":{"device":0,"stream":7}}]})");
    REQUIRE(whole.origin == 1'700'000'000'000'001'000);
    REQUIRE(whole.spans.at(1).start == 6000);
    REQUIRE_FALSE(is_kineto(folder.write("blank.json", " \t\r\n \n")));
    REQUIRE_FALSE(is_kineto(folder.write("text.json", "traceEvents")));
}

// What stands before the events may have any length and any form; what has no event, or only words
// of a trace in its texts, is none.
TEST_CASE("a trace is known by its structure, however much stands before its events") {
    const TestFolder folder;
    int number = 0;
    const auto known = [&](const std::string& text) {
        return is_kineto(folder.write(std::to_string(++number) + ".json", text));
    };
    const std::string event =
        R"({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":30,"dur":4,"args":{"device":0,"stream":7}})";
    for (const std::size_t length : {10UL, 5'000UL, 20'000UL, 3'000'000UL}) {
        CAPTURE(length);
        const std::string text = "\"" + std::string(length, 'x') + "\"",
                          list = "[" + text + ",{\"a\":[" + text + "]}]";
        CHECK(known("{\"metadata\":" + list + ",\"traceEvents\":[" + event + "]}"));
        CHECK(known("{\"a\":1," + text + ":{},\n \"traceEvents\" : []}"));
        CHECK(known("{\"schemaVersion\":1,\"env\":" + list + ",\"traceEvents\":[" + event + "]}"));
        CHECK(known("[{\"name\":\"process_name\",\"args\":{\"labels\":" + text +
                    "},\"ph\":\"M\"}," + event + "]"));
        CHECK(known("[{\"metadata\":" + list + "}," + event + "]"));
        // Torn: a head that the profiler writes says so; another does not.
        CHECK(known("{\"schemaVersion\":1,\"env\":[" + text));
        CHECK_FALSE(known("{\"metadata\":[" + text));
        CHECK_FALSE(known("{\"metadata\":" + list +
                          ",\"note\":\"traceEvents\",\"inner\":{\"traceEvents\":[]}}"));
        CHECK_FALSE(known("{\"schemaVersion\":2,\"layers\":" + list + "}"));
        CHECK_FALSE(known("[" + text + "," + event + "]"));
        CHECK_FALSE(known("[{\"loss\":" + list + "},{\"loss\":2}]"));
    }
    CHECK_FALSE(known("{'loss': 2.0, \"traceEvents\": []}"));
    CHECK_FALSE(known("[rank0]: step 1"));
    const Profile p =
        read(folder, "{\"metadata\":[\"" + std::string(70 << 20, 'x') +
                         "\"],\"deviceProperties\":[{\"id\":0,\"name\":\"G\"}],\"traceEvents\":[" +
                         event + "]}");
    CHECK(p.broken.empty());
    CHECK(p.device.name == "G");
    CHECK(us(device_times(p).busy) == Approx(4));
}

// --format profile says what a trace is, nothing of nccl-tests.
TEST_CASE("what is told to be a profile and is none is refused as such") {
    const TestFolder folder;
    const std::string path = folder.write("x.json", "{\"a\":1}"), out = folder.path() + "/o.csv";
    CHECK_THROWS_WITH(import_profiles({.paths = {path},
                                       .out = out,
                                       .system = {},
                                       .model = {},
                                       .context = {},
                                       .format = "profile"}),
                      Catch::Matchers::Contains("is neither a PyTorch profiler's trace"));
    CHECK_THROWS_WITH(import_profiles({.paths = {folder.path()},
                                       .out = out,
                                       .system = {},
                                       .model = {},
                                       .context = {},
                                       .format = "profile"}),
                      Catch::Matchers::Contains("holds no profile"));
}

TEST_CASE("memory stays bounded where all is at one time") {
    const TestFolder folder;
    std::string text = R"({"traceEvents":[)";
    for (int i = 0; i < 200000; ++i)
        text +=
            (i > 0 ? "," : "") +
            std::string(
                R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"device":0,"stream":7}})");
    const TraceRecords part =
        read_kineto_records(folder.write("same.json", text + "]}"), 1000 * sizeof(DeviceRecord));
    REQUIRE(part.profile.shortened);
    REQUIRE(part.device.size() < 70000);  // it is looked at every 65536 records
}
