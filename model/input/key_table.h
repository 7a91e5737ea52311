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

// Appends the key of a field at `offset`, of a field with a value for each element type, or the
// keys of the table in a field, which gives them the beginning of path ("link.intra", "attention_")
// and meaning.
void add_field(std::vector<Key>& keys, const KeyTexts& row, std::size_t offset,
               const FieldType& type);
void add_by_dtype(std::vector<Key>& keys, const KeyTexts& row, std::size_t offset,
                  const FieldType& type, std::size_t size);
void add_table(std::vector<Key>& keys, const KeyTexts& row, std::size_t offset,
               std::span<const Key> table);
// "link" of a field "x.link" or "link_": what its table is called among the keys of its struct.
std::string_view name_of_table(std::string_view field);

}  // namespace stepcast
