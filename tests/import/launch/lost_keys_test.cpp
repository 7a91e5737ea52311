// No key that changes the forecast is dropped in silence by --emit.

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "import/launch/lost_keys.h"
#include "model/input/key_table.h"
#include "tests/import/launch/every_key.h"
#include "tests/import/launch/imported_again.h"
#include "tests/import/launch/shared_configs.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::every_key;
using Catch::Matchers::Contains;

namespace {

std::string last_part(std::string_view path) {
    return std::string(path.substr(path.rfind('.') + 1));
}

std::string all_lines(const Emission& emission) {
    return fmt::format("{}", fmt::join(emission.without, "\n"));
}

// "" if the change shows: in the text, by name in a note (the base's if the change is to what the
// script does), or in a refusal.
std::string hidden_change(const Emission& base, const Experiment& e, EmitFormat format,
                          const Key& key) {
    const auto names = [&](const Emission& emission) {
        return all_lines(emission).find(std::string(key.path) + " =") != std::string::npos;
    };
    try {
        const Emission emission = emit(e, format);
        if (emission.text != base.text || names(emission)) return "";
        if (all_lines(emission) != all_lines(base) &&
            (names(base) || key.path.starts_with("framework.")))
            return "";
        return "the same script";
    } catch (const ConfigError& error) {
        const std::string what = error.what();
        return what.find(last_part(key.path)) != std::string::npos
                   ? ""
                   : "refused without the key's name: " + what;
    }
}

}  // namespace

// The law: whatever key is changed, if the step or its memory is another, so is the script, or a
// note or refusal names the key. Keys come from the table of keys, so that one that is added is
// tried too.
TEST_CASE("a key that changes the forecast changes what is emitted, or is named") {
    std::set<std::string> tried;  // format and key of the changes that moved a forecast
    std::vector<std::vector<std::pair<const Emission, EmitFormat>>> emitted;
    const auto all = bases();
    for (const Experiment& base : all) {
        auto& here = emitted.emplace_back();
        for (const EmitFormat format : formats) try {
                here.emplace_back(emit(base, format), format);
            } catch (const ConfigError&) {  // not a split of this framework
            }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto before = forecast(all[i]);
        for (const Key& key : all_keys()) {
            int moved = 0;
            if (!concerns_scripts(key)) continue;
            for (const std::string& value : values_for(key)) {
                Experiment e;
                if (moved == 2 || !changed(all[i], key, value, e) || forecast(e) == before)
                    continue;
                ++moved;
                for (const auto& [emission, format] : emitted[i]) {
                    INFO("base " << i << " " << to_string(format) << " " << key.path << "="
                                 << value);
                    CHECK(hidden_change(emission, e, format, key) == "");
                    tried.insert(fmt::format("{} {}", to_string(format), key.path));
                }
            }
        }
    }
    // What the issue names, and enough of the rest that the law was not empty.
    for (const char* key : {"workload.mtp_layers", "workload.window", "workload.causal",
                            "workload.head_share", "workload.optimizer", "runtime.loss.fused",
                            "workload.moe.interval", "workload.moe.dense_layers",
                            "runtime.gradients.fused_accumulation", "runtime.pipeline.blocking"})
        CHECK(tried.contains(fmt::format("megatron {}", key)));
    for (const EmitFormat format : formats) {
        const auto count = std::ranges::count_if(tried, [&](const std::string& one) {
            return one.starts_with(fmt::format("{} ", to_string(format)));
        });
        CAPTURE(to_string(format), count);
        CHECK(count > 75);
    }
}

namespace {

constexpr std::uint64_t drawn = 200;

// One of the bases with about one in eight of all keys drawn anew, as far as the framework can
// still run it.
Experiment any_experiment(const std::vector<Experiment>& from, EmitFormat format,
                          std::mt19937_64& random, std::map<std::string, int>& drawn_keys) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    Experiment e;
    do e = from[below(from.size())];
    while (!can_emit(e, format));
    for (const Key& key : all_keys()) {
        if (!concerns_scripts(key) || below(8) > 0) continue;
        const auto values = values_for(key);
        const std::size_t start = below(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            Experiment other;
            if (!changed(e, key, values[(start + i) % values.size()], other) ||
                !can_emit(other, format))
                continue;
            e = other;
            ++drawn_keys[std::string(key.path)];
            break;
        }
    }
    return e;
}

