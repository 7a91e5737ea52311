// What each reader assumes where a file says nothing, held against a table that says where the
// tool's own source has it (scripts/reader-defaults.py holds the table against the sources).
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "import/launch/tool_files.h"
#include "import/launch/translate.h"
#include "model/input/presets.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

// reader;default;source;says
struct DefaultRow {
    std::string reader, value, source;
};

std::vector<DefaultRow> table() {
    std::vector<DefaultRow> rows;
    std::ifstream file(home_folder() + "/tests/import/launch/reader_defaults.csv");
    std::string line;
    std::getline(file, line);
    CHECK(line == "reader;default;source;says");
    while (std::getline(file, line)) {
        std::istringstream cells(line);
        DefaultRow row;
        std::getline(cells, row.reader, ';'), std::getline(cells, row.value, ';'),
            std::getline(cells, row.source, ';');
        rows.push_back(row);
    }
    return rows;
}

}  // namespace

// Each file of tests/data/launch/minimal says only what its reader needs. Every default that is
// taken of it is a row, and every row is taken. "megatron-lm+gated" has the rows that differ from
// those of "megatron-lm".
TEST_CASE("each reader's defaults are those of its tool's source") {
    std::map<std::string, std::set<std::string>> expected;
    for (const DefaultRow& row : table()) {
        INFO(row.reader << " " << row.value);
        CHECK(row.source.size() > 10);
        CHECK(expected[row.reader].insert(row.value).second);
    }
    std::set<std::string> formats, readers;
    for (const auto& entry : fs::directory_iterator(test_data() + "/launch/minimal")) {
        const std::string reader = entry.path().stem().string();
        const Translation t = translate(entry.path().string(), {});
        formats.insert(t.format);
        readers.insert(reader);
        std::set<std::string> own(t.defaulted.begin(), t.defaulted.end());
        // what no line of the report has by itself: the batch has its tool's own names there
        const std::string told = lines(t.defaulted);
        for (const Setting& s : t.settings) {
            const bool named =
                told.find(s.key + " = ") != std::string::npos ||
                (s.key.ends_with("_batch") && told.find("batch_size = ") != std::string::npos);
            if (s.at.starts_with("default of ") && !named) own.insert(s.key + " = " + s.value);
        }
        if (const auto plus = reader.find('+'); plus != std::string::npos)
            for (const std::string& value : expected[reader.substr(0, plus)]) own.erase(value);
        std::string wrong;  // as rows to add, and to remove
        for (const std::string& value : own)
            if (!expected[reader].contains(value)) wrong += reader + ";" + value + ";;\n";
        for (const std::string& value : expected[reader])
            if (!own.contains(value)) wrong += "not taken: " + reader + ";" + value + "\n";
        CHECK(wrong == "");
    }
    for (const DefaultRow& row : table()) CHECK(readers.contains(row.reader));
    for (const Tool& tool : config_files().tools) {
        INFO(tool.name);
        CHECK((formats.contains(tool.name) || !tool.refused.empty()));
    }
    for (const char* format : {"Megatron-LM", "Megatron-DeepSpeed", "Megatron-Bridge", "NeMo",
                               "NeMo 2", "torchtitan", "DeepSpeed"})
        CHECK(formats.contains(format));
}
