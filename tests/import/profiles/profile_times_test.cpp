// What a profile says of times, on profiles written down as values: every figure is told by hand.

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "import/profiles/collective_times.h"
#include "import/profiles/profile_tables.h"
#include "import/profiles/profile_times.h"
#include "tests/model/files.h"

using namespace stepcast;

// Computing 0..10, 5..20 and 20..30 (touching), 50..60; communicating 25..55 and 58..59; a copy
// 100..130; a set 120..140. Computing 40, communicating 31, together 5 + 5 + 1 = 11, busy 0..60 and
// 100..140.
TEST_CASE("times of a device are unions over its streams") {
    Profile p;
    const auto add = [&](std::int64_t start, std::int64_t finish, SpanKind kind,
                         ProfilePhase phase = ProfilePhase::forward) {
        DeviceSpan s;
        s.start = start;
        s.finish = finish;
        s.kind = kind;
        s.phase = phase;
        p.spans.push_back(s);
    };
    using enum SpanKind;
    add(0, 10, compute);
    add(5, 20, compute);
    add(7, 9, compute, ProfilePhase::backward);
    add(20, 30, compute, ProfilePhase::backward);
    add(25, 55, communication);
    add(50, 60, compute);
    add(58, 59, communication);
    add(100, 130, copy);
    add(120, 140, set);
    const DeviceTimes t = device_times(p);
    const auto ns = [](Seconds time) { return std::lround(time.si() * 1e9); };
    CHECK(ns(t.span) == 140);
    CHECK(ns(t.busy) == 100);
    CHECK(ns(t.idle) == 40);
    CHECK(ns(t.compute) == 40);
    CHECK(ns(t.communication) == 31);
    CHECK(ns(t.copies) == 40);
    CHECK(ns(t.overlapped) == 11);
    CHECK(ns(t.exposed) == 20);
    CHECK(ns(t.phases.at(ProfilePhase::forward)) == 35);
    CHECK(ns(t.phases.at(ProfilePhase::backward)) == 12);
    CHECK(t.phases.size() == 2);
}

// A step from 100 to 200 ns. A product by its operator 90..120 (20 of it inside), one by its name
// 120..140, flash attention 140..155, a pass 190..230 (10 inside), an exchange that is none.
TEST_CASE("a profile's kernels by kind are shares of its steps' time") {
    Profile p;
    p.rank = 3;
    p.steps = {{"a", Seconds(100e-9), Seconds(100e-9)}};
    p.names = {"any", "sm90_xmma_gemm_bf16", "flash_fwd_kernel", "ncclDevKernel"};
    p.operators = {{"aten::mm", "c10::BFloat16", Gemm{.m = 1, .n = 1, .k = 1}}};
    const auto add = [&](std::int64_t start, std::int64_t finish, std::uint32_t name,
                         std::int32_t sized = -1) {
        DeviceSpan s;
        s.start = start;
        s.finish = finish;
        s.name = name;
        s.sized = sized;
        if (name == 3) s.kind = SpanKind::communication;
        p.spans.push_back(s);
    };
    add(90, 120, 0, 0);
    add(120, 140, 1);
    add(140, 155, 2);
    add(150, 180, 3);
    add(190, 230, 0);
    const KernelShares k = kernel_shares(p);
    CHECK(k.products == Approx(0.4));
    CHECK(k.attention == Approx(0.15));
    CHECK(k.passes == Approx(0.1));
    // the device does nothing 180..190
    CHECK(idle_stretch(p) == Approx(0.1));
    // without steps, of all from 0 to the last work: 30 + 20, 15, 40 of 230
    p.steps.clear();
    CHECK(kernel_shares(p).products == Approx(50.0 / 230));
    CHECK(kernel_shares(p).passes == Approx(40.0 / 230));
    CHECK(!idle_stretch(p));
}

