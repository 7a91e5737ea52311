#include "model/parallelism.h"

#include <fmt/format.h>

namespace stepcast {

std::string degrees_text(const Parallelism& p) {
    std::string text;
    for (const auto& [name, degree] : {std::pair{"tp", p.tp},
                                       {"pp", p.pp},
                                       {"vp", p.vp},
                                       {"cp", p.cp},
                                       {"dp", p.dp},
                                       {"ep", p.ep}})
        if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, degree);
    if (p.zero > 0) text += fmt::format("{}zero {}", text.empty() ? "" : ", ", p.zero);
    return text.empty() ? "one rank" : text;
}

}  // namespace stepcast
