// Names of modules that a regular expression stands for, as people write PEFT's target_modules:
// "model.layers.[\d]+.(mlp|self_attn).(up|q)_proj".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

bool is_module_pattern(std::string_view text);

// Each name with `any_word` in place of what may be anything. Nothing if the expression has forms
// that are not spelled out here (conditions, repeated groups), or stands for too many names.
inline constexpr char any_word = '*';
std::optional<std::vector<std::string>> module_names(std::string_view pattern);

}  // namespace stepcast
