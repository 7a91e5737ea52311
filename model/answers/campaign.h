// A whole training: what so many tokens or steps take in time, money and energy, failures included. What was asked, and
// plain values that sim/campaign.h fills and reports print.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "model/units.h"

namespace stepcast {

// What a device costs and draws: at its board limit, while it waits, and a rank's share of the rest of its node, all times
// what the building takes on top of that (PUE). 0 = not known. Each with who says so, and when.
struct Offer {
    std::string gpu;  // cluster.gpu.name or one of its aliases
    double price_per_gpu_hour = 0;
    std::string price_source;
    Watts board, idle, rest;
    double building = 1;
    std::string power_source;
    friend bool operator==(const Offer&, const Offer&) = default;
};

// What interrupts a training.
struct Failures {
    Seconds mtbf_per_gpu;     // between failures of one rank that stop all; 0 = none fails
    Seconds checkpoint_time;  // training stands while one is written
    Seconds restart_time;     // from a failure until training goes on from the last checkpoint
    std::string source;
    friend bool operator==(const Failures&, const Failures&) = default;
};

struct Market {
    std::string currency;
    Failures failures;
    std::vector<Offer> offers;
    friend bool operator==(const Market&, const Market&) = default;
};
// A market file (docs/buying.md); "" is model/presets/market.toml. Throws ConfigError with file:line:column.
Market read_market(const std::string& path = "");

// "60 d", "8h", "90 min"; "15T", "100k". Throw ConfigError that says what was found and expected.
Seconds parse_duration(const std::string& text);
double parse_count(const std::string& text);

// What is asked: so many steps, or tokens.
struct Training {
    double tokens = 0, steps = 0;
    Market market;
};

struct Goodput {
    Seconds failure_every;     // mean, of all ranks together; 0 = none fails
    Seconds checkpoint_every;  // the optimal interval of useful work between two checkpoints; 0 = none is written
    double share = 1;          // useful of all time
    friend bool operator==(const Goodput&, const Goodput&) = default;
};

// Three values each: with the p10, p50 and p90 of the step.
struct Campaign {
    double tokens = 0, steps = 0;
    int ranks = 0;
    Goodput goodput;
    std::array<Seconds, 3> time{};
    std::array<double, 3> money{};   // 0 = price not known
    std::array<Joules, 3> energy{};  // at most; 0 = power not known
    std::string currency;
    Offer offer;  // what they were reckoned with
    friend bool operator==(const Campaign&, const Campaign&) = default;
};

}  // namespace stepcast