// Steps begin at 1000 and 3000 ns; the last lasts 1500. Kernels 500..1500 (backward, half of it
// before), 2900..3100 (recompute, over the border), 4000..4400 (optimizer), an exchange 4300..5000
// of which 4400..4500 lies in the step, and one after it.
TEST_CASE("a profile's samples are those of each step, cut at its borders") {
    Profile p;
    p.rank = 2;
    p.peak_reserved = Bytes(11);
    p.peak_allocated = Bytes(13);
    p.steps = {{"a", Seconds(1000e-9), Seconds(700e-9)}, {"b", Seconds(3000e-9), Seconds(1500e-9)}};
    const auto add = [&](std::int64_t start, std::int64_t finish, ProfilePhase phase,
                         SpanKind kind = SpanKind::compute) {
        DeviceSpan s;
        s.start = start;
        s.finish = finish;
        s.kind = kind;
        s.phase = phase;
        p.spans.push_back(s);
    };
    add(0, 900, ProfilePhase::forward);
    add(500, 1500, ProfilePhase::backward);
    add(2900, 3100, ProfilePhase::recompute);
    add(4000, 4400, ProfilePhase::optimizer);
    add(4300, 5000, ProfilePhase::unlinked, SpanKind::communication);
    add(6000, 7000, ProfilePhase::forward);
    Sample like;
    like.run_id = "r";
    like.step = 99;
    const auto text = [&] {
        std::string all;
        for (const Sample& s : profile_samples(p, like)) {
            CHECK((s.run_id == "r" && s.rank == 2 &&
                   s.unit == (s.phase.starts_with("peak") ? "B" : "s")));
            all += fmt::format("{} {} {}\n", s.step, s.phase,
                               std::lround(s.value * (s.unit == "B" ? 1 : 1e9)));
        }
        return all;
    };
    CHECK(text() ==
          "0 step 2000\n0 forward 0\n0 backward 600\n0 optimizer 0\n0 gradient_sync 0\n0 busy "
          "600\n0 idle 1400\n"
          "1 step 1500\n1 forward 0\n1 backward 100\n1 optimizer 400\n1 gradient_sync 100\n1 busy "
          "600\n1 idle 900\n"
          "-1 peak_reserved 11\n-1 peak_allocated 13\n");
    p.steps.clear();
    p.peak_reserved = p.peak_allocated = Bytes(0);
    CHECK(text() ==
          "0 window 7000\n0 forward 1900\n0 backward 1200\n0 optimizer 400\n0 gradient_sync 600\n0 "
          "busy 3700\n0 idle 3300\n");
}

// Of an all-to-all each rank has sizes of its own; the meeting is counted with the first rank's,
// and the other's row has its one call, too.
TEST_CASE("calls whose sizes differ between ranks are a row each") {
    std::vector<Profile> ranks(2);
    for (std::size_t r = 0; r < 2; ++r) {
        ranks[r].path = fmt::format("r{}", r);
        ranks[r].collectives = {
            {"all_to_all", "Half", "ep", "", 2, -1, -1, r == 0 ? 100.0 : 200.0, 300, true}};
        DeviceSpan s;
        s.kind = SpanKind::communication;
        s.collective = 0;
        s.finish = r == 0 ? 10'000 : 14'000;
        ranks[r].spans = {s};
    }
    const std::vector<CollectiveTimes> all = collective_times(ranks);
    REQUIRE(all.size() == 2);
    CHECK((all[0].call.in_elements == 200 && all[0].calls == 1 && all[0].ranks_seen == 1));
    CHECK(all[0].total.si() == Approx(14e-6));
    CHECK((all[1].calls == 1 && all[1].ranks_seen == 2));
    CHECK(all[1].transfer.si() == Approx(10e-6));
}

