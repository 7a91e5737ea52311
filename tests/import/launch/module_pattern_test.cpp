#include <catch2/catch.hpp>

#include "import/launch/module_pattern.h"

using namespace stepcast;

namespace {

using Names = std::vector<std::string>;

Names names_of(const char* pattern) { return module_names(pattern).value_or(Names{"?"}); }

}  // namespace

// By hand; the first three are of axolotl 0.19's examples.
TEST_CASE("expressions of modules are spelled out") {
    CHECK(names_of(R"(model.layers.[\d]+.(mlp|self_attn).(up|q)_proj)") ==
          Names{"model.layers.*.mlp.up_proj", "model.layers.*.mlp.q_proj",
                "model.layers.*.self_attn.up_proj", "model.layers.*.self_attn.q_proj"});
    CHECK(names_of(R"(.*\.layers\.(3|7)\.self_attn\.q_proj|.*\.mlp\.up_proj)") ==
          Names{"*.layers.3.self_attn.q_proj", "*.layers.7.self_attn.q_proj", "*.mlp.up_proj"});
    CHECK(names_of(R"(mlp\.(shared_experts.)?fc[12])") ==
          Names{"mlp.shared_experts.fc1", "mlp.shared_experts.fc2", "mlp.fc1", "mlp.fc2"});
    CHECK(names_of(R"(^.*?(?:k|v)_proj$)") == Names{"*k_proj", "*v_proj"});
    CHECK(names_of("[a-z]_proj") == Names{"*_proj"});
    CHECK(names_of(R"(\w+)") == Names{"*"});
}

// Conditions and repeated groups are not spelled out, nor what is no expression, nor 3^6 names.
TEST_CASE("expressions of modules that are not spelled out are told apart") {
    for (const char* pattern : {"(?!vision).*q_proj", "(ab|cd)+q_proj", "q_proj{2}", "(q_proj",
                                "q_proj)", "[ab", "a\\", "*q", "(?"})
        CHECK_FALSE(module_names(pattern));
    CHECK(module_names("[abc][abc][abc][abc][abc]")->size() == 243);
    CHECK_FALSE(module_names("[abc][abc][abc][abc][abc][abc]"));
    CHECK_FALSE(module_names(std::string(40, '(') + std::string(40, ')')));
    CHECK_FALSE(module_names(std::string(1001, 'a')));
    CHECK(is_module_pattern(".*q_proj"));
    CHECK_FALSE(is_module_pattern("[q_proj, v_proj]"));
    CHECK_FALSE(is_module_pattern("self_attn.q_proj v_proj"));
}
