// Checks before long work starts: outputs must be writable and must not be among the inputs.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace stepcast {

using Paths = std::vector<std::string>;

// `paths`, and those of `more` that are not empty.
Paths named(Paths paths, std::initializer_list<std::string> more);

// Adds the files of a verb's folder that may also be its input: those in `names`, and any existing
// picture or page with the name of an input, because the pictures of all reports are not listed
// here.
void add_in(Paths& outputs, const std::string& folder, std::initializer_list<const char*> names,
            const Paths& inputs);

// Throws ConfigError for an output that is read, itself or behind an input, or cannot be written.
void check_outputs(const Paths& outputs, const Paths& inputs);

}  // namespace stepcast
