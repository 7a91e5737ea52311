// Every name that --emit writes is an argument of its tool, with a value of its type.

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>

#include "model/base/plain_text.h"
#include "model/input/key_table.h"
#include "tests/import/launch/imported_again.h"

using namespace stepcast;
using namespace stepcast::every_key;

namespace {

// tests/data/launch/emitted_arguments.csv: format, version, name, type, source.
std::map<std::string, std::string> types_of(EmitFormat format) {
    std::ifstream file(test_data() + "/launch/emitted_arguments.csv");
    std::map<std::string, std::string> types;
    for (std::string line; std::getline(file, line);) {
        const auto fields = words_of(line, ",");
        if (fields.size() >= 5 && fields[0] == to_string(format)) types[fields[2]] = fields[3];
    }
    return types;
}

// The names of a script with their values: flags without dashes, sections with dots.
std::vector<std::pair<std::string, std::string>> arguments_of(const std::string& text,
                                                              EmitFormat format) {
    std::vector<std::pair<std::string, std::string>> found;
    if (format == EmitFormat::megatron || format == EmitFormat::torchtitan_flags) {
        std::istringstream script(text);
        for (std::string line; std::getline(script, line);) {
            if (!line.starts_with("    --")) continue;
            const auto space = line.find(' ', 4);
            found.emplace_back(line.substr(6, space == std::string::npos ? space : space - 6),
                               space == std::string::npos ? "" : line.substr(space + 1));
        }
        return found;
    }
    const Document d = format == EmitFormat::torchtitan ? read_toml_values(text, "emitted.toml")
                                                        : read_yaml(text, "emitted.yaml");
    for (const NamedValue& value : d.values) found.emplace_back(value.name, value.value);
    return found;
}

bool is_of_type(const std::string& type, const std::string& value) {
    if (type == "flag") return value.empty();
    if (type == "bool") return value == "true" || value == "false";
    if (type == "int") return as_number<long>(value).has_value();
    if (type == "float") return as_number<double>(value).has_value();
    if (type == "text") return !value.empty();
    // one word: torchtitan's parser of list[str] takes one and splits it at commas
    // (config/manager.py)
    if (type == "list") return !value.empty() && value.find(' ') == std::string::npos;
    const auto choices = words_of(type, "|");
    return std::ranges::find(choices, value) != choices.end();
}

// One key in eight drawn anew, as far as the framework runs it.
Experiment drawn_from(const Experiment& base, EmitFormat format, std::mt19937_64& random) {
    Experiment e = base;
    for (const Key& key : all_keys()) {
        if (!concerns_scripts(key) || random() % 8 > 0) continue;
        const auto values = values_for(key);
        Experiment other;
        if (changed(e, key, values[random() % values.size()], other) && can_emit(other, format))
            e = other;
    }
    return e;
}

}  // namespace

TEST_CASE("what is emitted are arguments of the tool's own list, with values of their types") {
    for (const EmitFormat format : formats) {
        const auto types = types_of(format);
        REQUIRE(!types.empty());
        std::set<std::string> met;
        std::mt19937_64 random(5);
        for (const Experiment& base : bases())
            for (int i = 0; i < 12 && can_emit(base, format); ++i)
                for (const auto& [name, value] :
                     arguments_of(emit(drawn_from(base, format, random), format).text, format)) {
                    const auto known = types.find(name);
                    INFO(to_string(format) << ": " << name << " = " << value);
                    CHECK(known != types.end());
                    if (known != types.end()) CHECK(is_of_type(known->second, value));
                    met.insert(name);
                }
        // The list has little that is never written.
        INFO(to_string(format));
        CHECK(2 * met.size() > types.size());
    }
}

// megatron-core 0.16.1, core/transformer/transformer_config.py: __post_init__ raises for a bias of
// the router without the sigmoid, for one expert of softmax without its softmax before, and for
// biases of experts that tensor parallelism splits.
TEST_CASE("scripts have what Megatron-Core's configuration raises without") {
    const auto with = [](const std::string& preset, std::vector<Override> keys) {
        keys.insert(keys.begin(), {{"framework.preset", "megatron-core"},
                                   {"cluster.preset", "dgx-h100"},
                                   {"workload.seq", "4096"},
                                   {"parallelism.dp", "8"}});
        return read_experiment(preset, keys);
    };
    const auto text = [](const Experiment& e) { return emit(e, EmitFormat::megatron).text; };
    using Catch::Matchers::Contains;
    CHECK_THAT(text(with("deepseek-v3", {})), Contains("--moe-router-score-function sigmoid"));
    CHECK_THAT(text(with("mixtral-8x7b", {})),
               !Contains("--moe-router-score-function") && !Contains("--moe-router-pre-softmax"));
    CHECK_THAT(text(with("mixtral-8x7b", {{"workload.moe.top_k", "1"}})),
               Contains("--moe-router-pre-softmax"));
    const std::vector<Override> two{{"parallelism.tp", "2"},
                                    {"parallelism.dp", "4"},
                                    {"parallelism.sequence_parallel", "true"}};
    std::vector<Override> whole = two;
    whole.push_back({"runtime.experts.tensor_parallel", "none"});
    const std::vector<Override> overlap{{"parallelism.overlap_experts", "true"}};
    CHECK_THROWS_WITH(text(with("mixtral-8x7b", overlap)), Contains("it needs ep above 1"));
    std::vector<Override> sent = overlap;
    sent.push_back({"parallelism.ep", "8"});
    CHECK_THAT(text(with("mixtral-8x7b", sent)), Contains("--overlap-moe-expert-parallel-comm"));
    CHECK_THAT(text(with("gpt-oss-120b", two)), Contains("--expert-tensor-parallel-size 1"));
    std::vector<Override> split = two;
    split.push_back({"runtime.experts.tensor_parallel", "all"});
    CHECK_THROWS_WITH(with("gpt-oss-120b", split), Contains("splits no experts with biases"));
    CHECK_THAT(text(with("gpt-oss-120b", whole)), Contains("--expert-tensor-parallel-size 1"));
}
