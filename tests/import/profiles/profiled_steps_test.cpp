// Which marks are steps, whose clock times them, and which phases are told: from records written
// down as values.

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "import/profiles/link_records.h"
#include "import/profiles/profile_tables.h"
#include "import/profiles/profile_times.h"
#include "import/profiles/profiled_steps.h"
#include "import/profiles/trace_records.h"

using namespace stepcast;

namespace {

using Names = std::vector<std::string>;

// Times in microseconds.
struct MarkedWork {
    TraceRecords r;
    std::uint64_t calls = 0;
    MarkedWork() { r.profile.shapes = true; }
    void range(const std::string& name, std::int64_t start, std::int64_t finish,
               std::uint32_t thread = 1) {
        r.host.push_back(
            {1000 * start, Length(1000 * (finish - start)), thread, r.names.add(name)});
    }
    void mark(int number, std::int64_t start, std::int64_t finish) {
        r.steps.push_back({1000 * start, Length(1000 * (finish - start)), 1,
                           r.names.add("step " + std::to_string(number))});
    }
    // A kernel launched at `call` by a thread; 0 = by no call that is known.
    void work(std::int64_t call, std::int64_t start, std::int64_t finish,
              std::uint32_t thread = 1) {
        DeviceRecord d;
        d.start = 1000 * start;
        d.length = Length(1000 * (finish - start));
        d.name = r.names.add("k");
        if (call != 0) {
            d.correlation = ++calls;
            r.calls.push_back({1000 * call, calls, Length(0), thread});
        }
        r.device.push_back(d);
    }
    // Four steps, each of `host` us on the host and 100 us on the device, of which 90 are work.
    void four_steps(std::int64_t host, std::int64_t late = 0) {
        for (int i = 0; i < 4; ++i) {
            mark(i, 1 + i * host, 1 + (i + 1) * host);
            work(2 + i * host, late + 5 + 100 * i, late + 40 + 100 * i);
            work(3 + i * host, late + 40 + 100 * i, late + 95 + 100 * i);
        }
    }
    Profile profile() const { return link_records(r, "x.json"); }
};

// "step 1: 0.1", and where it begins after the first.
Names steps_of(const Profile& p) {
    Names all;
    for (const ProfiledStep& s : p.steps)
        all.push_back(
            fmt::format("{} {:.0f}+{:.0f}", s.name, s.start.si() * 1e6, s.duration.si() * 1e6));
    return all;
}
Names rows(const Profile& p, std::string_view phase) {
    Names all;
    for (const Sample& s : profile_samples(p, {}))
        if (s.phase == phase) all.push_back(fmt::format("{}: {:.3f}", s.step, s.value * 1e6));
    return all;
}
bool says(const Profile& p, const std::string& words) {
    return std::ranges::any_of(
        p.notes, [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

}  // namespace

// Steps 0 to 3 of 100 us each; then two of another window, 7 and 8, and an evaluation's, whose
// numbers begin again. Without a bound between them step 3 would last until step 7, 400 us.
TEST_CASE("steps of several windows are not one row of steps") {
    MarkedWork m;
    m.four_steps(100);
    for (const int number : {7, 8, 0, 1, 2}) {
        const auto at = static_cast<std::int64_t>(m.calls) * 100;
        m.mark(number, at, at + 20);
        m.work(at + 1, at + 2, at + 19);
    }
    const Profile p = m.profile();
    CHECK(p.steps.size() == 4);
    CHECK(rows(p, "step") == Names{"0: 100.000", "1: 100.000", "2: 100.000", "3: 100.000"});
    CHECK(says(p,
               "the numbers of 9 marks of steps jump or begin again: the steps are step 0 to "
               "step 3"));
}

// The host is through after 81 us, the device after 395; from the end of one step's work to the
// next is 100. The first work begins at 5.
TEST_CASE("a host that runs ahead of the device does not time the steps") {
    MarkedWork x;
    x.four_steps(20);
    Profile p = x.profile();
    CHECK(p.steps_on_device);
    CHECK(steps_of(p) == Names{"step 1 90+100", "step 2 190+100", "step 3 290+100"});
    CHECK(says(p,
               "the host ran ahead of the device, by 0.311 ms at the end of its last step: steps "
               "are timed on the device"));
    CHECK(rows(p, "step") == Names{"1: 100.000", "2: 100.000", "3: 100.000"});
    CHECK(rows(p, "busy") == Names{"1: 90.000", "2: 90.000", "3: 90.000"});
    CHECK(rows(p, "idle") == Names{"1: 10.000", "2: 10.000", "3: 10.000"});
    p.shortened = x.r.profile.shortened = true;
    CHECK(x.profile().steps.size() == 2);
    // Marks that launch nothing are no steps; what comes before them ends with the work of the
    // next.
    x.r.profile.shortened = false;
    x.mark(4, 81, 90);
    x.mark(5, 90, 99);
    x.work(91, 405, 495);
    p = x.profile();
    CHECK(steps_of(p) ==
          Names{"step 1 90+100", "step 2 190+100", "step 3 290+100", "step 5 390+100"});
    CHECK(rows(p, "step").back() == "5: 100.000");
}

TEST_CASE("steps are the host's where it keeps in step with the device, also far ahead of it") {
    const Names expected{"step 0 -4+100", "step 1 96+100", "step 2 196+100", "step 3 296+100"};
    MarkedWork beside, behind;
    beside.four_steps(100);
    CHECK(steps_of(beside.profile()) == expected);
    CHECK_FALSE(beside.profile().steps_on_device);
    CHECK_FALSE(says(beside.profile(), "ran ahead"));
    behind.four_steps(100, 70);  // 68 of them before the first step, too
    CHECK(steps_of(behind.profile()).size() == 4);
    // 106 us of queue less 3 before the first: a tenth of a step is 9 more than that.
    for (const auto& [end, on_device] : {std::pair{413, false}, {415, true}}) {
        MarkedWork x;
        x.four_steps(100);
        x.work(399, 395, end);
        CHECK(x.profile().steps_on_device == on_device);
    }
}

// Five steps of 100 us on the host and on the device. The device begins with the first launch, ends
// the first step's work 80 us behind the host's mark, and each later one as late: the queue is as
// long at the end as after the first step, so a step takes 100 and none is lost. One that grows by
// 15 in each step is timed on the device, where the first has no beginning.
TEST_CASE(
    "a device that stays as far behind the host as after the first step is timed by the host") {
    const auto read = [](std::int64_t host_first, std::int64_t grows) {
        MarkedWork x;
        std::int64_t at = 1;
        for (int i = 0; i < 5; ++i) {
            const std::int64_t next = at + (i == 0 ? host_first : 100);
            x.mark(i, at, next);
            x.work(at + 1, i == 0 ? at + 2 : at + 75 + grows * (i - 1), next + 80 + grows * i);
            at = next;
        }
        return x.profile();
    };
    const Profile constant = read(100, 0);
    CHECK_FALSE(constant.steps_on_device);
    CHECK(steps_of(constant) == Names{"step 0 -2+100", "step 1 98+100", "step 2 198+100",
                                      "step 3 298+100", "step 4 398+100"});
    CHECK_FALSE(says(constant, "ran ahead"));
    const Profile growing = read(100, 15);
    CHECK(growing.steps_on_device);
    CHECK(growing.steps.size() == 4);
    // Where the host was through with the first step after 20, its mark is not what the step took:
    // it is left out, the others stay.
    const Profile ahead = read(20, 0);
    CHECK_FALSE(ahead.steps_on_device);
    CHECK(steps_of(ahead) ==
          Names{"step 1 18+100", "step 2 118+100", "step 3 218+100", "step 4 318+100"});
    CHECK(says(ahead,
               "ran ahead of the device in the first step, and stayed as far ahead: the first is "
               "left out"));
    CHECK(rows(ahead, "step").front() == "1: 100.000");
}

TEST_CASE("a step that cannot be timed has no length") {
    MarkedWork one;
    one.mark(0, 1, 21);
    one.work(2, 5, 95);
    const Profile p = one.profile();
    CHECK(p.steps.empty());
    CHECK(says(p, "no step can be timed, the whole window is one piece"));
    CHECK_FALSE(says(p, "no ProfilerStep"));
    CHECK(rows(p, "step").empty());
    CHECK(rows(p, "window") == Names{"0: 90.000"});
    // Launches that are not recorded: within a step behind its end nothing is known against it.
    for (const auto& [end, steps] : {std::pair{40, 2u}, {62, 0u}}) {
        MarkedWork x;
        x.mark(0, 1, 21);
        x.mark(1, 21, 41);
        x.work(0, 5, end);
        CHECK(x.profile().steps.size() == steps);
    }
    // Marks without length: the last one is an end. Where all are at one time, work behind them is
    // not theirs.
    MarkedWork instants;
    for (int i = 0; i < 3; ++i) instants.mark(i, 1 + 100 * i, 1 + 100 * i);
    for (int i = 0; i < 3; ++i) instants.work(2 + 100 * i, 5 + 100 * i, 95 + 100 * i);
    CHECK(steps_of(instants.profile()) == Names{"step 0 -4+0", "step 1 96+0"});
    CHECK(rows(instants.profile(), "step").front() == "0: 100.000");
    MarkedWork nothing;
    nothing.mark(0, 1, 1);
    nothing.work(0, 5, 95);
    CHECK(nothing.profile().steps.empty());
}

TEST_CASE("a mark inside another is no step") {
    MarkedWork x;
    x.four_steps(100);
    for (int i = 0; i < 4; ++i) {
        x.mark(10, 1 + 100 * i, 101 + 100 * i);  // as long as the step
        x.mark(20, 2 + 100 * i, 50 + 100 * i);   // micro-batches
        x.mark(21, 50 + 100 * i, 100 + 100 * i);
    }
    const Profile p = x.profile();
    CHECK(steps_of(p) ==
          Names{"step 0 -4+100", "step 1 96+100", "step 2 196+100", "step 3 296+100"});
    CHECK(says(p, "12 marks of steps lie inside others: the outer ones are the steps"));
    // Long ones are kept in whole microseconds: the inner one's end may lie behind the outer one's.
    const std::int64_t second = 1'000'000'000;
    CHECK(outermost({{0, Length(3 * second + 900)}, {3 * second - 1000, Length(1800)}}).size() ==
          1);
    CHECK(outermost({{0, Length(3 * second)}, {3 * second - 1000, Length(2200)}}).size() == 2);
    CHECK(outermost({{5, Length(7)}, {0, Length(5)}}).front().start == 0);
}

// Kernels of 10 us: two of the forward, three of the backward (of which two on autograd's thread),
// one of the optimizer.
TEST_CASE(
    "phases are told by ranges of their names, also for threads without one; else they are left "
    "out") {
    for (const auto& [backward, optimizer] : {std::pair{"backward", "optimizer"},
                                              {"Backward_pass", "Optimizer_Step"},
                                              {"BWD", "opt.step()"},
                                              {"loss", "update"}}) {
        const bool told = std::string(backward) != "loss";
        MarkedWork x;
        x.mark(0, 1, 100);
        x.range("iteration", 1, 100);
        x.range("forward", 2, 30);
        x.range(backward, 30, 60);
        if (told) x.range("backward", 31, 33);
        x.range("forward", 50, 55, 2);  // once more, for a checkpoint
        x.range(optimizer, 70, 80);
        const std::pair<std::int64_t, std::uint32_t> calls[] = {{5, 1},  {65, 2}, {34, 1},
                                                                {45, 2}, {52, 2}, {75, 1}};
        std::int64_t at = 6;
        for (const auto& [call, thread] : calls) {
            x.work(call, at, at + 10, thread);
            at += 10;
        }
        CAPTURE(backward);
        const Profile p = x.profile();
        CHECK(rows(p, "forward") == (told ? Names{"0: 20.000"} : Names{}));
        CHECK(rows(p, "backward") == (told ? Names{"0: 30.000"} : Names{}));
        CHECK(rows(p, "optimizer") == (told ? Names{"0: 10.000"} : Names{}));
        CHECK(rows(p, "busy") == Names{"0: 60.000"});
        CHECK(says(p,
                   "no operator or range marks the backward: no rows of forward, backward and "
                   "optimizer") == !told);
    }
}

// A device that is always busy: sums of doubles differ in their last digit.
TEST_CASE("no device is idle for less than nothing") {
    MarkedWork x;
    for (int i = 0; i < 40; ++i) {
        x.mark(i, 1 + 37 * i, 38 + 37 * i);
        x.work(2 + 37 * i, 1 + 37 * i, 38 + 37 * i);
    }
    for (const Sample& s : profile_samples(x.profile(), {}))
        if (s.phase == "idle") CHECK(s.value >= 0);
}

// The furthest that the readers let through.
TEST_CASE("times at the ends of what is a time still are one") {
    constexpr std::int64_t end = 4'000'000'000'000'000;
    MarkedWork x;
    x.mark(0, -end, -end + 5);
    x.mark(1, end, end);
    x.work(-end + 1, -end, -end + 5);
    x.work(-end + 2, end, end + 5);
    x.work(end, -end, end);
    const Profile p = x.profile();
    CHECK(p.steps.size() == 1);
    CHECK_NOTHROW(profile_samples(p, {}));
    MarkedWork back;  // launched at the end of time, worked at its beginning
    back.mark(0, end - 5, end);
    back.work(end - 4, -end, -end + 5);
    back.work(-end, end, end + 5);
    CHECK_NOTHROW(profile_samples(back.profile(), {}));
}
