// Texts for users: the message of every key for a wrong value and a misspelt name, and what is read
// from config.json files.

#include <set>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/families.h"
#include "model/input/hub_config.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "tests/golden_text.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

std::string assigned(const Key& key, const std::string& text) {
    Experiment e;
    try {
        assign_text(key, e, text);
    } catch (const ConfigError& error) {
        return std::string("refused: ") + error.what();
    }
    return text_of(key, e);
}

std::string below(const Key& key, std::string_view kind) {
    if (kind == "integer") return std::to_string(static_cast<long>(key.least) - 1);
    const char* unit = kind == "time"               ? " s"
                       : kind == "bytes"            ? " B"
                       : kind == "bytes per second" ? " B/s"
                       : kind == "flop per second"  ? " FLOP/s"
                                                    : "";
    return fmt::format("{}{}", key.least - 1, unit);
}

}  // namespace

// For every key a number below the smallest allowed one; for the first key of each kind also words,
// wrong units and numbers.
TEST_CASE("golden words: values that keys do not take") {
    std::string text;
    std::set<std::string_view> met;
    for (const Key& key : all_keys()) {
        if (is_preset(key)) continue;
        const std::string_view kind = key.type->kind;
        if (kind == "boolean" && !met.insert(kind).second) continue;
        text += fmt::format("{} ({}): {} -> {}\n", key.path, kind, below(key, kind),
                            assigned(key, below(key, kind)));
        // the TOML reader refuses lists
        if (kind.ends_with("s") || !met.insert(kind).second) continue;
        for (const char* value : {"nonsense", "3 parsecs", "1.5", "true", "2", "2e30", "-0"})
            text += fmt::format("  {} -> {}\n", value, assigned(key, value));
    }
    check_golden("model/golden/values.txt", text);
}

// Every fourth key without its fourth letter from the end, and with two letters of another.
TEST_CASE("golden words: names that are no keys") {
    std::string text;
    for (std::size_t i = 0; i < all_keys().size(); i += 4) {
        const Key& key = all_keys()[i];
        std::string shorter(key.path), other(key.path);
        shorter.erase(shorter.size() - std::min<std::size_t>(4, shorter.size()), 1);
        other.back() = 'q';
        if (!find_key(shorter)) text += shorter + ": " + unknown_key(shorter) + "\n";
        if (!find_key(other)) text += other + ": " + unknown_key(other) + "\n";
    }
    check_golden("model/golden/names.txt", text);
}

TEST_CASE("golden words: what config.json files say") {
    std::string text;
    for (const char* name : {"deepseek_v3.json", "gpt2.json", "llama.json", "mixtral.json"}) {
        const std::string path = home_folder() + "/tests/fuzz/corpus/model_config/" + name;
        const HubConfig read = read_hub_config(path);
        text += fmt::format("==== {}\n", name);
        Experiment e;
        e.workload = read.workload;
        for (const Key& key : keys_of("workload."))
            if (!is_preset(key) && !is_unset(key, e))
                text += fmt::format("{} = {}\n", key.path, text_of(key, e));
        text += fmt::format("runtime.attention = {}\n", to_string(read.attention));
        for (const std::string& note : read.notes) text += "note: " + note + "\n";
    }
    check_golden("model/golden/configs.txt", replaced(text, home_folder(), "HOME"));
}

// The keys that every framework changes, for a dense run of 13 billion weights, one sharded over 16
// ranks, and one with experts in fp8.
TEST_CASE("golden words: what every shipped framework makes of a run") {
    const std::string run =
        "[workload]\nfamily = \"llama\"\nlayers = 40\nhidden = 5120\nheads = 40\nffn = "
        "13824\nvocab = 32000\nseq = 4096\n"
        "dtype = \"bf16\"\noptimizer = \"adam\"\n[cluster]\npreset = \"dgx-h100\"\nnodes = "
        "2\n[parallelism]\nmicro_batch = 1\nglobal_batch = 128\n";
    const std::vector<std::pair<std::string, std::vector<Override>>> runs{
        {"split",
         {{"parallelism.tp", "4"},
          {"parallelism.pp", "2"},
          {"parallelism.dp", "2"},
          {"parallelism.zero", "1"},
          {"parallelism.sequence_parallel", "true"}}},
        {"sharded", {{"parallelism.dp", "16"}, {"parallelism.zero", "3"}}},
        {"experts",
         {{"parallelism.dp", "8"},
          {"parallelism.tp", "2"},
          {"parallelism.sequence_parallel", "true"},
          {"parallelism.ep", "8"},
          {"workload.moe.experts", "64"},
          {"workload.moe.ffn", "1024"},
          {"workload.dtype", "fp8"}}}};
    const TestFolder folder;
    const std::string path = folder.write("run.toml", run);
    std::string text;
    for (const auto& [name, overrides] : runs) {
        const auto as = [&, &of_run = overrides](const std::string& framework) {
            std::vector<Override> all = of_run;
            all.push_back({"framework.preset", framework});
            return read_experiment(path, all);
        };
        const Experiment native = as("native");
        for (const auto& framework : preset_names(PresetKind::framework)) {
            text += fmt::format("==== {}: {}\n", name, framework);
            Experiment e = native;
            try {
                e = as(framework);
            } catch (const ConfigError& error) {
                text += fmt::format("refused: {}\n", error.what());
            }
            for (const Key& key : all_keys())
                if (!is_preset(key) && !key.path.starts_with("framework.") &&
                    text_of(key, e) != text_of(key, native))
                    text += fmt::format("{} = {}\n", key.path, text_of(key, e));
        }
    }
    check_golden("model/golden/frameworks.txt", text);
}
