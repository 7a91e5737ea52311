// A whole training: what a number of tokens or steps takes in time, money and energy, failures
// included. Plain values: what was asked, and the answer that sim/campaign.h fills and reports
// print.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/input/keyed.h"

namespace stepcast {

struct Offer {
    KEY_NAMED(std::string, gpu, {}, "name", "cluster.gpu.name or one of its aliases");
    KEY(double, price_per_gpu_hour, 0, "list price; 0 = not known");
    KEY(std::string, price_source, {}, "who says so, and when");
    KEY_NAMED(Watts, board, {}, "board_power", "limit of the board; 0 = not known");
    KEY_NAMED(Watts, idle, {}, "idle_power", "while it waits");
    KEY_NAMED(Watts, rest, {}, "node_power", "a rank's share of the rest of its node");
    KEY(double, building, 1, "what the building takes, times all these (PUE)");
    KEY(std::string, power_source, {}, "who says so, and when");
    friend bool operator==(const Offer&, const Offer&) = default;
};

// Failures and checkpoints, which interrupt a training.
struct Failures {
    KEY(Seconds, mtbf_per_gpu, {},
        "mean time between failures of one rank that stop all; 0 = none fails");
    KEY(Seconds, checkpoint_time, {}, "training stands while one is written");
    KEY(Seconds, restart_time, {},
        "from a failure until training goes on from the last checkpoint");
    KEY(std::string, source, {}, "who says so");
    friend bool operator==(const Failures&, const Failures&) = default;
};

struct Market {
    KEY(std::string, currency, {}, "of all prices");
    KEY(Failures, failures, {}, "");
    KEY_NAMED(std::vector<Offer>, offers, {}, "gpu", "");
    friend bool operator==(const Market&, const Market&) = default;
};
// A market file (docs/cost-and-machines.md); "" is model/presets/market.toml. Throws ConfigError
// with file:line:column.
Market read_market(const std::string& path = "");

// Reads "15T" or "100k". Throws ConfigError that says what was found and what was expected.
double parse_count(const std::string& text);

// What was asked: a number of steps or of tokens.
struct Training {
    double tokens = 0, steps = 0;
    Market market;
};

struct Goodput {
    Seconds failure_every;     // mean time between failures, over all ranks; 0 = none fails
    Seconds checkpoint_every;  // optimal useful work between two checkpoints; 0 = no checkpoints
    double share = 1;          // useful share of all time
    friend bool operator==(const Goodput&, const Goodput&) = default;
};

// The arrays hold the values for the p10, p50 and p90 of the step.
struct Campaign {
    double tokens = 0, steps = 0;
    int ranks = 0;
    Goodput goodput;
    std::array<Seconds, 3> time{};
    std::array<double, 3> money{};   // 0 = price not known
    std::array<Joules, 3> energy{};  // upper bound; 0 = power not known
    std::string currency;
    Offer offer;  // the prices and powers used
    friend bool operator==(const Campaign&, const Campaign&) = default;
};

}  // namespace stepcast
