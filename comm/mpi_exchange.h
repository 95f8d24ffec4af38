// Shard exchanges between processes.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/shard_exchange.h"

namespace headrace {

/// Over memory that the group shares; all ranks must be on one node. Collective over group. bytes:
/// capacity of a rank's buffer.
std::unique_ptr<ShardExchange> make_shared_exchange(const Communicator& group, std::size_t bytes,
                                                    ExchangeWait wait);

/// By messages, for groups that cross nodes. Collective over group, which nothing else may use.
std::unique_ptr<ShardExchange> make_message_exchange(const Communicator& group, std::size_t bytes,
                                                     ExchangeWait wait);

}  // namespace headrace
