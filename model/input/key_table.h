// The keys of all tables of an experiment.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/input/keys.h"

namespace stepcast {

// Every key once, in documentation order.
const std::vector<Key>& all_keys();
std::span<const Key> keys_of(std::string_view table);  // "cluster."

// Appends the keys of the table in the field `at`, which gives them the beginning of path
// ("link.intra", "attention_") and meaning.
void add_below(std::vector<Key>& keys, const Key& at, std::span<const Key> table);

}  // namespace stepcast
