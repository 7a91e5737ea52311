#include "model/base/joined.h"

namespace stepcast {

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
    std::string all;
    for (const std::string& text : texts) {
        if (&text != &texts.front()) all += between;
        all += text;
    }
    return all;
}

}  // namespace stepcast
