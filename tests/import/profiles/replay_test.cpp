// What a replay lets wait for what: nanosecond by nanosecond at the limits by which it tells a wait
// from a chance.
#include "calibrate/replay.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace stepcast;

namespace {

// Nanoseconds. Kernels 0 ("k") and 1 ("nccl") on streams 7, 20 and others.
DeviceSpan kernel(std::int64_t launched, std::int64_t start, std::int64_t finish,
                  std::uint32_t stream = 7) {
    DeviceSpan s;
    s.launched = launched;
    s.start = start;
    s.finish = finish;
    s.stream = stream;
    s.phase = ProfilePhase::forward;
    return s;
}
DeviceSpan exchange(std::int64_t launched, std::int64_t start, std::int64_t finish,
                    std::uint32_t stream = 20) {
    DeviceSpan s = kernel(launched, start, finish, stream);
    s.kind = SpanKind::communication;
    s.collective = 0;
    s.name = 1;
    return s;
}

Profile profile_of(std::vector<DeviceSpan> spans) {
    Profile p;
    p.path = "one";
    p.names = {"k", "nccl", "cudaMemsetAsync", "Memset (Device)"};
    p.collectives = {{"allreduce", "Half", "dp", "", 2, -1, -1, 500, 500, true}};
    p.spans = std::move(spans);
    return p;
}

// The only task that is `of` a lane; of several the last.
TaskId last_on(const Replay& r, Lane lane) {
    TaskId found = 0;
    for (TaskId t = 0; t < r.graph.size(); ++t)
        if (r.graph.places(t)[0].lane() == lane) found = t;
    return found;
}
bool waits(const Replay& r, TaskId task, TaskId for_task) {
    return std::ranges::find(r.graph.predecessors(task), for_task) !=
           r.graph.predecessors(task).end();
}

}  // namespace

