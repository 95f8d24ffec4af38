// NCCL is loaded by the first call of it: a job that needs none neither has to have it nor pays for
// it.
#pragma once

#include <string>

namespace headrace {

/// Loads it. Returns why it cannot be used on this machine; empty where it can.
std::string nccl_library_problem();

}  // namespace headrace
