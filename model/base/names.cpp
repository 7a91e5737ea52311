#include "model/base/names.h"

#include <string>
#include <vector>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

std::size_t index_of_name(std::string_view text, std::string_view what,
                          std::span<const std::string_view> valid) {
    const auto found = std::ranges::find(valid, text);
    if (found != valid.end()) return as_index(found - valid.begin());
    std::string listed;
    for (const std::size_t i : indices_of(valid)) {
        if (i > 0) listed += i + 1 == valid.size() ? " or " : ", ";
        listed += valid[i];
    }
    throw ConfigError("\"" + std::string(text) + "\" is not " + std::string(what) + "; expected " +
                      listed +
                      did_you_mean(text, std::vector<std::string>(valid.begin(), valid.end())));
}

}  // namespace stepcast
