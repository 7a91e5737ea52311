// What stands between the brackets of `[ .. ]` and `[[ .. ]]`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stepcast {

// Words with their variables filled in: one string, -z and -n, comparisons of texts (patterns on the right) and of numbers, joined by
// && and ||, with ! before. Nothing where it asks for what a reader of the script cannot know, such as a file.
std::optional<bool> shell_test(std::vector<std::string> words);

}  // namespace stepcast
