// The exchange of ranks that compute on the host. Here a rank's bytes say themselves how many they
// are; sums are left to the readers, who all add in the same order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/tensor_exchange.h"

namespace headrace {

/// How a rank waits for the others of its group.
struct ExchangeWait {
  double stall_timeout_s = 0.0;    // 0: for ever
  std::vector<std::string> names;  // by rank of the group, for messages: "rank 3 on host a"
  std::function<void()> poll;      // lets other transfers advance meanwhile; may be empty
};

class ShardExchange : public TensorExchange {
 public:
  /// Says that the first `bytes` bytes of own() are written.
  virtual void publish(std::size_t bytes) = 0;

  /// Waits until all have published, and ends the round. Throws std::runtime_error naming who did
  /// not, after the stall timeout.
  virtual void complete() = 0;

  /// Both. Throws std::logic_error where a rank published another number of bytes.
  void gather(std::span<const std::size_t> bytes) final;

  bool adds() const final { return false; }
  void sum(std::span<float> values) final;
};

/// A group inside one process: an end for each thread that plays a rank. bytes: capacity of a
/// rank's buffer.
std::vector<std::unique_ptr<ShardExchange>> make_thread_exchange(int size, std::size_t bytes);

}  // namespace headrace
