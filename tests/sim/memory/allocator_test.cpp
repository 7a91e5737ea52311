// The segment lists are derived by hand from the allocator's rules (sizes are multiples of 512 B;
// up to 1 MiB come from segments of 2 MiB, below 10 MiB from such of 20 MiB, else from their own,
// a multiple of 2 MiB; what is left is split off from 512 B on in small segments, above 1 MiB in
// large ones). At the end is what PyTorch's own allocator answered.
#include "sim/memory/allocator.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "model/base/errors.h"

using namespace stepcast;

namespace {

constexpr std::int64_t MiB = mebibyte;

// A list of events by hand.
struct Asked {
    std::vector<AllocatorEvent> events;
    Asked& make(std::uint32_t id, std::int64_t bytes, std::uint8_t stream = 0) {
        events.push_back({AllocatorEvent::Kind::allocate, stream, id, bytes});
        return *this;
    }
    Asked& free(std::uint32_t id) {
        events.push_back({AllocatorEvent::Kind::free, 0, id, 0});
        return *this;
    }
    Asked& use_on(std::uint32_t id, std::uint8_t stream) {
        events.push_back({AllocatorEvent::Kind::record_stream, stream, id, 0});
        return *this;
    }
    Asked& pass(std::uint8_t stream) {
        events.push_back({AllocatorEvent::Kind::synchronize, stream, 0, 0});
        return *this;
    }
    Asked& capture() {
        events.push_back({AllocatorEvent::Kind::capture, 0, 0, 0});
        return *this;
    }
    [[nodiscard]] AllocatorReplay with(const std::string& settings = "",
                                       std::int64_t capacity = 0) const {
        return replay(events, parse_allocator_settings(settings), capacity, Levels::all);
    }
};

using Segments = std::vector<AllocatorSegment>;

std::string refusal_of(const std::string& text) {
    try {
        (void)parse_allocator_settings(text);
    } catch (const ConfigError& e) {
        return e.what();
    }
    return "";
}

}  // namespace

// 5 MiB come from a segment of 20, whose rest serves others until a graph is captured. A whole
// segment that is cached goes then; the graph's stays when nothing of it lives: 12 MiB and 14 do
// not fit into 24, as they would one after the other.
TEST_CASE("a CUDA graph has pools of its own that give nothing back") {
    const auto before = Asked{}.make(0, 5 * MiB).make(1, 18 * MiB).free(1);
    CHECK(Asked(before).make(2, 5 * MiB).with().last.reserved == 38 * MiB);
    Asked captured = before;
    captured.capture().make(2, 5 * MiB);
    CHECK(captured.with().last.reserved == 40 * MiB);
    CHECK(captured.free(2).make(3, 5 * MiB).with().last.reserved == 40 * MiB);
    Asked full = Asked{}.capture().make(0, 12 * MiB).free(0).make(1, 14 * MiB);
    CHECK(full.with("", 26 * MiB).last.reserved == 26 * MiB);
    CHECK(full.with("", 24 * MiB).failed);
    CHECK_FALSE(Asked{}.make(0, 12 * MiB).free(0).make(1, 14 * MiB).with("", 24 * MiB).failed);
}

TEST_CASE("small requests share segments of 2 MiB in steps of 512 B") {
    const auto result = Asked{}.make(0, 1).make(1, 513).make(2, MiB).with();
    CHECK(result.segments ==
          Segments{
              {2 * MiB, 0, true, {{512, true}, {1024, true}, {MiB, true}, {MiB - 1536, false}}}});
    CHECK(result.last == AllocatorLevel{MiB + 1536, 2 * MiB});
}

TEST_CASE(
    "requests above 1 MiB and below 10 share segments of 20 MiB, and leave no piece that is "
    "not larger than 1 MiB") {
    // 12 MiB behind the first, from which 11.5 MiB take all, because only 0.5 would be left
    const auto result = Asked{}.make(0, 8 * MiB).make(1, 11 * MiB + MiB / 2).with();
    CHECK(result.segments == Segments{{20 * MiB, 0, false, {{8 * MiB, true}, {12 * MiB, true}}}});
    CHECK(result.last == AllocatorLevel{20 * MiB, 20 * MiB});
}

TEST_CASE("requests from 10 MiB on get segments of their own in steps of 2 MiB") {
    const auto result = Asked{}.make(0, 10 * MiB).make(1, 10 * MiB + 1).make(2, 13 * MiB).with();
    CHECK(result.segments ==
          Segments{{10 * MiB, 0, false, {{10 * MiB, true}}},
                   {12 * MiB, 0, false, {{10 * MiB + 512, true}, {2 * MiB - 512, false}}},
                   {14 * MiB, 0, false, {{14 * MiB, true}}}});  // 1 MiB is not split off
}

