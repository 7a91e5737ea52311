// Words of a row's cells as plain cells: which words mean what is data
// (model/presets/table_words.toml). Internal to import/tables.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/tables/cases.h"

namespace stepcast {

using Cells = std::map<std::string, std::string>;
using SourceRow = std::map<std::string, std::string>;  // a table of the TOML file, by its keys

// A text as tables write it, with numbers that fill cells: "{dense_layers} layers dense (ffn
// {dense_ffn})".
class Phrase {
public:
    explicit Phrase(std::string_view text);

    // Every place of the phrase in `text` in turn, until `counts(begin, end)` is true of one whose
    // numbers are there. Its numbers are added to `cells`.
    template <class Counts>
    bool find(std::string_view text, Cells& cells, const Counts& counts) const {
        for (auto at = text.find(anchor()); at != text.npos; at = text.find(anchor(), at + 1)) {
            Cells found;
            const auto [begin, end] = match(text, at, found);
            if (begin == end || !counts(begin, end)) continue;
            cells.merge(found);
            return true;
        }
        return false;
    }
    // Without capitals it is found in any case.
    [[nodiscard]] bool any_case() const { return any_case_; }
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] const std::vector<std::string>& cells() const { return cells_; }

private:
    struct Span {
        std::size_t begin, end;  // equal: no match
    };
    [[nodiscard]] const std::string& anchor() const {
        return literals_.front().empty() ? literals_[1] : literals_.front();
    }
    Span match(std::string_view text, std::size_t anchor_at, Cells& found) const;

    std::string text_;
    std::vector<std::string> literals_;  // around the cells, one more than these
    std::vector<std::string> cells_;
    bool any_case_ = true;
};

// The cells that words may fill: columns of a table, and others.
const std::vector<std::string>& cells_of_words();

class RowWords {
public:
    // The tables [[word]], [[unstated]] and [[assumed]]. Throws ConfigError.
    RowWords(const std::vector<SourceRow>& words, const std::vector<SourceRow>& unstated,
             const std::vector<SourceRow>& assumed);

    // The row in plain cells; what words of a column replaced there is in stated_COLUMN. What was
    // read into it, and cells marked as assumed, are listed in `assumptions`. Throws ConfigError,
    // column first, for work that is not modelled.
    [[nodiscard]] CaseRow plain(const CaseRow& row, std::vector<std::string>& assumptions) const;

private:
    struct Word {
        std::vector<std::string> in;
        std::vector<Phrase> phrases;
        std::vector<std::string> but_not;
        std::string at, with, said, refuse;
        Cells cells;
    };
    static Word word_of(const SourceRow& table);
    // The phrase that stands there, or null.
    static const Phrase* phrase_in(const Word& word, const CaseRow& row, Cells& found);

    std::vector<Word> words_;
    std::vector<std::string> unstated_, assumed_;
};

}  // namespace stepcast
