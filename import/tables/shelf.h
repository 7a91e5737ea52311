// Reads each file that cases name once, however many rows ask for it. Internal to cases/.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "import/tables/cases.h"
#include "import/tables/row_words.h"
#include "model/framework.h"
#include "model/input/families.h"

namespace stepcast {

// A network that rows name in words, with the cluster keys that it sets (model/presets/networks/).
struct NamedNetwork {
    std::string name;
    std::vector<std::string> names;  // in lower case
    std::vector<Override> keys;
};

class Shelf {
public:
    // `framework` applies to every row, whatever the row states; if empty, each row's own counts.
    // Rules and rows that name one of `forgotten` do not count.
    explicit Shelf(std::string framework = "", std::set<std::string> forgotten = {})
        : chosen_(std::move(framework)), forgotten_(std::move(forgotten)) {}

    const Cluster& cluster(const std::string& preset_or_file);
    const std::vector<ModelFamily>& families();
    const std::vector<NamedNetwork>& networks();
    // The rows of one table ([[rule]], [[device]], [[word]] .. as listed in shelf.cpp) of
    // model/presets/sources.toml or table_words.toml, in file order. A field that a row leaves out
    // is empty.
    const std::vector<SourceRow>& sources(const std::string& table);
    const RowWords& words();

    // stated_framework(): the framework given to the constructor, else the row's column
    // `framework`, else "". framework_of() then goes on to the first rule in
    // model/presets/sources.toml whose source and names the row has, and to the default framework.
    const std::string& stated_framework(const CaseRow& row) const;
    // Rules hold for software of certain years; `why` receives how the year decided, if it did.
    const Framework& framework_of(const CaseRow& row, std::string* why = nullptr);
    // The row's tool is known by name, and not only what it is made of (compiled, FSDP).
    bool names_software(const CaseRow& row);
    // Software of the row's source and year cut a pipeline's batch into as many micro-batches as it
    // has stages unless told otherwise ([[batches]]).
    bool batches_as_stages(const CaseRow& row);

private:
    std::pair<int, std::string> software_year(const CaseRow& row);
    const SourceRow* rule_of(const CaseRow& row);  // null: none
    const Framework& framework(const std::string& preset_or_file);

    std::string chosen_;
    std::set<std::string> forgotten_;
    std::map<std::string, Cluster> clusters_;
    std::map<std::string, Framework> frameworks_;
    std::optional<std::vector<ModelFamily>> families_;
    std::map<std::string, std::vector<SourceRow>> sources_;
    std::optional<RowWords> words_;
    std::optional<std::vector<NamedNetwork>> networks_;
};

}  // namespace stepcast
