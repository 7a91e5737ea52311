#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>

#include "exec/shared_id.h"
#include "model/base/errors.h"
#include "tests/model/files.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

struct Meeting {
    TestFolder own;
    std::string file = own.path() + "/id";
    // all 256 bytes, as an id may have any
    std::string id = [] {
        std::string bytes;
        for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
        return bytes;
    }();
    [[nodiscard]] Launch launch(int rank, int processes = 2) const {
        return {rank, processes, rank, false, file};
    }
};

}  // namespace

TEST_CASE("processes read rank 0's id from its file, whoever comes first, and the file goes") {
    const Meeting m;
    for (const bool waits : {true, false}) {
        std::future<std::string> other;
        const auto read = [&] { return SharedId(m.launch(1), "mine", Seconds(20)).text(); };
        if (waits) other = std::async(std::launch::async, read);
        {
            const SharedId shared(m.launch(0), m.id, Seconds(20));
            if (!waits) other = std::async(std::launch::async, read);
            CHECK(shared.text() == m.id);
            CHECK(other.get() == m.id);
        }
        CHECK_FALSE(fs::exists(m.file));
    }
}

TEST_CASE("a rank 0 that never comes ends the wait") {
    const Meeting m;
    CHECK_THROWS_WITH(
        SharedId(m.launch(1), "", Seconds(0.1)),
        Catch::Contains("rank 0 wrote no " + m.file) && Catch::Contains("within 100 ms"));
    CHECK_THROWS_AS(SharedId(m.launch(1), "", Seconds(0.1)), DeviceError);
}

// What a killed run left: rank 0 would replace it while others have read it, so nobody takes it.
TEST_CASE("the file of another run is refused, and kept") {
    const Meeting m;
    std::ofstream(m.file) << "stepcast: NCCL's id for 2 processes\nold";
    CHECK_THROWS_WITH(SharedId(m.launch(0), m.id, Seconds(20)),
                      Catch::Contains(m.file + " is there already; remove it"));
    CHECK(fs::exists(m.file));
    CHECK(SharedId(m.launch(1), "", Seconds(20)).text() == "old");
    CHECK_THROWS_WITH(SharedId(m.launch(1, 3), "", Seconds(20)),
                      Catch::Contains("holds no id for 3 processes"));
    fs::last_write_time(m.file, fs::file_time_type::clock::now() - std::chrono::seconds(120));
    CHECK_THROWS_WITH(SharedId(m.launch(1), "", Seconds(60)),
                      Catch::Contains("old, of another run"));
    std::ofstream(m.file) << "something else";
    CHECK_THROWS_AS(SharedId(m.launch(1), "", Seconds(20)), ConfigError);
}

TEST_CASE("processes that nothing brings together are told what does, in place of MASTER_ADDR") {
    CHECK_THROWS_WITH(SharedId(Launch{.rank = 1, .processes = 8}, "", Seconds(20)),
                      Catch::Contains("started as 8 processes") &&
                          Catch::Contains("STEPCAST_ID_FILE") && Catch::Contains("mpirun") &&
                          Catch::Contains("MASTER_PORT are not used"));
}
