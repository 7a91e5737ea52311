// Real traces with the figures that were computed for them by other tools: shared/traces beside the
// source tree.

#include <map>
#include <set>

#include "import/profiles/collective_times.h"
#include "import/profiles/import_profiles.h"
#include "import/profiles/profile_times.h"
#include "model/base/csv.h"
#include "tests/model/files.h"
#include "tests/truth.h"

using namespace stepcast;

namespace {

std::string traces() { return shared_folder("traces"); }
bool absent() { return is_absent(traces(), "shared/traces"); }

using ReferenceRow = std::map<std::string, std::string>;
std::vector<ReferenceRow> table(const std::string& name) {
    CsvReader reader(traces() + "/reference/" + name);
    reader.next();
    const auto header = reader.fields();
    std::vector<ReferenceRow> rows;
    while (reader.next()) {
        ReferenceRow row;
        for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = reader.fields()[i];
        rows.push_back(row);
    }
    return rows;
}
double number(const ReferenceRow& row, const std::string& column) {
    return row.at(column).empty() ? 0 : std::stod(row.at(column));
}
double microseconds_of(Seconds time) { return time.si() * 1e6; }

const Profile& profile(const std::string& file) {
    static std::map<std::string, Profile> read;
    const auto at = read.find(file);
    return at != read.end()
               ? at->second
               : read.emplace(file, read_profiles(traces() + "/" + file).front()).first->second;
}

}  // namespace

TEST_CASE("real traces: span, busy, idle and overlap within 0.1 %", "[shared]") {
    if (absent()) return;
    int checked = 0;
    for (const ReferenceRow& row : table("timeline.csv")) {
        std::string file = row.at("file");
        // Of the file with two readings ours is the second: symmetric memory's kernels communicate.
        if (file == "vllm_tp8_decode_b200_rank0.json.gz") continue;
        file = file.substr(0, file.find(' '));
        const DeviceTimes t = device_times(profile(file));
        INFO(file);
        const auto close = [&](Seconds ours, const char* column) {
            CHECK(microseconds_of(ours) == Approx(number(row, column)).epsilon(1e-3).margin(1));
        };
        CHECK(static_cast<double>(profile(file).counts.kernels) == number(row, "kernels"));
        close(t.span, "span_us");
        close(t.busy, "busy_us");
        close(t.idle, "idle_us");
        close(t.compute, "compute_union_us");
        close(t.communication, "comm_union_us");
        close(t.copies, "memory_union_us");
        close(t.overlapped, "comm_beside_compute_us");
        close(t.exposed, "exposed_comm_us");
        ++checked;
    }
    REQUIRE(checked == 15);
}

TEST_CASE("real traces: every product's sizes, calls and time", "[shared]") {
    if (absent()) return;
    using Key = std::tuple<std::string, std::string, long, long, long, long, std::string>;
    std::map<Key, std::pair<int, double>> ours;
    std::set<std::string> files;
    const auto rows = table("gemm.csv");
    for (const ReferenceRow& row : rows) files.insert(row.at("file"));
    for (const std::string& file : files)
        for (const OperatorTimes& t : operator_times(profile(file))) {
            if (!std::holds_alternative<Gemm>(t.call.work)) continue;
            const Gemm& g = std::get<Gemm>(t.call.work);
            // the table knows no layouts
            auto& sum = ours[{file, t.call.op, g.batch, g.m, g.n, g.k, t.call.dtype}];
            sum.first += t.calls;
            sum.second += microseconds_of(t.total);
        }
    for (const ReferenceRow& row : rows) {
        const auto at = ours.find({row.at("file"), row.at("op"), std::stol(row.at("batch")),
                                   std::stol(row.at("m")), std::stol(row.at("n")),
                                   std::stol(row.at("k")), row.at("dtype")});
        INFO(row.at("file") << " " << row.at("op") << " " << row.at("m") << " x " << row.at("n")
                            << " x " << row.at("k"));
        REQUIRE(at != ours.end());
        CHECK(at->second.first == std::stoi(row.at("calls")));
        CHECK(at->second.second == Approx(number(row, "time_us_sum")).margin(0.01));
    }
}

