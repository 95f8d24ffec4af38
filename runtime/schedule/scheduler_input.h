// What a scheduler accepts: checks of its limits and of the sequences it is given.
#pragma once

#include "runtime/schedule/scheduler.h"

namespace headrace {

/// Throws std::invalid_argument naming the limit, its value and what would be accepted.
void check_limits(const SchedulerLimits& limits);

/// Throws std::invalid_argument naming the sequence and what is malformed.
void check_sequence(const NewSequence& sequence);

}  // namespace headrace