std::string difference(const Experiment& e, const Experiment& back) {
    std::string text;
    for (const Key& key : all_keys())
        if (!is_preset(key) && text_of(key, e) != text_of(key, back))
            text += fmt::format("{} {} | {}; ", key.path, text_of(key, e), text_of(key, back));
    return text;
}

}  // namespace

// Megatron-LM's flags: add_argument calls, and fields of its classes from which further flags are
// made. A boolean that defaults to true has a form with --no- or --disable-.
TEST_CASE("every flag that is emitted for Megatron-LM is one of its own") {
    const auto configs = shared_configs();
    const std::string folder = configs.empty() ? "" : configs + "/arguments/";
    if (is_absent(folder, "shared/configs/arguments")) return;
    std::set<std::string> known;
    for (const char* name : {"megatron-lm.csv", "megatron-lm-config-classes.csv"}) {
        std::ifstream file(folder + name);
        for (std::string line; std::getline(file, line);) {
            std::string flag = line.substr(0, line.find(','));
            if (const auto dot = flag.find('.'); dot != std::string::npos)
                flag = "--" + flag.substr(dot + 1);
            std::ranges::replace(flag, '_', '-');
            known.insert(flag);
        }
    }
    std::map<std::string, int> drawn_keys;
    std::mt19937_64 random(11);
    int flags = 0;
    for (int i = 0; i < 60; ++i) {
        std::istringstream script(
            emit(any_experiment(bases(), EmitFormat::megatron, random, drawn_keys),
                 EmitFormat::megatron)
                .text);
        for (std::string line; std::getline(script, line);) {
            if (!line.starts_with("    --")) continue;
            const std::string flag = line.substr(4, line.find(' ', 4) - 4);
            INFO(flag);
            const bool negated = flag.starts_with("--no-") || flag.starts_with("--disable-");
            // Names that metadata give to the fields fp8, fp4 and add_bias_linear
            // (transformer_config.py of Megatron-Core 0.16.1).
            const bool renamed =
                flag == "--fp8-format" || flag == "--fp4-format" || flag == "--disable-bias-linear";
            CHECK((known.contains(flag) || renamed ||
                   (negated && known.contains("--" + flag.substr(flag.find('-', 2) + 1)))));
            ++flags;
        }
    }
    CHECK(flags > 1000);
}

// The forecast of what comes back is equal to the digit once the keys are set that the notes name.
TEST_CASE(
    "what is emitted of any experiment reads back to its forecast, but for the keys that are "
    "named") {
    const TestFolder folder;
    const auto from = bases();
    std::map<std::string, int> drawn_keys;
    for (const EmitFormat format : formats) {
        std::mt19937_64 random(7);
        for (std::uint64_t i = 0; i < drawn; ++i) {
            const Experiment e = any_experiment(from, format, random, drawn_keys);
            const Emission emission = emit(e, format);
            const Experiment back = imported_again(e, emission, format, folder);
            const auto written = forecast(e), read = forecast(back);
            INFO(to_string(format)
                 << " " << i << "\n"
                 << fmt::format("{} s, {} B; read back {} s, {} B\n", written.first,
                                written.second.si(), read.first, read.second.si())
                 << difference(e, back) << "\n"
                 << emission.text << all_lines(emission));
            CHECK(read == written);
        }
    }
    // No base has a legal change of these that is emitted: other kinds of models, styles of one
    // rank, and cuts and chunks that are refused.
    const std::set<std::string> refused{"workload.kind",
                                        "workload.memory",
                                        "workload.mamba.heads",
                                        "workload.delta.value_heads",
                                        "workload.indexer.heads",
                                        "parallelism.cut",
                                        "parallelism.head_apart",
                                        "runtime.kernels",
                                        "parallelism.overlap_chunks",
                                        "routing.file"};
    std::string never;
    for (const Key& key : all_keys()) {
        const std::string path(key.path);
        if (concerns_scripts(key) && may_change_step(path) && !drawn_keys.contains(path) &&
            !refused.contains(path))
            never += path + " ";
    }
    CHECK(never == "");
}