TEST_CASE("real traces: collectives' operation, elements, calls and times", "[shared]") {
    if (absent()) return;
    for (const ReferenceRow& row : table("collectives.csv")) {
        if (row.at("source") != "kernel args") continue;
        INFO(row.at("file") << " " << row.at("collective") << " " << row.at("in_elements"));
        bool found = false;
        for (const CollectiveTimes& t : collective_times({profile(row.at("file"))})) {
            if (t.call.op != row.at("collective") ||
                t.call.in_elements != number(row, "in_elements") || t.call.dtype != row.at("dtype"))
                continue;
            found = true;
            CHECK(t.call.ranks == std::stoi(row.at("ranks")));
            CHECK(t.calls == std::stoi(row.at("calls")));
            CHECK(microseconds_of(t.total) == Approx(number(row, "time_us_sum")).margin(0.01));
            CHECK(microseconds_of(t.least) == Approx(number(row, "time_us_min")).margin(0.01));
        }
        CHECK(found);
    }
}

TEST_CASE("real traces: steps, phases and launches within 0.5 %", "[shared]") {
    if (absent()) return;
    for (const ReferenceRow& row : table("steps.csv")) {
        const auto& steps = profile(row.at("file")).steps;
        if (profile(row.at("file")).steps_on_device) continue;  // one trace, below
        const auto at = std::find_if(steps.begin(), steps.end(),
                                     [&](const auto& s) { return s.name == row.at("step"); });
        INFO(row.at("file") << " " << row.at("step"));
        REQUIRE(at != steps.end());
        CHECK(microseconds_of(at->duration) == Approx(number(row, "host_time_us")).epsilon(1e-6));
    }
    // The host marks 16.8, 16.0 and 15.9 ms, then waits 37.9 ms for the device, whose own marks of
    // the steps begin 18.9 and 19.1 ms after each other.
    const Profile ahead = profile("resnet_checkpointed_ddp8_mi300x_rank0.json.gz");
    REQUIRE(ahead.steps_on_device);
    REQUIRE(ahead.steps.size() == 2);
    CHECK(microseconds_of(ahead.steps[0].duration) == Approx(19050).epsilon(0.01));
    CHECK(microseconds_of(ahead.steps[1].duration) == Approx(18554).epsilon(0.01));
    for (const ReferenceRow& row : table("phases.csv")) {
        const DeviceTimes t = device_times(profile(row.at("file")));
        double ours = 0;
        for (const auto& [phase, time] : t.phases) {
            const bool backward =
                phase == ProfilePhase::backward || phase == ProfilePhase::recompute;
            const std::string name = backward ? "backward"
                                     : phase == ProfilePhase::unlinked
                                         ? "not linked"
                                         : std::string(to_string(phase));
            if (name == row.at("phase")) ours += microseconds_of(time);
        }
        INFO(row.at("file") << " " << row.at("phase"));
        // Symmetric memory's kernels are communication here, computation there.
        if (row.at("file") != "vllm_tp8_decode_b200_rank0.json.gz")
            CHECK(ours == Approx(number(row, "time_us")).epsilon(5e-3));
    }
    for (const ReferenceRow& row : table("launches.csv"))
        CHECK(static_cast<double>(profile(row.at("file")).launches.size()) ==
              number(row, "launch_calls"));
}

TEST_CASE("eight real ranks: the shortest duration of each collective is its transfer",
          "[shared]") {
    if (absent()) return;
    std::vector<Profile> ranks;
    for (int r = 0; r < 8; ++r)
        ranks.push_back(profile("dlrm_8xv100/rank" + std::to_string(r) + ".json.gz"));
    std::map<double, double> transfer;  // by elements, of the all-reduces
    for (const CollectiveTimes& t : collective_times(ranks))
        if (collective_kind(t.call) == "all_reduce")
            transfer[t.call.in_elements] = microseconds_of(t.transfer);
    REQUIRE(transfer.size() == 3);
    CHECK(transfer.at(112) == Approx(20));
    CHECK(transfer.at(226960) == Approx(69));
    CHECK(transfer.at(394241) == Approx(86));
}

TEST_CASE("real Nsight exports: kernels and their time", "[shared]") {
    if (absent()) return;
    for (const ReferenceRow& row : table("nsys_summary.csv")) {
        if (row.at("quantity") != "kernels") continue;
        const Profile& p = profile(row.at("file"));
        CHECK(p.counts.kernels == std::stol(row.at("calls")));
        CHECK(device_times(p).phases.at(ProfilePhase::forward).si() * 1e9 ==
              Approx(number(row, "time_ns_sum")));
        CHECK(p.device.name == "NVIDIA H200");
    }
}
