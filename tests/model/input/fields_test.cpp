// Structs whose fields are keys: reading, writing and suggestions from the struct's own
// description.
#include <catch2/catch.hpp>

#include "model/input/fields.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Contains;

namespace {

struct Wheel {
    KEY(std::string, rim, {}, "what it is made of");
    KEY(double, pressure, 2.5, "bar", 1, 10);
};
struct Bicycle {
    KEY(Seconds, built_in, {}, "how long it took");
    KEY_NAMED(std::vector<std::string>, owners, {}, "sold.to", "in their order");
    KEY(Wheel, spare, {}, "");
    KEY_NAMED(std::vector<Wheel>, wheels, {}, "wheel", "");
    int of_no_file = 3;
};

Bicycle read_bicycle(const std::string& text) {
    const TestFolder folder;
    return read_table<Bicycle>(folder.write("b.toml", text), "a bicycle");
}
std::string refusal_of_bicycle(const std::string& text) {
    return complaint([&] { read_bicycle(text); });
}

}  // namespace

TEST_CASE("a file of tables fills the fields that its struct names") {
    const Bicycle b = read_bicycle(
        "built_in = \"2 h\"\nsold.to = [\"A\", \"B\"]\n[spare]\npressure = 4\n[[wheel]]\nrim = "
        "\"steel\"\n[[wheel]]\nrim = \"wood\"\n");
    CHECK(b.built_in == Seconds(7200));
    CHECK(b.owners == std::vector<std::string>{"A", "B"});
    CHECK(b.spare.pressure == 4);
    REQUIRE(b.wheels.size() == 2);
    CHECK((b.wheels[1].rim == "wood" && b.wheels[1].pressure == 2.5));
    CHECK(field_lines(b) ==
          "built_in = \"7200 s\"\nsold.to = [\"A\", \"B\"]\nspare.rim = \"\"\nspare.pressure = "
          "4\nwheel = " +
              value_text(b.wheels) + "\n");
    CHECK(field_lines(Wheel{"st\neel", 3}, {"pressure"}) == "rim = \"st?eel\"\n");
    // pressures have their default and are left out
    CHECK(value_text(b.wheels) == "[\n  {rim = \"steel\"},\n  {rim = \"wood\"},\n]");
    CHECK(value_text(std::vector<Wheel>()) == "[]");
    CHECK(field_lines(Bicycle{}, {"built_in", "sold.to", "spare.rim"}) == "spare.pressure = 2.5\n");
}

TEST_CASE("a field that no struct has, or that may not be so, is refused with its place") {
    CHECK_THAT(
        refusal_of_bicycle("[[wheel]]\nrin = \"x\"\n"),
        Contains(":2:1: \"wheel.0.rin\" is no key of a bicycle, did you mean \"wheel.rim\"?"));
    CHECK_THAT(refusal_of_bicycle("[spare]\npressure = 11\n"),
               Contains(":2:12: spare.pressure: 11 is out of range; expected 1 to 10"));
    CHECK_THAT(refusal_of_bicycle("built_in = 3\n"), Contains(":1:12: built_in: 3 has no unit"));
    for (const char* unknown : {"of_no_file = 4\n", "wheel = 3\n", "sold = 3\n",
                                "built_in_days = 3\n", "spare.rim.x = 3\n"})
        CHECK_THAT(refusal_of_bicycle(unknown), Contains("is no key of a bicycle"));
    CHECK(names_of_fields(keys_in<Bicycle>()) ==
          std::vector<std::string>{"built_in", "sold.to", "spare.rim", "spare.pressure",
                                   "wheel.rim", "wheel.pressure"});
}
