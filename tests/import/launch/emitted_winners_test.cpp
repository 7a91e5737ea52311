// What a search finds under a framework is what its script runs.
#include <catch2/catch.hpp>

#include <map>
#include <random>

#include "measured/read.h"
#include "model/input/presets.h"
#include "sim/sweep/sweep.h"
#include "tests/import/launch/imported_again.h"

using namespace stepcast;
using namespace stepcast::every_key;

namespace {

// A framework of each script that --emit writes.
std::map<std::string, std::string> frameworks_by_script() {
    std::map<std::string, std::string> found;
    for (const std::string& name : preset_names(PresetKind::framework))
        if (const std::string script = read_framework(name).script; !script.empty())
            found.try_emplace(script, name);
    found["torchtitan-0.3"] = found.at("torchtitan");
    return found;
}

// A small model with or without experts, on 8 or 16 GPUs, whose layers divide or not.
Experiment drawn_question(const std::string& framework, std::mt19937_64& random) {
    const auto one_of = [&](std::vector<std::string> values) {
        return values[random() % values.size()];
    };
    std::vector<Override> keys{{"framework.preset", framework},
                               {"cluster.nodes", one_of({"1", "2"})},
                               {"workload.layers", one_of({"4", "6", "7", "8"})},
                               {"workload.vocab", one_of({"32000", "128256"})},
                               {"workload.seq", one_of({"1024", "4096"})},
                               {"parallelism.global_batch", one_of({"16", "32", "48"})}};
    if (random() % 2 == 0) {
        keys.push_back({"workload.moe.experts", "8"});
        keys.push_back({"workload.moe.top_k", "2"});
        keys.push_back({"workload.moe.ffn", one_of({"512", "2048"})});
    }
    std::vector<Override> all{{"cluster.preset", "dgx-h100"}, {"workload.hidden", "1024"},
                              {"workload.ffn", "2048"},       {"workload.heads", "16"},
                              {"workload.dtype", "bf16"},     {"workload.optimizer", "adam"}};
    all.insert(all.end(), keys.begin(), keys.end());
    return read_unchecked_experiment("llama3-8b", all);
}

}  // namespace

TEST_CASE(
    "200 winners of drawn searches are emitted for every framework and read back to the digit") {
    const TestFolder folder;
    const auto all = frameworks_by_script();
    CHECK(all.size() == 6);
    for (const auto& [script, framework] : all) {
        const auto format = parse_name<EmitFormat>(script);
        std::mt19937_64 random(48);
        int emitted = 0, refused = 0;
        std::string why;
        for (int drawn = 0; emitted < 200 && drawn < 60; ++drawn) {
            SweepQuestion question;
            question.experiment = drawn_question(framework, random);
            keep_unwritten(question.experiment, format);
            question.axes = {parse_axis("parallelism=all")};
            question.top = 20;
            for (const SweepRow& row : sweep(question, {.threads = 1}).best) {
                Experiment e = question.experiment;
                set_varied(e, row.settings, {});
                Emission emission;
                try {
                    emission = emit(e, format);
                } catch (const ConfigError& error) {
                    ++refused;
                    why += std::string(error.what()) + "\n";
                    continue;
                }
                const Experiment back = imported_again(e, emission, format, folder);
                INFO(script << " " << drawn << "\n" << emission.text);
                CHECK(forecast(back) == forecast(e));
                ++emitted;
            }
        }
        INFO(script << " " << framework << "\n" << why);
        CHECK(emitted >= 200);
        CHECK(refused == 0);
    }
}

TEST_CASE("scripts and switches of every shipped framework are known ones") {
    int switches = 0;
    for (const std::string& name : preset_names(PresetKind::framework)) {
        const Framework framework = read_framework(name);
        INFO(name);
        if (!framework.script.empty()) CHECK_NOTHROW(parse_name<EmitFormat>(framework.script));
        for (const std::string& line : framework.can.switches) {
            const Axis axis = parse_switch(line);
            CHECK(axis.values.size() > 1);
            for (const std::string& value : axis.values) {
                Experiment e;
                CHECK_NOTHROW(set_key(e, {axis.key, value}));
                ++switches;
            }
        }
    }
    CHECK(switches > 20);
    CHECK_THROWS_WITH(parse_switch("runtime.experts.dispatch"), Catch::Contains("KEY=VALUE|VALUE"));
    CHECK_THROWS_WITH(parse_switch("runtime.expert=a"), Catch::Contains("KEY=VALUE|VALUE"));
}
