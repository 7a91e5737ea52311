// One function a schedule. All expect numbers that check_schedule() accepts and return one order a stage.
#pragma once

#include "model/pipeline/schedule.h"

namespace stepcast::pipeline {

std::vector<Order> gpipe(int stages, int micro_batches);
std::vector<Order> one_f_one_b(int stages, int micro_batches);
std::vector<Order> interleaved(int stages, int pieces, int micro_batches);
std::vector<Order> zb_h1(int stages, int micro_batches);
std::vector<Order> zb_v(int stages, int micro_batches);
std::vector<Order> dualpipe(int stages, int micro_batches);

}  // namespace stepcast::pipeline