TEST_CASE("the smallest cached block that fits is taken, and of equal ones the first") {
    Asked asked;
    asked.make(0, 40 * MiB).make(1, 30 * MiB).make(2, 30 * MiB).free(0).free(1).free(2);
    const auto result = asked.make(3, 28 * MiB).with();
    CHECK(result.segments == Segments{{40 * MiB, 0, false, {{40 * MiB, false}}},
                                      {30 * MiB, 0, false, {{28 * MiB, true}, {2 * MiB, false}}},
                                      {30 * MiB, 0, false, {{30 * MiB, false}}}});
    CHECK(result.peak == AllocatorLevel{100 * MiB, 100 * MiB});
    CHECK(result.fullest == 2);
}

TEST_CASE("free neighbours of a segment become one") {
    Asked asked;
    asked.make(0, 6 * MiB).make(1, 6 * MiB).make(2, 6 * MiB).free(0).free(2);
    CHECK(asked.with().segments ==
          Segments{{20 * MiB, 0, false, {{6 * MiB, false}, {6 * MiB, true}, {8 * MiB, false}}}});
    CHECK(asked.free(1).with().segments == Segments{{20 * MiB, 0, false, {{20 * MiB, false}}}});
}

TEST_CASE("a cached block serves its own stream only") {
    const auto result = Asked{}.make(0, 30 * MiB).free(0).make(1, 30 * MiB, 1).with();
    CHECK(result.last == AllocatorLevel{30 * MiB, 60 * MiB});
    CHECK(result.segments[1].stream == 1);
}

TEST_CASE("what another stream used is free for others once that stream has passed") {
    Asked asked;
    asked.make(0, 30 * MiB).use_on(0, 1).free(0);
    CHECK(Asked(asked).make(1, 30 * MiB).with().last == AllocatorLevel{30 * MiB, 60 * MiB});
    CHECK(Asked(asked).pass(1).make(1, 30 * MiB).with().last == AllocatorLevel{30 * MiB, 30 * MiB});
    // passing before it was freed says nothing about it
    Asked early;
    early.make(0, 30 * MiB).use_on(0, 1).pass(1).free(0).make(1, 30 * MiB);
    CHECK(early.with().last == AllocatorLevel{30 * MiB, 60 * MiB});
}

// The first request misses the block that waits and goes to the driver, which waits for the device:
// the second one finds it.
TEST_CASE("what another stream used is free once the driver was asked for memory") {
    Asked asked;
    asked.make(0, 30 * MiB).use_on(0, 1).free(0).make(1, 30 * MiB).make(2, 30 * MiB);
    CHECK(asked.with().last == AllocatorLevel{60 * MiB, 60 * MiB});
}

// Blocks from 64 MiB on stay whole: 60 MiB find the 100 too large to split, 90 MiB get the 100
// whole, because they are at most 20 MiB less.
TEST_CASE("blocks from max_split_size_mb on are not split") {
    Asked asked;
    asked.make(0, 100 * MiB).free(0).make(1, 60 * MiB);
    const auto small = asked.with("max_split_size_mb:64");
    CHECK(small.last == AllocatorLevel{60 * MiB, 160 * MiB});
    const auto large = asked.make(2, 90 * MiB).with("max_split_size_mb:64");
    CHECK(large.last == AllocatorLevel{160 * MiB, 160 * MiB});
    CHECK(asked.with().last == AllocatorLevel{150 * MiB, 190 * MiB});  // 40 + 60, and 90
}

// 5 and 30 MiB in pages of 20: one and then one more. After the first is free, 4 MiB go before it
// and 17 fit nowhere: behind the 35 MiB are 5, so one page more. In segments of their own they take
// 20, 30 and 18.
TEST_CASE("an expandable segment grows by pages") {
    Asked asked;
    asked.make(0, 5 * MiB).make(1, 30 * MiB).free(0).make(2, 4 * MiB).make(3, 17 * MiB).make(4, 1);
    const auto result = asked.with("expandable_segments:True");
    CHECK(
        result.segments ==
        Segments{
            {60 * MiB,
             0,
             false,
             {{4 * MiB, true}, {MiB, false}, {30 * MiB, true}, {17 * MiB, true}, {8 * MiB, false}}},
            {2 * MiB, 0, true, {{512, true}, {2 * MiB - 512, false}}}});
    CHECK(asked.with().last.reserved == (20 + 30 + 18 + 2) * MiB);
}

