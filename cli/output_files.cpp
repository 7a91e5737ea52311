#include "cli/output_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/read_files.h"
#include "model/base/whole_files.h"

namespace stepcast {

Paths named(Paths paths, std::initializer_list<std::string> more) {
    std::ranges::copy_if(more, std::back_inserter(paths),
                         [](const std::string& path) { return !path.empty(); });
    return paths;
}

void add_in(Paths& outputs, const std::string& folder, std::initializer_list<const char*> names,
            const Paths& inputs) {
    if (folder.empty()) return;
    for (const char* name : names) outputs.push_back(folder + "/" + name);
    std::error_code none;
    for (const std::string& input : inputs) {
        const std::filesystem::path path(input), there = folder / path.filename(),
                                                 kind = path.extension();
        if ((kind == ".png" || kind == ".svg" || kind == ".html" || kind == ".md") &&
            std::filesystem::exists(there, none))
            outputs.push_back(there.string());
    }
}

void check_outputs(const Paths& outputs, const Paths& inputs) {
    if (outputs.empty()) return;
    keep_apart(outputs, inputs);
    keep_apart(outputs, files_behind(inputs));
    for (const std::string& output : outputs) require_writable(output);
}

}  // namespace stepcast
