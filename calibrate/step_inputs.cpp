#include "calibrate/step_inputs.h"

#include <algorithm>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/files/csv.h"
#include "model/files/plain_text.h"

namespace stepcast {

StepInputs::StepInputs(const std::vector<std::string>& texts) {
    std::vector<std::string> keys;
    if (!texts.empty())
        for (const KeyDoc& doc : key_docs()) keys.push_back(doc.key);
    for (const std::string& text : texts) {
        const auto equals = text.find('=');
        Input input{text.substr(0, equals), {}};
        if (equals == std::string::npos || std::find(keys.begin(), keys.end(), input.key) == keys.end())
            throw ConfigError("--input " + text + ": expected KEY=VALUE or KEY=A,B,.. with a key of the experiment" +
                              did_you_mean(input.key, keys));
        at_place("--input " + text, [&] {
            for (const std::string& word : words_of(text.substr(equals + 1))) input.values.push_back(csv_number(word));
        });
        if (input.values.empty()) throw ConfigError("--input " + text + ": expected at least one value");
        inputs_.push_back(std::move(input));
    }
}

void StepInputs::add_to(SampleRecord& samples) const {
    if (inputs_.empty()) return;
    int first = samples.last_step();
    samples.replay([&](const SampleRecord::Value& v) {
        if (v.step >= 0) first = std::min(first, v.step);
    });
    for (const Input& input : inputs_) {
        const std::uint16_t key = samples.phase(input.key, "1");
        for (std::size_t i = 0; i < input.values.size(); ++i)
            samples.add(key, -1, input.values.size() == 1 ? -1 : first + static_cast<int>(i), input.values[i]);
    }
}

}  // namespace stepcast
