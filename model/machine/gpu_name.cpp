#include "model/machine/gpu_name.h"

#include <cmath>
#include <regex>
#include <string>

namespace stepcast {

std::optional<double> gigabytes_in(std::string_view gpu) {
    static const std::regex size(R"((^|[^A-Z0-9.])([0-9]{1,4})[ _-]?(GB|GIB|G)(?![A-Z0-9/]))",
                                 std::regex::icase);
    std::match_results<std::string_view::const_iterator> found;
    if (!std::regex_search(gpu.begin(), gpu.end(), found, size)) return std::nullopt;
    const std::string unit = found[3].str();
    if (unit.size() == 2 && unit[1] == 'b') return std::nullopt;  // Gb: of links
    return std::stod(found[2].str());
}

bool is_called(Bytes memory, double gigabytes) {
    constexpr double same = 0.05;
    const auto near = [&](double unit) {
        return std::abs(memory.si() / (gigabytes * unit) - 1) < same;
    };
    return near(1e9) || near(1 << 30);
}

}  // namespace stepcast