TEST_CASE("whole cached segments are given back where the driver has no more") {
    Asked asked;
    asked.make(0, 40 * MiB).free(0).make(1, 70 * MiB);
    const auto met = asked.with("", 100 * MiB);
    CHECK(met.retries == 1);
    CHECK_FALSE(met.failed);
    CHECK(met.segments == Segments{{70 * MiB, 0, false, {{70 * MiB, true}}}});
    CHECK(met.peak.reserved == 70 * MiB);
    CHECK(asked.with().retries == 0);
}

// The free 36 MiB belong to a segment with a tensor in it: 40 stay reserved, 70 more are not there.
// In an expandable segment the 36 lie behind the tensor, and 1 + 2 pages go back: 70 - 16 = 54
// more.
TEST_CASE("a split segment is not given back, and the request fails") {
    Asked asked;
    asked.make(0, 40 * MiB).free(0).make(1, 4 * MiB).make(2, 70 * MiB);
    const auto result = asked.with("", 100 * MiB);
    CHECK(result.failed == 3);
    CHECK(result.last == AllocatorLevel{4 * MiB, 40 * MiB});
    CHECK(result.levels.size() == 4);
    CHECK_FALSE(asked.with("expandable_segments:True", 100 * MiB).failed);
}

TEST_CASE("requests are rounded to steps between powers of two where the settings say so") {
    const auto allocated = [](std::int64_t bytes, const std::string& settings) {
        return Asked{}.make(0, bytes).with(settings).last.allocated;
    };
    // between 1024 and 2048 MiB in quarters: 1200 -> 1280
    CHECK(allocated(1200 * MiB, "roundup_power2_divisions:4") == 1280 * MiB);
    CHECK(allocated(1024 * MiB, "roundup_power2_divisions:4") == 1024 * MiB);
    // "256:1" holds below 256 MiB too, "1024:8" from there to 2048
    const std::string list = "roundup_power2_divisions:[256:1,1024:8,>:2]";
    CHECK(allocated(100 * MiB, list) == 100 * MiB);
    CHECK(allocated(1030 * MiB, list) == 1152 * MiB);
    CHECK(allocated(2050 * MiB, list) == 3072 * MiB);
}

TEST_CASE("settings of the allocator are refused in PyTorch's words") {
    for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
             {"expandable_segments:true",
              "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"},
             {"expandable_segments", "Index out of bounds in ConfigTokenizer"},
             {"max_split_size_mb:19",
              "CachingAllocator option max_split_size_mb too small, must be >= 20"},
             {"large_segment_size_mb:1", "large_segment_size_mb must be > 10"},
             {"max_split_size_mb:large", "expected a number, found 'large'"},
             {"garbage_collection_threshold:1.5",
              "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"},
             {"per_process_memory_fraction:2",
              "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"},
             {"roundup_power2_divisions:3", "For roundups, the divisions has to be power of 2"},
             {"roundup_power2_divisions:[300:1]",
              "For roundups, the intervals have to be power of 2"},
             {"roundup_power2_divisions:[256:1",
              "Expected closing bracket ']' in ConfigTokenizer but reached end of config"},
             {"expandable:True", "Unrecognized key 'expandable' in CUDA allocator config."},
             {"backend:jemalloc",
              "Unknown allocator backend, options are native and cudaMallocAsync"},
             {"backend:cudaMallocAsync", "is not modelled; expected native"}}) {
        CAPTURE(text);
        CHECK_THAT(refusal_of(text), Catch::Contains(words));
    }
    CHECK(parse_allocator_settings("") == AllocatorSettings{});
    const auto read = parse_allocator_settings(
        " expandable_segments : True, max_split_size_mb:128 ,pinned_use_background_threads:True,"
        "garbage_collection_threshold:0.8,");
    CHECK(read.expandable_segments);
    CHECK(read.max_split_size == 128 * MiB);
    CHECK(read.garbage_collection_threshold == 0.8);
}

