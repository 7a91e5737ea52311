// No key that changes the forecast is dropped in silence by --emit.
#include "translate/lost_keys.h"

#include <fmt/format.h>

#include <random>
#include <set>

#include "tests/model/files.h"
#include "tests/translate/every_key.h"
#include "translate/readers.h"

using namespace stepcast;
using namespace stepcast::every_key;
using Catch::Matchers::Contains;

namespace {

std::string last_part(std::string_view path) { return std::string(path.substr(path.rfind('.') + 1)); }

std::string all_lines(const Emission& emission) { return fmt::format("{}", fmt::join(emission.without, "\n")); }

// "" if the change shows: in the text, by name in a note (the base's if the change is to what the script does), or in a refusal.
std::string hidden_change(const Emission& base, const Experiment& e, EmitFormat format, const Key& key) {
    const auto names = [&](const Emission& emission) { return all_lines(emission).find(std::string(key.path) + " =") != std::string::npos; };
    try {
        const Emission emission = emit(e, format);
        if (emission.text != base.text || names(emission)) return "";
        if (all_lines(emission) != all_lines(base) && (names(base) || key.path.starts_with("framework."))) return "";
        return "the same script";
    } catch (const ConfigError& error) {
        const std::string what = error.what();
        return what.find(last_part(key.path)) != std::string::npos ? "" : "refused without the key's name: " + what;
    }
}

}  // namespace

// The law: whatever key is changed, if the step or its memory is another, so is the script, or a note or refusal names the key. Keys
// come from the table of keys, so that one that is added is tried too.
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
                if (moved == 2 || !changed(all[i], key, value, e) || forecast(e) == before) continue;
                ++moved;
                for (const auto& [emission, format] : emitted[i]) {
                    INFO("base " << i << " " << to_string(format) << " " << key.path << "=" << value);
                    CHECK(hidden_change(emission, e, format, key) == "");
                    tried.insert(fmt::format("{} {}", to_string(format), key.path));
                }
            }
        }
    }
    // What the issue names, and enough of the rest that the law was not empty.
    for (const char* key : {"workload.mtp_layers", "workload.window", "workload.causal", "workload.head_share", "workload.optimizer",
                            "workload.fused_loss", "workload.moe.interval", "workload.moe.dense_layers", "parallelism.fused_accumulation",
                            "parallelism.blocking_p2p"})
        CHECK(tried.contains(fmt::format("megatron {}", key)));
    for (const EmitFormat format : formats) {
        const auto count = std::ranges::count_if(tried, [&](const std::string& one) { return one.starts_with(fmt::format("{} ", to_string(format))); });
        CAPTURE(to_string(format), count);
        CHECK(count > 75);
    }
}
