// Counts of the constants that influence a fitted cluster's forecasts without being fitted.

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "calibrate/from_measurements.h"
#include "calibrate/table_record.h"

using namespace stepcast;

namespace {

std::map<std::string, FittedConstants> by_table(const Cluster& cluster, const Cluster& start = {}) {
    std::map<std::string, FittedConstants> found;
    for (const FittedConstants& c : other_constants(cluster, start, "a.csv, b.csv")) {
        CHECK(found.emplace(c.what, c).second);
    }
    return found;
}

}  // namespace

// A fitted key is no longer counted as a prior. A key that was unset and is now set counts as one
// more. Bandwidths belong to the datasheet.
TEST_CASE("constants that a fit did not state are counted by their tables") {
    Cluster c;
    c.fitted.emplace();
    const auto all = by_table(c);
    REQUIRE(all.contains("host"));
    CHECK(all.at("host").from == "prior");
    CHECK_FALSE(all.contains("gpu"));
    c.fitted->parameters = {{"host.call", "1 us", "1 us"},
                            {"host.module_forward", "1 us", "1 us"},
                            {"kernel.launch", "1 us", "1 us"}};
    auto fewer = by_table(c);
    CHECK(fewer.at("host").count == all.at("host").count - 2);
    CHECK(fewer.at("kernel").count == all.at("kernel").count - 1);
    CHECK(fewer.at("link.intra").count == all.at("link.intra").count);
    c.host.micro_batch = Seconds(1);
    c.host.read = HostCosts{}.read;  // the default value
    c.intra.bandwidth = BytesPerSecond(7);
    c.interference.compute_slowdown = 0.2;
    const auto more = by_table(c);
    CHECK(more.at("host").count == fewer.at("host").count + 1);
    CHECK(more.at("link.intra").count == fewer.at("link.intra").count);
    const int before = fewer.contains("interference") ? fewer.at("interference").count : 0;
    CHECK(more.at("interference").count == before + 1);
    c.inherits = "dgx-h100";
    CHECK(by_table(c).at("host").from == "prior, or copied from dgx-h100");
}

// An attention kernel counts as 13 numbers, an expert kernel as 6, a curve as its points. They come
// from these files if they changed, else from where the start says, else they are priors.
TEST_CASE("lists of constants are counted by their numbers, with where they come from") {
    Cluster c, start;
    c.fitted.emplace();
    c.kernel.attention_kernels.resize(2);
    c.kernel.attention_kernels[0].name = "a";
    c.kernel.attention_kernels[1].name = "b";
    c.kernel.expert_kernels.resize(3);
    for (std::size_t i = 0; i < 3; ++i)
        c.kernel.expert_kernels[i].name = std::string(1, static_cast<char>('x' + i));
    c.intra.all_reduce = {{Bytes(1), Seconds(1)},
                          {Bytes(2), Seconds(2)},
                          {Bytes(4), Seconds(3)},
                          {Bytes(8), Seconds(4)},
                          {Bytes(16), Seconds(5)}};
    start.kernel.attention_kernels = c.kernel.attention_kernels;
    start.intra.all_reduce = c.intra.all_reduce;
    start.fitted.emplace().constants = {{"kernel.attention_kernels", 26, "earlier.csv"}};
    std::vector<FittedConstants> lists;
    for (const FittedConstants& l : other_constants(c, start, "a.csv"))
        if (l.what.starts_with("kernel.") || l.what.starts_with("link.intra.")) lists.push_back(l);
    std::ranges::sort(lists, {}, &FittedConstants::what);
    std::vector<std::string> names;
    for (const FittedConstants& l : lists)
        names.push_back(l.what + " " + std::to_string(l.count) + " " + l.from);
    CHECK(names == std::vector<std::string>{"kernel.attention_kernels 26 earlier.csv",
                                            "kernel.expert_kernels 18 a.csv",
                                            "link.intra.all_reduce 5 prior"});
}
