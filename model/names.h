// Enumerators and the names that files use for them. Internal to model/.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "model/errors.h"

namespace stepcast {

template <class E>
struct Named {
    E value;
    std::string_view name;
};

template <class E, std::size_t N>
std::string_view name_of(const std::array<Named<E>, N>& names, E value) {
    for (const auto& n : names)
        if (n.value == value) return n.name;
    throw std::logic_error("an enumerator has no name");
}

// `what` with its article: "a dtype".
template <class E, std::size_t N>
E value_named(const std::array<Named<E>, N>& names, std::string_view text, std::string_view what) {
    std::vector<std::string> valid;
    std::string listed;
    for (const auto& n : names) {
        if (n.name == text) return n.value;
        if (!listed.empty()) listed += valid.size() + 1 == N ? " or " : ", ";
        listed += n.name;
        valid.emplace_back(n.name);
    }
    throw ConfigError("\"" + std::string(text) + "\" is not " + std::string(what) + "; expected " + listed +
                      did_you_mean(text, valid));
}

}  // namespace stepcast