namespace {

// 2,000 requests for 512 B to 512 MiB on three streams, from a seed.
std::vector<AllocatorEvent> drawn_events(std::uint64_t seed) {
    const auto draw = [&](std::uint64_t below) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        return (seed >> 33) % below;
    };
    Asked asked;
    std::vector<std::uint32_t> live;
    std::uint32_t next = 0;
    for (int i = 0; i < 2000; ++i) {
        const auto kind = draw(100);
        if (kind < 3 && !live.empty()) {
            const std::uint32_t id = live[draw(live.size())];
            asked.use_on(id, static_cast<std::uint8_t>(draw(3)));
        } else if (kind < 6) {
            asked.pass(static_cast<std::uint8_t>(draw(3)));
        } else if (kind < 54 || live.empty()) {
            const auto power = std::uint64_t{1} << (9 + draw(20));
            const auto bytes = static_cast<std::int64_t>(power + draw(power));
            asked.make(next, bytes, static_cast<std::uint8_t>(draw(3)));
            live.push_back(next++);
        } else {
            const auto back = draw(live.size());
            const auto at = live.size() - 1 - back / (1 + draw(8));
            asked.free(live[at]);
            live[at] = live.back();
            live.pop_back();
        }
    }
    return asked.events;
}

struct Answer {
    const char* settings;
    std::uint64_t seed;
    std::int64_t capacity, allocated, reserved, most_allocated, most_reserved;
    std::size_t retries;
    std::int64_t failed;  // tensor; -1: none
};

}  // namespace

// Answers of CUDACachingAllocator in libc10_cuda.so of PyTorch 2.15.0 (from PyPI), run without a
// GPU on a driver that only counts: cudaMalloc, cuMemCreate and cuMemMap up to the capacity, events
// that are done once their stream has passed.
TEST_CASE("PyTorch's own allocator gave the same answers") {
    constexpr auto GiB = 1024 * MiB;
    constexpr auto gc = "garbage_collection_threshold:0.6,per_process_memory_fraction:0.8";
    constexpr auto expandable = "expandable_segments:True", whole = "max_split_size_mb:64",
                   quarters = "roundup_power2_divisions:4", large = "large_segment_size_mb:32";
    for (const Answer& a : std::vector<Answer>{
             {"", 1, 80 * GiB, 1463542272, 6675234816, 2627756544, 6675234816, 0, -1},
             {"", 2, 1536 * MiB, 603095552, 1434451968, 1247580160, 1539309568, 3, 130},
             {"", 3, GiB, 668307968, 874512384, 692035072, 966787072, 5, 85},
             {expandable, 1, 80 * GiB, 1463542272, 4521459712, 2625996800, 4521459712, 0, -1},
             {expandable, 2, 1536 * MiB, 1264360448, 1327497216, 1472331264, 1600126976, 7, 407},
             {expandable, 3, GiB, 976421376, 1008730112, 993771008, 1073741824, 12, 294},
             {whole, 1, 80 * GiB, 1538145280, 20296237056, 2721133056, 20296237056, 0, -1},
             {whole, 2, 1536 * MiB, 1268568064, 1356857344, 1477740032, 1610612736, 15, 407},
             {whole, 3, GiB, 977137664, 998244352, 994487296, 1061158912, 17, 294},
             {quarters, 1, 80 * GiB, 1576571392, 6234832896, 2912195072, 6234832896, 0, -1},
             {quarters, 2, 1536 * MiB, 623772160, 1486880768, 1290239488, 1600126976, 5, 130},
             {large, 1, 80 * GiB, 1463601664, 6681526272, 2626738688, 6681526272, 0, -1},
             {large, 2, 1536 * MiB, 603095552, 1447034880, 1247580160, 1570766848, 3, 130},
             {gc, 2, 1536 * MiB, 971200000, 1189085184, 1247580160, 1262485504, 1, 389},
             {gc, 3, GiB, 440376832, 671088640, 450564608, 723517440, 1, 23}}) {
        CAPTURE(a.settings, a.seed);
        const auto events = drawn_events(a.seed);
        const auto result = replay(events, parse_allocator_settings(a.settings), a.capacity,
                                   Levels::peaks_only, Driver::does_not_wait);
        CHECK(result.last == AllocatorLevel{a.allocated, a.reserved});
        CHECK(result.peak == AllocatorLevel{a.most_allocated, a.most_reserved});
        CHECK(result.retries == a.retries);
        CHECK((result.failed ? static_cast<std::int64_t>(events[*result.failed].id) : -1) ==
              a.failed);
    }
}

TEST_CASE("a million requests are replayed in less than a second") {
    Asked asked;
    for (std::uint32_t step = 0; step < 500; ++step) {
        for (std::uint32_t i = 0; i < 1000; ++i) asked.make(i, (1 + i % 37) * 300 * 1024);
        for (std::uint32_t i = 1000; i-- > 0;) asked.free(i);
    }
    const auto begin = std::chrono::steady_clock::now();
    CHECK(replay(asked.events, {}).last.allocated == 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    CHECK(took.count() < 1);
}
