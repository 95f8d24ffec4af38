// Preparing a job in step: a mistake that any rank finds ends all of them with one message from
// rank 0, before anything is written.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace headrace {

/// Runs prepare on every rank. Where it throws std::invalid_argument on some, the lowest such
/// rank's text is thrown on all as std::invalid_argument. Collective over world.
void prepare_together(const Communicator& world, const std::function<void()>& prepare);

}  // namespace headrace
