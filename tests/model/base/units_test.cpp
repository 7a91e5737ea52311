#include <limits>

#include <catch2/catch.hpp>

#include "model/base/units.h"
#include "tests/literals.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::literals;

// 312 TFLOP at 312 TFLOP/s takes 1 s; 9 GB at 900 GB/s takes 10 ms.
TEST_CASE("dividing an amount by a rate gives a time") {
    static_assert(std::is_same_v<decltype(Flops(1) / FlopsPerSecond(1)), Seconds>);
    CHECK((Flops(312e12) / 312_TFLOPps).si() == Approx(1.0));
    CHECK((Bytes(9e9) / 900_GBps).si() == Approx(0.010));
}

// GB is 10^9, GiB is 2^30 = 1073741824.
TEST_CASE("texts with units are read in SI base units") {
    CHECK(parse_seconds("8 us").si() == 8e-6);
    CHECK(parse_seconds("8us").si() == 8e-6);
    CHECK(parse_seconds(" 1.5e3 ns ").si() == 1.5e-6);
    CHECK(parse_seconds("3 \u00b5s").si() == 3e-6);
    CHECK(parse_bytes("80 GiB").si() == 80.0 * 1073741824.0);
    CHECK(parse_bytes("80 GB").si() == 80e9);
    CHECK(parse_bytes("512 B").si() == 512);
    CHECK(parse_bandwidth("900 GB/s").si() == 900e9);
    CHECK(parse_flop_rate("312 TFLOP/s").si() == 312e12);
    CHECK(parse_seconds("-2 ms").si() == -2e-3);
}

// Links are sold in bits: 100 Gb/s = 12.5 GB/s, 400 Gbps = 50 GB/s, 3.2 Tb/s = 400 GB/s.
TEST_CASE("rates are read as sold, bits and bytes told apart") {
    CHECK(parse_bandwidth("100 Gb/s").si() == 12.5e9);
    CHECK(parse_bandwidth("400Gbps").si() == 50e9);
    CHECK(parse_bandwidth("3.2 Tb/s").si() == 400e9);
    CHECK(parse_bandwidth("56 Gbit/s").si() == 7e9);
    CHECK(parse_bandwidth("900GB/s").si() == 900e9);
    CHECK(parse_bandwidth("900 GBps").si() == 900e9);
    CHECK(parse_bytes("80GB").si() == 80e9);
    CHECK(parse_flop_rate("989 TFLOPS").si() == 989e12);
    CHECK(to_string(parse_bandwidth("400 Gb/s")) == "50 GB/s");
}

// gb/s may mean bits or bytes, so neither is proposed. GHz is similar to GB/s in spelling, but no
// bandwidth.
TEST_CASE("a hint never changes a quantity") {
    CHECK(complaint([] { parse_bandwidth("100 gb/s"); }) ==
          "\"100 gb/s\" has the unknown unit \"gb/s\"; expected bytes per second, for example "
          "\"900 GB/s\"; write "
          "\"GB/s\" (bytes) or \"Gb/s\" (bits)");
    CHECK(complaint([] { parse_bytes("80 Gb"); }) ==
          "\"80 Gb\" has the unknown unit \"Gb\"; expected bytes, for example \"80 GiB\"");
    CHECK(complaint([] { parse_bandwidth("100 GB"); }) ==
          "\"100 GB\" has the unknown unit \"GB\"; expected bytes per second, for example \"900 "
          "GB/s\"");
    CHECK(complaint([] { parse_seconds("8 US"); }) ==
          "\"8 US\" has the unknown unit \"US\"; expected a time, for example \"8 us\", did you "
          "mean \"us\"?");
}

TEST_CASE("a text without a fitting unit says what was expected") {
    CHECK(complaint([] { parse_bandwidth("900"); }) ==
          "\"900\" has no unit; expected bytes per second, for example \"900 GB/s\"");
    CHECK(complaint([] { parse_seconds("8 sec"); }) ==
          "\"8 sec\" has the unknown unit \"sec\"; expected a time, for example \"8 us\"");
    CHECK(complaint([] { parse_bytes("80 Gib"); }) ==
          "\"80 Gib\" has the unknown unit \"Gib\"; expected bytes, for example \"80 GiB\"");
    CHECK(complaint([] { parse_bytes("GiB"); }) ==
          "\"GiB\" is not a number with a unit; expected bytes, for example \"80 GiB\"");
    CHECK(complaint([] { parse_seconds(""); }) ==
          "\"\" is not a number with a unit; expected a time, for example \"8 us\"");
    CHECK(complaint([] { parse_seconds("inf s"); }) ==
          "\"inf s\" is not a finite number; expected a time, for example \"8 us\"");
    CHECK(complaint([] { parse_seconds("1e999 s"); }) ==
          "\"1e999 s\" is not a finite number; expected a time, for example \"8 us\"");
}

// 1.5 * 2^30 has fewer digits in GiB than in GB; 25e6 has fewer in MB.
TEST_CASE("quantities are printed with the prefix that needs the fewest digits") {
    CHECK(to_string(Seconds(8e-6)) == "8 us");
    CHECK(to_string(Seconds(0.0213)) == "21.3 ms");
    CHECK(to_string(Seconds(0)) == "0 s");
    CHECK(to_string(Seconds(-0.002)) == "-2 ms");
    CHECK(to_string(Seconds(120)) == "120 s");
    CHECK(to_string(Seconds(1.0 / 3)) == "333.333 ms");
    CHECK(to_string(Seconds(9.999999999e-4)) == "1 ms");
    CHECK(to_string(Bytes(1.5 * 1073741824)) == "1.5 GiB");
    CHECK(to_string(Bytes(25e6)) == "25 MB");
    CHECK(to_string(Bytes(1000)) == "1 kB");
    CHECK(to_string(Bytes(4096)) == "4 KiB");
    CHECK(to_string(BytesPerSecond(900e9)) == "900 GB/s");
    CHECK(to_string(FlopsPerSecond(312e12)) == "312 TFLOP/s");
    CHECK(to_string(FlopsPerSecond(2e18)) == "2000 PFLOP/s");
    CHECK(to_string(Seconds(5e-10)) == "0.5 ns");
}

