#include "model/answers/explanation.h"

namespace stepcast {

std::string_view to_string(LinkLevel level) {
    switch (level) {
        case LinkLevel::none: return "none";
        case LinkLevel::node: return "node";
        case LinkLevel::leaf: return "leaf";
        case LinkLevel::spine: return "spine";
    }
    return "?";
}

std::string_view to_string(Uncertainty::Source source) {
    switch (source) {
        case Uncertainty::Source::fitted: return "fitted";
        case Uncertainty::Source::prior: return "prior";
        case Uncertainty::Source::assumed: return "assumed";
    }
    return "?";
}

}  // namespace stepcast
