#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/framework_file.h"
#include "model/input/keys.h"
#include "model/input/older_keys.h"
#include "model/runtime_rules.h"
#include "tests/model/files.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

Framework framework_of(const std::string& text) {
    const TestFolder folder;
    return read_framework(folder.write("mine.toml", text));
}
std::string refusal_of(const std::string& text) {
    const TestFolder folder;
    return complaint([&] { (void)read_framework(folder.write("mine.toml", text)); }, folder.path());
}
Experiment under(const Framework& framework, const std::vector<Override>& changes = {}) {
    Experiment e = small_gpt();
    e.framework = framework;
    apply_framework(e);
    for (const Override& one : changes) set_key(e, one);
    return e;
}

}  // namespace

// small_gpt() has two heads and one rank; only its ZeRO stage and its chunks are asked for here.
TEST_CASE("a rule holds where all of its conditions and none of its exceptions do") {
    const Framework f = framework_of(
        "runtime.exchanges.gradients = \"never\"\n"
        "[[when]]\nif = {parallelism.zero = [2, 3]}\nunless = {parallelism.vp = 2}\n"
        "set = {runtime.exchanges.gradients = \"always\", cluster.host.layer = \"2 ms\"}\n");
    const auto overlap = [&](const char* zero, const char* vp) {
        return under(f, {{"parallelism.zero", zero}, {"parallelism.vp", vp}})
            .runtime.exchanges.gradients;
    };
    CHECK(overlap("1", "1") == GradientOverlap::never);
    CHECK(overlap("2", "1") == GradientOverlap::always);
    CHECK(overlap("3", "1") == GradientOverlap::always);
    CHECK(overlap("3", "2") == GradientOverlap::never);
    CHECK(under(f, {{"parallelism.zero", "2"}}).cluster.host.layer == Seconds(2e-3));
    CHECK(under(f).cluster.host.layer == small_gpt().cluster.host.layer);
    CHECK(condition_keys(f) == std::vector<std::string_view>{"parallelism.zero", "parallelism.vp"});
}

// A condition that no longer holds gives back what lay below.
TEST_CASE("what a rule set is given back when its condition ends") {
    const Framework f = framework_of(
        "[[when]]\nif = {parallelism.zero = 3}\nset = {cluster.link.inter.training = 0.5}\n");
    Experiment e = under(f, {{"parallelism.zero", "3"}});
    CHECK(e.cluster.inter.training == 0.5);
    set_key(e, {"parallelism.zero", "1"});
    CHECK(e.cluster.inter.training == small_gpt().cluster.inter.training);
    CHECK(e.overlay.under.empty());
}

TEST_CASE("a derived file's plain line takes the place of its base's conditions") {
    const TestFolder folder;
    folder.write("base.toml",
                 "[[when]]\nif = {parallelism.zero = 0}\nset = {runtime.reserved = 1.5}\n");
    const Framework f =
        read_framework(folder.write("mine.toml", "preset = \"base.toml\"\nruntime.reserved = 2\n"));
    CHECK(under(f).runtime.reserved == 2);
    CHECK(f.rules.size() == 1);
}

TEST_CASE("conditions ask for keys that no framework sets, settings for keys that it may set") {
    CHECK(refusal_of("[[when]]\nif = {runtime.kernels = \"eager\"}\n"
                     "set = {runtime.reserved = 2}\n") ==
          "mine.toml:2:25: when.0.if.runtime.kernels: found runtime.kernels; expected a key that "
          "no framework sets, for example parallelism.zero");
    CHECK(refusal_of("[[when]]\nif = {parallelism.zero = 3}\nset = {parallelism.tp = 2}\n")
              .starts_with("mine.toml:3:25: when.0.set.parallelism.tp: found parallelism.tp; "
                           "expected a key of [runtime]"));
    CHECK(refusal_of("[[when]]\nwhile = {parallelism.zero = 3}\n")
              .find("expected if, unless or set") != std::string::npos);
    CHECK(refusal_of("runtime.reserved = 0.5\n")
              .starts_with("mine.toml:1:20: runtime.reserved: 0.5 is out of range"));
}

// Each name that a key had is the key: set by the old name, read by both. The value is one that
// differs from the key's default, in the words of its time.
TEST_CASE("every older name of a key sets its field") {
    const std::map<std::string_view, std::string> values{
        {"name", ""}, {"integer", "2"}, {"number", "1.5"}, {"names", "[\"norms\"]"}};
    for (const Key& key : older_keys()) {
        INFO(key.path);
        const std::string before = text_of(key, Experiment{});
        const Key& now = *find_key(canonical(key));
        std::string value = before == "true" ? "false" : "true";
        if (key.type->kind != "boolean")
            value = key.type->names.empty()
                        ? values.contains(key.type->kind) ? values.at(key.type->kind) : "7 MB"
                        : std::string(key.type->names.back());
        Experiment e;
        assign_text(key, e, value);
        CHECK(text_of(key, e) == value);
        CHECK(text_of(now, e) != text_of(now, Experiment{}));
    }
}
