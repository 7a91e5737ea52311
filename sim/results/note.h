// What a forecast says beside its figures, as values: reports count, sort and word them.
#pragma once

#include <string>
#include <vector>

namespace stepcast {

struct Note {
    enum class Kind {
        remark,        // a sentence
        extrapolated,  // a size that no table or fit of the cluster reaches
        undetermined   // a parameter that the data did not move from its prior
    };
    Kind kind = Kind::remark;
    std::string key = {};   // of a size ("gemm.k", "all-reduce") or a parameter ("host.call")
    std::string text = {};  // a remark; what of the size is outside, if it has no limits; the prior
    // of a size that fits know the range of
    double value = 0, least = 0, most = 0;
    friend bool operator==(const Note&, const Note&) = default;
};

Note remark(std::string text);
void add_remarks(std::vector<Note>& notes, std::vector<std::string> texts);

// "extrapolated: gemm.k up to 128256, fitted on 512 to 16384", "cluster.host.call: not determined
// by the data, kept its prior 5 us", or the remark.
std::string to_string(const Note& note);
// For JSON.
std::vector<std::string> texts_of(const std::vector<Note>& notes);

}  // namespace stepcast
