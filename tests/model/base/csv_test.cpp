#include <catch2/catch.hpp>

#include "model/base/csv.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {
using Rows = std::vector<std::vector<std::string>>;
Rows rows_of(const std::string& path) {
    CsvReader csv(path);
    Rows rows;
    while (csv.next()) rows.push_back(csv.fields());
    return rows;
}
}  // namespace

TEST_CASE("quotes, doubled quotes, line breaks in quotes and both line endings are read") {
    const TestFolder folder;
    CHECK(rows_of(folder.write("a.csv", "a,b\r\n\"x, \"\"y\"\"\",\"two\nlines\"\r\n\n,\n\"q\"")) ==
          Rows{{"a", "b"}, {"x, \"y\"", "two\nlines"}, {"", ""}, {"q"}});
    CHECK(rows_of(folder.write("b.csv",
                               "\xef\xbb\xbf"
                               "a,b\n1,\"\"\n")) == Rows{{"a", "b"}, {"1", ""}});
    CHECK(rows_of(folder.write("c.csv", "")).empty());
    CHECK(rows_of(folder.write("d.csv", "\n\r\n\n")).empty());
    CHECK(rows_of(folder.write("e.csv", "a,")) == Rows{{"a", ""}});
}

TEST_CASE("a row knows the line it begins on") {
    const TestFolder folder;
    CsvReader csv(folder.write("a.csv", "h\n\n\"two\nlines\"\nlast\n"));
    REQUIRE(csv.next());
    CHECK(csv.line() == 1);
    REQUIRE(csv.next());
    CHECK(csv.line() == 3);
    REQUIRE(csv.next());
    CHECK(csv.line() == 5);
    CHECK_FALSE(csv.next());
}

TEST_CASE("broken CSV is refused with its line") {
    const TestFolder folder;
    const auto read = [&](const std::string& text) {
        const auto path = folder.write("a.csv", text);
        return complaint([&] { rows_of(path); }, folder.path());
    };
    CHECK(read("a\n\"open\nb\n") == "a.csv:2: quoted field does not end; expected a closing \"");
    CHECK(read("a\n\"x\"y\n") ==
          "a.csv:2: found text after a closing \"; expected a comma or the end of the line");
    CHECK(read(std::string("a\nb\0c\n", 6)) == "a.csv:2: found a zero byte; expected text");
    CHECK(read("a;b;c\n1;2;3\n") ==
          "a.csv:1: found semicolons between fields; expected commas (export the table as "
          "comma-separated values)");
    CHECK(read("# a; b; c\n1;2;3\n").empty());
    CHECK(read(std::string(2 << 20, 'x')) ==
          "a.csv:1: row is longer than 1 MiB; expected a CSV file");
    CHECK(complaint([&] { rows_of(folder.path() + "/none.csv"); }, folder.path()) ==
          "none.csv: cannot be read (No such file or directory); expected a CSV file");
    CHECK(complaint([&] { rows_of(folder.path()); }) ==
          folder.path() + ": cannot be read (is a folder); expected a CSV file");
}

TEST_CASE("written fields read back") {
    const TestFolder folder;
    const std::vector<std::string> fields{"plain", "a,b", "say \"x\"", "two\nlines", ""};
    std::string text;
    for (const auto& f : fields) text += (text.empty() ? "" : ",") + csv_field(f);
    CHECK(rows_of(folder.write("a.csv", text + "\n")) == Rows{fields});
}

TEST_CASE("numbers with anything behind them are no numbers") {
    CHECK(csv_int("12", 0) == 12);
    CHECK(csv_number("-1.5e-3") == -1.5e-3);
    CHECK(complaint([] { csv_int("12x", 0); }) == "\"12x\" is no integer of at least 0");
    CHECK(complaint([] { csv_int("-2", -1); }) == "\"-2\" is no integer of at least -1");
    CHECK(complaint([] { csv_int("99999999999", 0); }) ==
          "\"99999999999\" is out of range; expected a smaller integer");
    CHECK(complaint([] { csv_number("nan"); }) == "\"nan\" is no finite number");
    CHECK(complaint([] { csv_number(""); }) == "\"\" is no finite number");
}

TEST_CASE("a text that others gave begins no formula in a spreadsheet") {
    CHECK(spreadsheet_field("=HYPERLINK(\"x\")") == "\"'=HYPERLINK(\"\"x\"\")\"");
    for (const std::string begin : {"=", "+", "-", "@", "\t"})
        CHECK(spreadsheet_field(begin + "1") == "'" + begin + "1");
    CHECK(spreadsheet_field("gpt-3.6B") == "gpt-3.6B");
    CHECK(spreadsheet_field("").empty());
    CHECK(spreadsheet_field("a,b") == "\"a,b\"");
}
