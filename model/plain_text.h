// Text from files, options and the environment on its way to people and programs.
#pragma once

#include <string>
#include <string_view>

namespace stepcast {

// Text that can only be read: control characters, but for those in `kept`, and bytes that are no UTF-8 become '?'.
std::string plain_text(std::string_view text, std::string_view kept = "");

}  // namespace stepcast
