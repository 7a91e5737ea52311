#include "reports/plot_frame.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "reports/table.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using Catch::Contains;
using samples::number_after;

// Below 5 times 1, 1.5, 2, 3, 5, 7; from a factor of 10^0.7 = 5.01 on 1, 2, 5; beyond 100 1, 3;
// beyond 10,000 decades alone.
TEST_CASE("a log axis has as many ticks as its width allows, its ends among them") {
    CHECK(log_ticks({1, 5}, "x") == "set xtics (\"1\" 1,\"1.5\" 1.5,\"2\" 2,\"3\" 3,\"5\" 5)\n");
    CHECK(log_ticks({3, 9}, "x") == "set xtics (\"3\" 3,\"5\" 5,\"7\" 7)\n");
    CHECK(log_ticks({1, 6}, "x") == "set xtics (\"1\" 1,\"2\" 2,\"5\" 5)\n");
    CHECK(log_ticks({20, 2000}, "y") ==
          "set ytics (\"20\" 20,\"50\" 50,\"100\" 100,\"200\" 200,\"500\" 500,\"1000\" "
          "1000,\"2000\" 2000)\n");
    CHECK(log_ticks({2, 201}, "x") == "set xtics (\"3\" 3,\"10\" 10,\"30\" 30,\"100\" 100)\n");
    CHECK(log_ticks({1, 10000}, "x") ==
          "set xtics (\"1\" 1,\"3\" 3,\"10\" 10,\"30\" 30,\"100\" 100,\"300\" 300,\"1000\" "
          "1000,\"3000\" 3000,\"10000\" 10000)\n");
    CHECK(log_ticks({2, 20001}, "x") ==
          "set xtics (\"10\" 10,\"100\" 100,\"1000\" 1000,\"10000\" 10000)\n");
    CHECK(log_ticks({3, 9}, "xy") ==
          "set xtics (\"3\" 3,\"5\" 5,\"7\" 7)\nset ytics (\"3\" 3,\"5\" 5,\"7\" 7)\n");
    CHECK(log_ticks({0, 10}, "x").empty());
}

// 512 to 4 Mi are 14 powers of two: with 7 at most every second one. From 3 on the first is 4. Tebi
// is the last prefix.
TEST_CASE(
    "powers of two have prefixes where they have a unit, and there are only so many of them") {
    CHECK(binary_ticks({512, 4194304}, "B") ==
          "set xtics (\"512 B\" 512,\"2 KiB\" 2048,\"8 KiB\" 8192,\"32 KiB\" 32768,\"128 KiB\" "
          "131072,\"512 KiB\" 524288,\"2 MiB\" 2097152)\n");
    CHECK(binary_ticks({3, 16}, "", 3) == "set xtics (\"4\" 4,\"8\" 8,\"16\" 16)\n");
    CHECK(binary_ticks({3, 32}, "", 3) == "set xtics (\"4\" 4,\"16\" 16)\n");
    CHECK(binary_ticks({std::ldexp(1.0, 51), std::ldexp(1.0, 51)}, "B") ==
          "set xtics (\"2048 TiB\" 2251799813685248)\n");
    CHECK(binary_ticks({5, 6}, "B") == "set xtics ()\n");
    CHECK(binary_ticks({1, 2}, "B") == "set xtics (\"1 B\" 1,\"2 B\" 2)\n");
}

TEST_CASE("a word stands in a command line as a shell reads it") {
    CHECK(shell_word("parallelism.tp=1,2") == "parallelism.tp=1,2");
    CHECK(shell_word("") == "''");
    CHECK(shell_word("it's $HOME") == "'it'\\''s $HOME'");
}

