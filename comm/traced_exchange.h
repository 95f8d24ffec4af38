// An exchange that says when it runs: forwards to another and records the time as one phase.
#pragma once

#include <memory>

#include "comm/shard_exchange.h"
#include "kernels/span_recorder.h"

namespace headrace {

/// The recorder must outlive it.
std::unique_ptr<ShardExchange> make_traced_exchange(std::unique_ptr<ShardExchange> exchange,
                                                    SpanRecorder& recorder);

}  // namespace headrace
