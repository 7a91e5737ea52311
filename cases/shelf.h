// What cases name, each file read once however many rows ask for it. Internal to cases/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cases/cases.h"
#include "model/families/families.h"
#include "model/framework.h"

namespace stepcast {

// A network that rows name in words, and the keys of a cluster that it sets (model/presets/networks/).
struct NamedNetwork {
    std::string name;
    std::vector<std::string> names;  // in lower case
    std::vector<Override> keys;
};

// A row of a table of model/presets/sources.toml: what the words of published tables stand for.
using SourceRow = std::map<std::string, std::string>;

class Shelf {
public:
    // `framework`: of every row, whatever it says; empty: the row's own.
    explicit Shelf(std::string framework = "") : chosen_(std::move(framework)) {}

    const Cluster& cluster(const std::string& preset_or_file);
    const std::vector<ModelFamily>& families();
    const std::vector<NamedNetwork>& networks();
    // The rows of [[rule]], [[recipe]], [[device]], [[memory]] or [[tuned]] in their order; what one leaves out is empty.
    const std::vector<SourceRow>& sources(const std::string& table);

    // The chosen framework; else the one in the row's column `framework`; else that of the first rule in
    // model/presets/sources.toml whose source and names the row has; else the default. Empty for none of the first two.
    const std::string& stated_framework(const CaseRow& row) const;
    const Framework& framework_of(const CaseRow& row);

private:
    const Framework& framework(const std::string& preset_or_file);

    std::string chosen_;
    std::map<std::string, Cluster> clusters_;
    std::map<std::string, Framework> frameworks_;
    std::optional<std::vector<ModelFamily>> families_;
    std::map<std::string, std::vector<SourceRow>> sources_;
    std::optional<std::vector<NamedNetwork>> networks_;
};

}  // namespace stepcast