// 0.932 - 0.0079 a letter, within 0.45 and 0.8: 20 letters 0.774, 16 would be 0.8056, 61 would be
// 0.4501, 62 0.4422.
TEST_CASE("the legend is as wide as its longest text, within limits") {
    CHECK(legend_edge({"short", std::string(20, 'x'), "shorter"}) == Approx(0.774));
    CHECK(legend_edge({std::string(16, 'x')}) == 0.8);
    CHECK(legend_edge({std::string(61, 'x')}) == Approx(0.4501));
    CHECK(legend_edge({std::string(62, 'x')}) == 0.45);
    const std::string script = frame({"A \"title\"", "beneath", "foot", {std::string(20, 'x')}});
    CHECK_THAT(script, Contains("set label 1 \"A \\\"title\\\"\" at screen 0.02,0.955") &&
                           Contains("set label 2 \"beneath\"") && Contains("set label 3 \"foot\""));
    CHECK(number_after(script, "set rmargin at screen ") == Approx(0.774));
    CHECK(number_after(script, "set key at screen ") == Approx(0.786));
}

// 44 bytes stand whole; of more the first 22 and the last 20, and never half of a letter: the i of
// the second has two bytes.
TEST_CASE("a long name under a bar loses its middle") {
    const std::string whole(44, 'w'), ten = "0123456789",
                                      longer = ten + ten + "abc" + ten + ten + "XYZ";
    CHECK(bar_label("run-" + whole, "run-") == whole);
    CHECK(bar_label(longer, "") == ten + ten + "ab.." + "3456789" + ten + "XYZ");
    CHECK(bar_label(std::string(21, 'a') + "\u00ef" + std::string(30, 'b'), "") ==
          std::string(21, 'a') + "\u00ef.." + std::string(20, 'b'));
    CHECK(bar_label(std::string(30, 'a') + "\u00ef" + std::string(19, 'b'), "") ==
          std::string(22, 'a') + ".." + std::string(19, 'b'));
}

// Letters of 15, 12 beyond 14 names, 10 beyond 24; slanted by 35 degrees, by 60 with more than 14
// names or 20 letters. The room is 0.72 of the size a letter, by the sine of the angle, and 0.07:
// 20 x 0.72 x 0.015 x sin 35 + 0.07 = 0.1939; 21 letters 0.72 x 0.015 x 21 x sin 60 + 0.07 =
// 0.2664; with 15 names 20 x 0.00864 x sin 60 + 0.07 = 0.2196, with 25 0.1947.
TEST_CASE("labels under bars have room for the longest") {
    const auto labels = [](std::size_t names, std::size_t letters) {
        std::vector<std::string> all(names, "n");
        all.front() = std::string(letters, 'n');
        return bar_labels(all, "");
    };
    CHECK(labels(14, 20) ==
          "set bmargin at screen 0.194\nset xtics rotate by 35 right font ',15' scale 0\n");
    CHECK(labels(14, 21) ==
          "set bmargin at screen 0.266\nset xtics rotate by 60 right font ',15' scale 0\n");
    CHECK(labels(15, 20) ==
          "set bmargin at screen 0.220\nset xtics rotate by 60 right font ',12' scale 0\n");
    CHECK(labels(24, 20) == labels(15, 20));
    CHECK(labels(25, 20) ==
          "set bmargin at screen 0.195\nset xtics rotate by 60 right font ',10' scale 0\n");
    CHECK(labels(1, 1) ==
          "set bmargin at screen 0.120\nset xtics rotate by 35 right font ',15' scale 0\n");
}

TEST_CASE("parts without a label are in no legend") {
    // each part has one, be it empty
    CHECK_THROWS_AS(plot_command({"a", "b"}, {"A"}), std::logic_error);
    CHECK_THROWS_AS(plot_command({"a"}, {"A", "B"}), std::logic_error);
    CHECK(plot_command({"a", "b", "c"}, {"", "B", ""}) ==
          "plot a notitle, \\\n  b title \"B\", \\\n  c notitle\n");
    CHECK_FALSE(PlotRange{1, 4}.is_wide());
    CHECK(PlotRange{1, 4.1}.is_wide());
    CHECK_FALSE(PlotRange{0, 4}.is_wide());
}
