// The tables that a profile becomes, line by line, on a profile written down as values.

#include <catch2/catch.hpp>

#include "import/profiles/collective_times.h"
#include "import/profiles/profile_tables.h"

using namespace stepcast;

namespace {

// A profile of one rank of four; two kernels of one call make an instance.
Profile written_down() {
    Profile p;
    p.rank = 3;
    p.ranks = 4;
    p.device.name = "H100, SXM";
    p.names = {"void at::native::add", "triton_poi", "other"};
    const auto span = [&](std::int64_t start, std::int64_t length, std::int32_t instance,
                          std::int32_t sized, std::uint32_t name = 2) {
        DeviceSpan s;
        s.start = start;
        s.finish = start + length;
        s.instance = instance;
        s.sized = sized;
        s.name = name;
        s.phase = ProfilePhase::forward;
        s.launched = start - 1;
        p.spans.push_back(s);
    };
    p.operators = {
        {"aten::mm", "c10::Half", Gemm{8, 16, 32, 1, Dtype::fp16, false, {}, Gemm::Layout::tn}, "",
         0, true, true},
        {"aten::bmm", "c10::Half", Gemm{8, 16, 32, 5, Dtype::fp16}, "", 0, true, false},
        {"aten::mm", "double", Gemm{8, 16, 32, 1, Dtype::fp32}, "", 0, false, false},
        {"aten::mm", "c10::Half", Gemm{8, 16, 64, 1, Dtype::fp16, false, {}, Gemm::Layout::nn}, "",
         0, true, true},
        {"aten::mm", "c10::Half", Gemm{8, 16, 128, 1, Dtype::fp16, false, {}, Gemm::Layout::nt}, "",
         0, true, true},
        {"aten::mm", "c10::Half", Gemm{8, 16, 256, 1, Dtype::fp16}, "", 0, true, false},
        {"aten::copy_", "float", MemoryPass{Bytes(3000), Bytes(0)}, "copy"},
        {"aten::_flash", "c10::Half", Attention{2, 4, 128, 256, 64, true, true, Dtype::fp16, true},
         "", 1}};
    // Three calls of the first: 1 + 2, 4 and 8 us; one each of the others.
    span(0, 1000, 10, 0);
    span(1000, 2000, 10, 0);
    span(3000, 4000, 11, 0);
    span(7000, 8000, 12, 0);
    span(15000, 13000, 13, 1);
    span(28000, 100, 14, 2);
    span(28100, 100, 14, 2);
    span(28200, 3000, 15, 3);
    span(31200, 2500, 16, 4);
    span(33700, 2000, 17, 5);
    span(36000, 500, 18, 6, 0);
    span(36500, 700, 19, 6, 1);
    span(37200, 900, 20, 7);
    span(38100, 300, 21, -1, 1);
    // Two launches of 4 and 6 us: 5 in the median. A layer takes 90 us for two calls of which each
    // has 14/2 launches.
    p.launches = {Seconds(4e-6), Seconds(6e-6)};
    p.layer = {"Block", 2, 2, Seconds(90e-6)};
    return p;
}

std::string table_of(const std::vector<PlannedFile>& files, const std::string& end) {
    for (const PlannedFile& file : files)
        if (file.path == "run." + end + ".csv") return file.text;
    return "";
}

}  // namespace

