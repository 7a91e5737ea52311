#include "tests/golden_text.h"

using namespace stepcast;

TEST_CASE("golden lines are equal in words and whole numbers, and to five digits in fractions") {
    CHECK(same_line("step 12 took 1.2345678 s", "step 12 took 1.2345679 s"));  // 8e-8 apart
    CHECK(same_line("a -1.5e-300,b", "a -1.5000000001e-300,b"));
    CHECK_FALSE(same_line("1.2345", "1.2346"));
    CHECK_FALSE(same_line("1.5", "-1.5"));
    CHECK_FALSE(same_line("12 steps", "13 steps"));
    CHECK_FALSE(same_line("12 steps", "123 steps"));
    CHECK_FALSE(same_line("1000000001", "1000000002"));  // whole numbers must be equal
    CHECK_FALSE(same_line("2.0 s", "2.0 m"));
    CHECK_FALSE(same_line("2.0", "2.0 s"));
    CHECK_FALSE(same_line("2", "2.0"));
}
