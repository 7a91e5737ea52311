#include "sim/sweep/split_keys.h"

#include <algorithm>
#include <type_traits>

#include "model/input/key_values.h"

namespace stepcast {

const std::array<SplitField, split_key_count> split_fields = [] {
    std::array<SplitField, split_key_count> fields;
    each_key<Parallelism>(
        "", [&]<auto member>(const Keyed<member>& row) {
            using Field = std::remove_cvref_t<decltype(Parallelism{}.*member)>;
            const auto at = std::ranges::find(name_list<SplitKey>, row.name);
            if constexpr (std::is_integral_v<Field> || std::is_enum_v<Field>)
                if (at != name_list<SplitKey>.end())
                    fields[static_cast<std::size_t>(at - name_list<SplitKey>.begin())] = {
                        "parallelism." + std::string(row.name),
                        [](const Parallelism& p) { return static_cast<int>(p.*member); },
                        [](Parallelism& p, int value) { p.*member = static_cast<Field>(value); }};
        });
    return fields;
}();

std::size_t split_index(std::string_view key) {
    return static_cast<std::size_t>(std::ranges::find(split_fields, key, &SplitField::key) -
                                    split_fields.begin());
}

}  // namespace stepcast