TEST_CASE("the tables of a profile, line by line") {
    std::vector<std::string> notes;
    const std::vector<PlannedFile> files = profile_tables({written_down()}, "run.csv", 0, notes);
    CHECK(table_of(files, "gemms") ==
          "gpu,m,n,k,groups,dtype,layout,timer,time_us,calls,total_us,call,rank\n"
          "\"H100, SXM\",8,16,32,1,fp16,TN,kernel,4,3,15,aten::mm,3\n"
          "\"H100, SXM\",8,16,64,1,fp16,NN,kernel,3,1,3,aten::mm,3\n"
          "\"H100, SXM\",8,16,128,1,fp16,NT,kernel,2.5,1,2.5,aten::mm,3\n"
          "\"H100, SXM\",8,16,256,1,fp16,,kernel,2,1,2,aten::mm,3\n");
    CHECK(table_of(files, "batches") ==
          "gpu,batch,m,n,k,dtype,timer,time_us,calls,total_us,call,rank\n\"H100, "
          "SXM\",5,8,16,32,fp16,kernel,13,1,13,aten::bmm,3\n");
    CHECK(table_of(files, "attention") ==
          "op,batch,heads,kv_heads,head_dim,seq_q,seq_k,causal,window,gpu,dtype,kernel,pass,"
          "implementation,time_us,calls,rank\n"
          "attention,2,4,1,64,128,256,1,0,\"H100, "
          "SXM\",fp16,aten::_flash,backward,profile,0.9,1,3\n");
    CHECK(table_of(files, "passes") ==
          "gpu,kind,bytes,dtype,timer,time_us,calls,total_us,call,rank\n\"H100, "
          "SXM\",copy,3000,float,kernel,0.6,2,1.2,aten::copy_,3\n");
    // 14 spans of the forward over 2 calls: 7 launches of 5 us; 90 - 35 = 55. Single passes: 0.5
    // us; compiled: 0.7 and 0.3.
    CHECK(
        table_of(files, "launches") ==
        "kind,calls,time_us_per_call,rank\nlaunch call,2,5,3\nhost time of a layer (Block),2,90,3\n"
        "host time of a layer beside its launches,2,55,3\n\"passes, operator by "
        "operator\",1,0.5,3\n\"passes, compiled\",2,0.5,3\n");
    CHECK(notes == std::vector<std::string>{
                       "2 kernels of products whose type is not recorded: not in the table",
                       "run.gemms.csv: 4 rows", "run.batches.csv: 1 rows",
                       "run.attention.csv: 1 rows", "run.passes.csv: 1 rows",
                       "run.launches.csv: 5 rows"});
    CHECK(files.size() == 5);
    Profile bare = written_down();
    bare.layer.host = Seconds(35e-6);  // nothing beside the launches
    bare.launches.clear();
    for (DeviceSpan& s : bare.spans) s.launched = not_launched;
    CHECK(table_of(profile_tables({bare}, "run", 0, notes), "launches")
              .starts_with("kind,calls,time_us_per_call,rank\nhost time of a layer "
                           "(Block),2,35,3\nhost time of a layer beside its launches,2,35,3\n"));
    bare.layer = {};
    CHECK(table_of(profile_tables({bare}, "run", 0, notes), "launches")
              .starts_with("kind,calls,time_us_per_call,rank\n\"passes"));
}

namespace {

// One kernel of one collective on the only rank at hand, of `world`.
std::pair<std::string, std::vector<std::string>> one_exchange(const CollectiveCall& call, int world,
                                                              int node_devices, int said) {
    Profile p;
    p.ranks = world;
    p.node_devices = node_devices;
    p.device.name = "G";
    p.collectives = {call};
    DeviceSpan s;
    s.kind = SpanKind::communication;
    s.collective = 0;
    s.finish = 7000;
    p.spans = {s};
    std::vector<std::string> notes;
    const std::string table = table_of(profile_tables({p}, "run.csv", said, notes), "collectives");
    const auto row = table.find('\n');
    return {row == std::string::npos ? "" : table.substr(row + 1), notes};
}
std::string nodes_said(const CollectiveCall& call, int world, int node_devices, int said) {
    const std::string row = one_exchange(call, world, node_devices, said).first;
    if (row.empty()) return "";
    const auto first = row.find(','), second = row.find(',', first + 1),
               third = row.find(',', second + 1);
    return row.substr(first + 1, third - first - 1);
}

}  // namespace