// Two calls on three ranks: 30, 10, 20 us and 5, 6, 7 us: transfers 10 and 5 (7.5 in the median),
// waiting 20 + 0 + 10 and 0 + 1 + 2 of six. A third call that only one rank shows (its file goes
// on, the others broke off) tells no transfer.
TEST_CASE("calls alike on several ranks: transfer, waiting and bounds") {
    std::vector<Profile> ranks(3);
    const double us[3][3] = {{30, 5, 100}, {10, 6, 0}, {20, 7, 0}};
    for (std::size_t r = 0; r < 3; ++r) {
        ranks[r].path = fmt::format("r{}", r);
        ranks[r].collectives = {{"allreduce", "Half", "dp", "", 4, -1, -1, 500, 500, true}};
        ranks[r].shortened = r == 1;
        ranks[r].broken = r == 2 ? "torn" : "";
        for (int call = 0; call < (r == 0 ? 3 : 2); ++call) {
            DeviceSpan s;
            s.kind = SpanKind::communication;
            s.collective = 0;
            s.start = 1'000'000 * call;
            s.finish = s.start + std::lround(1000 * us[r][call]);
            ranks[r].spans.push_back(s);
        }
    }
    const std::vector<CollectiveTimes> all = collective_times(ranks);
    REQUIRE(all.size() == 1);
    CHECK(all[0].calls == 3);
    CHECK(all[0].ranks_seen == 3);
    CHECK(all[0].total.si() == Approx(178e-6));
    CHECK(all[0].least.si() == Approx(5e-6));
    CHECK(all[0].most.si() == Approx(100e-6));
    CHECK(all[0].transfer.si() == Approx(7.5e-6));
    CHECK(all[0].waiting.si() == Approx(33e-6 / 7));
    CHECK(meetings_of(ranks).untold == 1);
    CHECK(meetings_of(ranks).all.size() == 3);
    // Whole files with other numbers of calls cannot be told to be the same.
    ranks[1].shortened = false;
    CHECK(meetings_of(ranks).untold == 7);
    ranks[1].shortened = true;
    // Another operation or type in a group that is named is another job's; in one without a name it
    // is not told.
    ranks[1].collectives[0].dtype = "float";
    CHECK(complaint([&] { meetings_of(ranks); }) ==
          "r1: call 0 of process group \"dp\" is not that of r0; expected traces of one job, the "
          "same steps");
    for (Profile& p : ranks) p.collectives[0].group.clear();
    CHECK(meetings_of(ranks).untold == 7);
    ranks[1].collectives[0].dtype = "Half";
    ranks[1].collectives[0].op = "all_reduce";  // the same by another name
    CHECK(meetings_of(ranks).untold == 1);
    // Numbered from 0 on, each number once a rank: rank 0 has 0, 1, 2, the others 1, 2.
    for (Profile& p : ranks) p.collectives[0].group = "dp";
    for (std::size_t r = 0; r < 3; ++r)
        for (std::size_t call = 0; call < ranks[r].spans.size(); ++call)
            ranks[r].spans[call].instance = static_cast<int>(call) + (r == 0 ? 0 : 1);
    const Meetings numbered = meetings_of(ranks);
    CHECK(numbered.untold == 0);
    REQUIRE(numbered.all.size() == 3);
    CHECK(numbered.all[numbered.of.at(&ranks[0].spans[0])].ranks.size() == 1);
    CHECK(numbered.all[numbered.of.at(&ranks[0].spans[1])].ranks.size() == 3);
    CHECK(numbered.all[numbered.of.at(&ranks[1].spans[1])].least.si() == Approx(6e-6));
    ranks[0].spans[1].instance = 0;  // twice the same number: no numbers
    CHECK(meetings_of(ranks).untold == 1);
    for (DeviceSpan& s : ranks[0].spans) --s.instance;
    CHECK(meetings_of(ranks).untold == 1);
    for (Profile& p : ranks) p.collectives[0].group.clear();
    std::vector<std::string> notes;
    (void)profile_tables(ranks, "run.csv", 1, notes);
    CHECK(notes.front().starts_with(
        "1 kernels of collectives cannot be matched as one call on several ranks"));
    CHECK(collective_times({}).empty());
}

// Ten calls with a mask of 100 us and ten without of 190 are two forms, and so are other numbers of
// key heads.
TEST_CASE("attention with and without a mask are a row each") {
    Profile p;
    p.path = "p";
    for (const auto& [causal, kv_heads] :
         {std::pair(true, 16), std::pair(false, 16), std::pair(true, 4)})
        p.operators.push_back({"aten::sdpa", "Half",
                               Attention{.batch = 2,
                                         .heads = 16,
                                         .seq_q = 1024,
                                         .seq_k = 1024,
                                         .head_dim = 64,
                                         .causal = causal},
                               "", kv_heads});
    for (int i = 0; i < 30; ++i) {
        DeviceSpan s;
        s.sized = i / 10;
        s.instance = i;
        s.start = 1'000'000 * i;
        s.finish = s.start + (s.sized == 1 ? 190'000 : 100'000);
        p.spans.push_back(s);
    }
    const std::vector<OperatorTimes> all = operator_times(p);
    REQUIRE(all.size() == 3);
    for (const OperatorTimes& t : all) CHECK(t.calls == 10);
}
