// Defaults are those of torchtitan/config/job_config.py and
// torchtitan/models/*/infra/parallelize.py, v0.2.2.
#pragma once

#include <utility>

#include "import/launch/document.h"
#include "import/launch/translate.h"
#include "model/transformer/known_schedules.h"
#include "model/workload.h"

namespace stepcast {

// torchtitan's names of pipeline schedules; of the two for 1F1B the second is for several chunks
// per stage.
inline constexpr std::pair<std::string_view, Schedule> titan_schedules[] = {
    {"GPipe", Schedule::gpipe},
    {"1F1B", Schedule::one_f_one_b},
    {"Interleaved1F1B", Schedule::one_f_one_b},
    {"ZBVZeroBubble", Schedule::zb_v},
    {"DualPipeV", Schedule::dualpipe}};

// torchtitan's models with our presets of the same sizes: model.name and model.flavor of its TOML,
// module and config function from 0.3 on ("": none).
struct TitanModel {
    std::string_view name, flavor, preset, config;
};

// The model of these sizes, or null.
const TitanModel* titan_model_of(const Workload& workload);

// torchtitan's TOML (v0.2.2), or the flags of 0.3.0 by the same names. `model` gives the sizes if
// model.name and model.flavor do not.
Translation translate_torchtitan(Document document, const std::string& model, long replicas);

}  // namespace stepcast
