// An exchange for ranks whose tensors lie in a device's memory: what they give goes by way of the
// host's exchange, and comes back to the device. The other ranks may compute where they like.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/shard_exchange.h"
#include "kernels/device_arena.h"

namespace headrace {

/// own() and part() are memory of the arena. `host` and arena must outlive it; `host` may be used
/// for rounds of its own in between. bytes: capacity of a rank's buffer, at most that of `host`.
std::unique_ptr<ShardExchange> make_staged_exchange(ShardExchange& host, DeviceArena& arena,
                                                    std::size_t bytes);

/// Bytes that it takes from the arena.
std::size_t staged_exchange_bytes(int num_ranks, std::size_t bytes);

}  // namespace headrace