// An all-reduce until 100 us, and behind it a kernel on the computing stream, whose own last one
// ended at 40 us. It waited when it began no more than 2 us before that end (as clocks go) and less
// than 50 us after it, had been launched more than 2 us before it, and its stream was free more
// than 2 us before.
TEST_CASE("a kernel waits for the exchange behind which it begins, when nothing else held it") {
    const auto held = [](std::int64_t launched, std::int64_t start, std::int64_t stream_free) {
        const Replay r =
            replay({profile_of({kernel(1000, 2000, stream_free), exchange(3000, 10'000, 100'000),
                                kernel(launched, start, start + 300'000)})});
        return waits(r, last_on(r, Lane::compute), last_on(r, Lane::collective));
    };
    CHECK(held(5000, 101'000, 40'000));
    CHECK(held(5000, 98'000, 40'000));
    CHECK_FALSE(held(5000, 97'999, 40'000));
    CHECK(held(5000, 149'999, 40'000));
    CHECK_FALSE(held(5000, 150'000, 40'000));
    CHECK(held(97'999, 101'000, 40'000));
    CHECK_FALSE(held(98'000, 101'000, 40'000));
    CHECK(held(5000, 101'000, 97'999));
    CHECK_FALSE(held(5000, 101'000, 98'000));
    CHECK_FALSE(held(not_launched, 101'000, 40'000));
}

// Another computing stream's kernel holds one in the same way, and where its own stream is empty,
// too.
TEST_CASE("a kernel waits for another stream's in the same way") {
    const auto held = [](std::int64_t start) {
        const Replay r = replay(
            {profile_of({kernel(1000, 2000, 400'000), kernel(3000, start, start + 10'000, 9)})});
        return waits(r, last_on(r, Lane::send_up), last_on(r, Lane::compute));
    };
    CHECK(held(398'000));
    CHECK_FALSE(held(397'999));
}

// An exchange waits for the last kernel of each other stream that had ended, within 2 us, when it
// began; while one still runs, nothing is told.
TEST_CASE("an exchange waits for what had ended when it began") {
    const auto held = [](std::int64_t start) {
        const Replay r =
            replay({profile_of({kernel(1000, 2000, 50'000), kernel(2000, 51'000, 100'000),
                                exchange(3000, start, 500'000)})});
        CHECK_FALSE(waits(r, last_on(r, Lane::collective), 1));  // the first kernel
        return waits(r, last_on(r, Lane::collective), last_on(r, Lane::compute));
    };
    CHECK(held(98'000));
    CHECK(held(300'000));
    CHECK_FALSE(held(97'999));
}

// A second stream of exchanges waits for the first only as kernels wait for each other.
TEST_CASE("exchanges of two streams wait for each other where they were held") {
    const auto held = [](std::int64_t start) {
        const Replay r = replay(
            {profile_of({exchange(1000, 2000, 100'000), exchange(3000, start, start + 50'000, 21),
                         kernel(1500, 2500, 3000)})});
        return waits(r, last_on(r, Lane::data), last_on(r, Lane::collective));
    };
    CHECK(held(99'000));
    CHECK_FALSE(held(50'000));
    CHECK_FALSE(held(160'000));
}

// The host waits from 30 to 120 us: for the last of each stream that had ended within 2 us of that,
// and goes on from the end of the last of them.
TEST_CASE("the host waits for what has ended when its call returns") {
    const auto host = [](std::int64_t finish, std::int64_t other) {
        Profile p = profile_of({kernel(1000, 2000, 60'000), kernel(2000, 61'000, finish),
                                exchange(3000, 62'000, other), kernel(150'000, 300'000, 300'001)});
        p.waits = {{30'000, 120'000}};
        return replay({p});
    };
    // host 0, what held the first work 1, k 2, host 3, k 4, host 5, nccl 6, host until 30 us 7,
    // host behind the wait 8, host until the last launch 9
    const auto awaited = [](const Replay& r) { return std::pair(waits(r, 8, 4), waits(r, 8, 6)); };
    const Replay both = host(122'000, 115'000);
    CHECK(awaited(both) == std::pair(true, true));
    CHECK(both.measured[7].si() == Approx(27e-6));  // 3 to 30 us
    CHECK(both.measured[8].si() == Approx(0).margin(1e-12));
    CHECK(both.measured[9].si() == Approx(30e-6));  // 120 to 150 us
    const Replay later = host(122'001, 115'000);
    CHECK(awaited(later) == std::pair(false, true));
    CHECK(waits(later, 8, 2));                      // the kernel before it
    CHECK(later.measured[8].si() == Approx(5e-6));  // 115 to 120 us
    const Replay neither = host(122'001, 122'001);
    CHECK(awaited(neither) == std::pair(false, false));
    CHECK(neither.measured[8].si() == Approx(60e-6));  // behind the kernel that ended at 60 us
}

// What nobody launched in the window begins by itself at 10 and 70 us after the first launch, on a
// line of its own; the host's is not moved. On that line stands, too, what held the first work for
// 1 us after its launch.
TEST_CASE("work from before the window is launched elsewhere, at its time") {
    const Replay r = replay(
        {profile_of({kernel(1000, 2000, 5000), kernel(not_launched, 11'000, 20'000, 8),
                     kernel(not_launched, 71'000, 90'000, 8), kernel(101'000, 102'000, 103'000)})});
    std::vector<double> lengths;
    std::vector<TaskId> elsewhere;
    for (TaskId t = 0; t < r.graph.size(); ++t)
        if (r.graph.name(t) == "launched elsewhere") {
            lengths.push_back(r.measured[t].si() * 1e6);
            elsewhere.push_back(t);
            CHECK(r.graph.places(t)[0].lane() == Lane::receive_up);
        }
    REQUIRE(lengths.size() == 3);
    CHECK(lengths[0] == Approx(1));
    CHECK(lengths[1] == Approx(9));
    CHECK(lengths[2] == Approx(60));
    std::vector<TaskId> waiting;  // the two, which compute longest
    for (TaskId t = 0; t < r.graph.size(); ++t)
        if (r.graph.places(t)[0].lane() == Lane::compute) waiting.push_back(t);
    REQUIRE(waiting.size() == 2);
    CHECK(waits(r, waiting[0], elsewhere[1]));
    CHECK(waits(r, waiting[1], elsewhere[2]));
    CHECK(r.step.error.measured.si() == Approx(101e-6));  // from 2 to 103 us
}

// Streams by what they do most; the longest computing one is the computing lane, further ones have
// lanes of their own, and those beyond four share.
TEST_CASE("streams have lanes by what they do most") {
    std::vector<DeviceSpan> spans{exchange(100, 1000, 41'000, 30), exchange(200, 1000, 31'000, 31),
                                  kernel(250, 50'000, 65'000, 31),
                                  exchange(260, 70'000, 75'000, 32)};
    for (std::uint32_t i = 0; i < 6; ++i)
        spans.push_back(kernel(300 + i, 1000 + i, 21'000 - 1000 * i, 40 + i));
    const Replay r = replay({profile_of(spans)});
    std::vector<std::string> lanes;
    for (const Span& s : r.traced.spans) lanes.emplace_back(to_string(s.place.lane()));
    CHECK(lanes == std::vector<std::string>{"collective", "data", "data", "data", "compute",
                                            "send_up", "send_down", "receive_down", "receive_down",
                                            "receive_down"});
}

// The first product, the first attention, the first pass and every kind of collective of 500 halves
// (1,000 B) keep their kinds; what was not told is a pass of its own bytes.
TEST_CASE("work of a trace is of the kind that its operator tells, from the first on") {
    const Gemm gemm{2, 3, 4, 1, Dtype::bf16};
    const Attention attention{1, 2, 8, 8, 4, true, false, Dtype::bf16, true};
    const auto op_of = [&](int sized, const char* collective) {
        const bool exchanges = *collective != 0;
        DeviceSpan span = exchanges ? exchange(100, 1000, 2000) : kernel(100, 1000, 2000);
        span.sized = sized;
        span.bytes = 96;
        Profile p = profile_of({span});
        p.operators = {{"aten::mm", "", gemm},
                       {"sdpa", "", attention, "", 2},
                       {"add", "", MemoryPass{Bytes(60), Bytes(0)}, "add"}};
        if (exchanges) p.collectives[0].op = collective;
        const Replay r = replay({p});
        return r.graph.op(last_on(r, exchanges ? Lane::collective : Lane::compute));
    };
    CHECK(op_of(0, "") == Op(gemm));
    CHECK(op_of(1, "") == Op(attention));
    CHECK(op_of(2, "") == Op(MemoryPass{Bytes(60), Bytes(0)}));
    CHECK(op_of(-1, "") == Op(MemoryPass{Bytes(96), Bytes(0)}));
    CHECK(op_of(-1, "allreduce") == Op(AllReduce{Bytes(1000)}));
    CHECK(op_of(-1, "broadcast") == Op(Broadcast{Bytes(1000), 0}));
    CHECK(op_of(-1, "reduce") == Op(Reduce{Bytes(1000), 0}));
    CHECK(op_of(-1, "send") == Op(SendRecv{Bytes(1000)}));
}

// Copies and sets are no computing, whatever their names.
TEST_CASE("copies are named so") {
    std::vector<DeviceSpan> spans{kernel(100, 1000, 21'000), kernel(200, 30'000, 40'000, 8),
                                  kernel(300, 41'000, 50'000, 8)};
    spans[1].kind = SpanKind::set;
    spans[1].name = 2;
    spans[2].kind = SpanKind::set;
    spans[2].name = 3;
    const Replay r = replay({profile_of(spans)});
    CHECK(r.graph.name(4) == "Memcpy");
    CHECK(r.graph.name(6) == "Memset (Device)");
    CHECK(r.step.ranks[0].measured_exposed == Seconds(0));
}

// Rank 0 computes until 10 us and rank 1 until 80 us, by their own clocks 5 us apart, then both
// all-reduce until 95 us of rank 0's. What transfers is the shorter of both, 10 us; on each rank
// the kernel begins when that rank arrives.
TEST_CASE("ranks meet in their collectives by one clock") {
    Profile first = profile_of({kernel(0, 0, 10'000), exchange(100, 10'000, 95'000)}),
            second = profile_of({kernel(0, 0, 80'000), exchange(100, 80'000, 90'000)});
    second.rank = 1;
    second.origin = 5000;
    const Replay r = replay({first, second});
    const TaskId sum = last_on(r, Lane::collective);
    REQUIRE(r.graph.places(sum).size() == 2);
    CHECK(r.measured[sum].si() == Approx(10e-6));
    CHECK(r.step.error.measured.si() == Approx(95e-6));
    CHECK(r.step.error.replayed.si() == Approx(95e-6));  // rank 1's host begins 5 us later
    std::vector<double> starts;
    for (const Span& s : r.predicted.spans)
        if (s.task == sum) starts.push_back(s.start.si() * 1e6);
    std::ranges::sort(starts);
    REQUIRE(starts.size() == 2);
    // Kernels of one name without sizes are alike: 45 us each.
    CHECK(starts[0] == Approx(45));
    CHECK(starts[1] == Approx(50));
    CHECK(r.step.error.predicted.si() == Approx(60e-6));
}

// Microseconds. Two launches at 10 and 12 whose work begins only 160 later, because the device was
// held up by work that the trace does not show: 172 .. 180 and 180 .. 200; then the host waits from
// 13 to 900 for something else. From the first work to the last 28 as traced, and 28 as replayed;
// 190 (from the first launch on) belongs to neither, and the host's end at 900 to nothing.
TEST_CASE("a replay and its trace are of one span: from the first work on the device to the last") {
    Profile p = profile_of({kernel(10'000, 172'000, 180'000), kernel(12'000, 180'000, 200'000)});
    p.waits = {{13'000, 900'000}};
    const Replay r = replay({p});
    const auto ns = [](Seconds time) { return std::lround(1e9 * time.si()); };
    CHECK(ns(r.step.error.measured) == 28'000);
    CHECK(ns(r.step.error.replayed) == 28'000);
    CHECK(ns(r.step.ranks.at(0).measured_span) == 28'000);
    CHECK(ns(r.step.ranks.at(0).predicted_span) == 28'000);
}

// Microseconds. Work launched before the window: 100 .. 120 and, after a gap, 150 .. 170, on the
// stream that a kernel is launched to at 20, which runs 170 .. 200. Streams keep the order of
// launches, so the gap stays and the whole takes 100; had the kernel of the window gone first, at
// 20, it would have ended at 170. On another stream work without a launch begins at 130 and takes
// 5: it stays there, too.
TEST_CASE("work launched before the window keeps its place in the stream, and its gaps") {
    const auto length = [](std::vector<DeviceSpan> spans) {
        return std::lround(1e9 * replay({profile_of(std::move(spans))}).step.error.replayed.si());
    };
    const DeviceSpan first = kernel(not_launched, 100'000, 120'000),
                     second = kernel(not_launched, 150'000, 170'000),
                     other = kernel(not_launched, 130'000, 135'000, 9),
                     launched = kernel(20'000, 170'000, 200'000),
                     late = kernel(190'000, 260'000, 270'000, 9);
    CHECK(length({first, second, launched}) == 100'000);
    CHECK(length({first, other, second, launched}) == 100'000);
    // launched at 190: 190 .. 200
    CHECK(length({first, other, second, launched, late}) == 100'000);
    // The host is busy until 60 with other launches: work of before the window does not wait for
    // that.
    CHECK(length({kernel(10'000, 11'000, 12'000, 9), kernel(60'000, 61'000, 62'000, 9), first,
                  second}) == 159'000);
}
