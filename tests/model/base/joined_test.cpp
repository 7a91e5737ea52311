#include "model/base/joined.h"

#include <catch2/catch.hpp>

#include <set>

using namespace stepcast;

TEST_CASE("lists as text have what is between their items, and nothing at the ends") {
    CHECK(joined(std::vector<std::string>{}, ", ").empty());
    CHECK(joined(std::vector<std::string>{"a"}, ", ") == "a");
    CHECK(joined(std::vector<std::string>{"", "b", ""}, ", ") == ", b, ");
    CHECK(joined(std::vector<int>{8, -1, 0}, "|") == "8|-1|0");
    CHECK(joined(std::set<std::string_view>{"y", "x"}, " and ") == "x and y");
}