// Ranks fill node after node. "RANKS,NODES" of the row; empty: not in the table.
TEST_CASE(
    "a collective's nodes follow from its members and the node's devices, or from what was said") {
    CollectiveCall all{"allreduce", "Half", "dp", "", 8, -1, -1, 500, 500, true};
    CHECK(one_exchange(all, 8, 4, 0).first == "all_reduce,8,2,1000,7,G,1,1,0,upper,dp\n");
    CHECK(nodes_said(all, 8, 8, 0) == "8,1");
    CHECK(nodes_said(all, 8, 9, 0) == "8,1");
    CHECK(nodes_said(all, 8, 1, 0).empty());  // one device may be all that the process was shown
    CHECK(nodes_said(all, 8, 3, 0).empty());  // no whole number of nodes
    CHECK(nodes_said(all, 8, 1, 1) == "8,1");
    CHECK(nodes_said(all, 8, 1, 2) == "8,2");
    CHECK(nodes_said(all, 8, 1, 3).empty());  // eight ranks are not on three
    CollectiveCall some = all;
    some.ranks = 2;
    CHECK(nodes_said(some, 8, 4, 0).empty());  // whose members are not told
    CHECK(nodes_said(some, 8, 4, 2) == "2,2");
    some.members = "[1,2]";
    CHECK(nodes_said(some, 8, 2, 0) == "2,2");
    CHECK(nodes_said(some, 8, 4, 0) == "2,1");
    CHECK(nodes_said(some, 8, 1, 4) == "2,2");
    some.members = "[1,2,3]";
    some.ranks = 3;
    CHECK(nodes_said(some, 8, 2, 0).empty());  // not as many on both
    CollectiveCall pair{"send_recv", "Half", "pp", "", 8, 3, 4, 500, 500, true};
    CHECK(nodes_said(pair, 8, 4, 0) == "2,2");
    pair.source = 5;
    CHECK(nodes_said(pair, 8, 4, 0) == "2,1");
    CHECK(nodes_said(pair, 16, 4, 0).empty());  // members of a part of the job, not told
    pair.members = "[0,2,4,6,8,10,12,14]";      // 10 and 8
    CHECK(nodes_said(pair, 16, 4, 0) == "2,1");
    CHECK(nodes_said(pair, 16, 1, 8) == "2,2");
    pair.source = -1;
    CHECK(nodes_said(pair, 16, 4, 0).empty());
    CollectiveCall operators = all;  // names no group: that of all ranks
    operators.from_kernel = false;
    operators.ranks = 0;
    CHECK(nodes_said(operators, 8, 4, 0) == "8,2");
    CollectiveCall lonely = all;
    lonely.ranks = 1;
    CHECK(one_exchange(lonely, 8, 4, 0).second ==
          std::vector<std::string>{
              "1 calls of collectives without operation, group or size: not in the table"});
    lonely = all;
    lonely.op = "barrier";
    CHECK(one_exchange(lonely, 8, 4, 0).first.empty());
    lonely = all;
    lonely.in_elements = 0;
    CHECK(one_exchange(lonely, 8, 4, 0).first.empty());
    CHECK(one_exchange(all, 8, 3, 0).second ==
          std::vector<std::string>{"1 calls of collectives of groups whose nodes are not stated: "
                                   "not in the table (use --nodes N)"});
    CHECK(one_exchange(all, 8, 4, 0).second ==
          std::vector<std::string>{"one rank only: durations of collectives hold waiting for "
                                   "peers, their least is an upper bound of the transfer",
                                   "run.collectives.csv: 1 rows"});
}

// An all-gather's bytes are its result: of an operator's inputs those of all ranks; a receive
// counts what comes out.
TEST_CASE("a collective's bytes are counted as nccl-tests does") {
    CollectiveCall c{"_allgather_base", "Half", "", "", 4, -1, -1, 10, 40, true};
    CHECK(collective_bytes(c) == Bytes(80));
    c.from_kernel = false;
    c.in_elements = 7;
    CHECK(collective_bytes(c) == Bytes(56));
    c.op = "_reduce_scatter_base";
    CHECK(collective_bytes(c) == Bytes(14));
    c.op = "recv";
    CHECK(collective_bytes(c) == Bytes(80));
    c.op = "allreduce_";
    CHECK(collective_kind(c) == "all_reduce");
    c.op = "send 0->1";
    CHECK(collective_kind(c) == "send_recv");
    for (const char* none : {"_", "barrier", "allreduce__"}) {
        c.op = none;
        CHECK(collective_kind(c).empty());
    }
}
