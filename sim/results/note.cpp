#include "sim/results/note.h"

#include <utility>

#include <fmt/format.h>

namespace stepcast {

Note remark(std::string text) { return {.text = std::move(text)}; }

void add_remarks(std::vector<Note>& notes, std::vector<std::string> texts) {
    for (std::string& text : texts) notes.push_back(remark(std::move(text)));
}

std::string to_string(const Note& n) {
    switch (n.kind) {
        case Note::Kind::remark: break;
        case Note::Kind::undetermined:
            return fmt::format("cluster.{}: not determined by the data, kept its prior {}", n.key,
                               n.text);
        case Note::Kind::extrapolated:
            if (n.most == 0) return "extrapolated: " + n.text;
            return fmt::format("extrapolated: {} {} to {}, fitted on {} to {}", n.key,
                               n.value > n.most ? "up" : "down", n.value, n.least, n.most);
    }
    return n.text;
}

std::vector<std::string> texts_of(const std::vector<Note>& notes) {
    std::vector<std::string> texts;
    for (const Note& note : notes) texts.push_back(to_string(note));
    return texts;
}

}  // namespace stepcast