TEST_CASE("printed quantities read back within 1e-6, exact ones exactly") {
    for (const double v : {1e-12, 3.1e-6 / 7, 1.0 / 3, 0.1 + 0.2, 123.456789123, 9.9999999,
                           7.2345678901234e9, 1e20}) {
        INFO(exact_text(Seconds(v)) + " " + exact_text(BytesPerSecond(v)));
        CHECK(parse_seconds(to_string(Seconds(v))).si() == Approx(v).epsilon(1e-6));
        CHECK(parse_seconds(exact_text(Seconds(v))) == Seconds(v));
        CHECK(parse_bytes(exact_text(Bytes(v))) == Bytes(v));
        CHECK(parse_bandwidth(exact_text(BytesPerSecond(v))) == BytesPerSecond(v));
        CHECK(parse_flop_rate(exact_text(FlopsPerSecond(v))) == FlopsPerSecond(v));
    }
}

// Every unit that is read, with its factor: a power of ten or of two, an eighth for bits.
TEST_CASE("every unit is worth what it is called") {
    const auto seconds = [](const char* text) { return parse_seconds(text).si(); };
    CHECK(seconds("3 ns") == 3e-9);
    CHECK(seconds("3 us") == 3e-6);
    CHECK(seconds("3 ms") == 3e-3);
    CHECK(seconds("3 s") == 3);
    const auto bytes = [](const char* text) { return parse_bytes(text).si(); };
    CHECK(bytes("3 KiB") == 3 * 1024.0);
    CHECK(bytes("3 kB") == 3e3);
    CHECK(bytes("3 KB") == 3e3);
    CHECK(bytes("3 MiB") == 3 * 1048576.0);
    CHECK(bytes("3 MB") == 3e6);
    CHECK(bytes("3 TiB") == 3 * 1099511627776.0);
    CHECK(bytes("3 TB") == 3e12);
    for (const auto& [text, rate] : {std::pair{"3 FLOP/s", 3.0},
                                     {"3 kFLOP/s", 3e3},
                                     {"3 MFLOP/s", 3e6},
                                     {"3 GFLOP/s", 3e9},
                                     {"3 PFLOP/s", 3e15},
                                     {"3 GFLOPS", 3e9},
                                     {"3 PFLOPS", 3e15}})
        CHECK(parse_flop_rate(text).si() == rate);
    for (const auto& [text, rate] : {std::pair{"3 B/s", 3.0},
                                     {"3 KiB/s", 3072.0},
                                     {"3 kB/s", 3e3},
                                     {"3 KB/s", 3e3},
                                     {"3 MiB/s", 3 * 1048576.0},
                                     {"3 MB/s", 3e6},
                                     {"3 GiB/s", 3 * 1073741824.0},
                                     {"3 TiB/s", 3 * 1099511627776.0},
                                     {"3 TB/s", 3e12},
                                     {"3 kBps", 3e3},
                                     {"3 MBps", 3e6},
                                     {"3 GBps", 3e9},
                                     {"3 TBps", 3e12},
                                     {"24 b/s", 3.0},
                                     {"24 kb/s", 3e3},
                                     {"24 Mb/s", 3e6},
                                     {"24 Gb/s", 3e9},
                                     {"24 Tb/s", 3e12},
                                     {"24 kbps", 3e3},
                                     {"24 Mbps", 3e6},
                                     {"24 Gbps", 3e9},
                                     {"24 Tbps", 3e12},
                                     {"24 kbit/s", 3e3},
                                     {"24 Mbit/s", 3e6},
                                     {"24 Gbit/s", 3e9},
                                     {"24 Tbit/s", 3e12}})
        CHECK(parse_bandwidth(text).si() == rate);
    CHECK(parse_seconds("1.5E+2 ms").si() == 0.15);
    CHECK(parse_seconds("\t2 s\t").si() == 2);
    CHECK(complaint([] { parse_seconds("1e99999999999 s"); }) ==
          "\"1e99999999999 s\" is not a finite number; expected a time, for example \"8 us\"");
}

// Below a nanosecond and above the largest unit the number takes more digits: 0.0625 ns, 125000 s;
// with many zeros it has an exponent.
TEST_CASE("what is beyond all units keeps the nearest") {
    CHECK(to_string(Seconds(6.25e-11)) == "0.0625 ns");
    CHECK(to_string(Seconds(125000)) == "125000 s");
    CHECK(to_string(Bytes(1.5e15)) == "1500 TB");
    CHECK(to_string(Bytes(0)) == "0 B");
    CHECK(to_string(BytesPerSecond(0)) == "0 B/s");
    CHECK(to_string(Seconds(std::numeric_limits<double>::infinity())) == "inf s");
    CHECK(parse_seconds(exact_text(Seconds(3e-40))) == Seconds(3e-40));
    CHECK(parse_bytes(exact_text(Bytes(3e40))) == Bytes(3e40));
    CHECK(exact_text(Seconds(0.1 + 0.2)) == "300.00000000000004 ms");
    CHECK(to_string(Bytes(-1536)) == "-1.5 KiB");
}
