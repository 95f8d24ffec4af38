// What the ranks of a tensor-parallel group tell each other between the parts of a layer: rounds in
// which every rank fills a buffer of its own and then reads everybody's. Sums are left to the
// readers, who all add in the same order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace headrace {

/// How a rank waits for the others of its group.
struct ExchangeWait {
  double stall_timeout_s = 0.0;    // 0: for ever
  std::vector<std::string> names;  // by rank of the group, for messages: "rank 3 on host a"
  std::function<void()> poll;      // lets other transfers advance meanwhile; may be empty
};

/// One rank's end. Only the thread that made it may call it; all ranks of the group take part in
/// every round.
class ShardExchange {
 public:
  virtual ~ShardExchange() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The buffer of the coming round, as large as every other rank's.
  virtual std::span<std::byte> own() = 0;

  /// Says that the first `bytes` bytes of own() are written.
  virtual void publish(std::size_t bytes) = 0;

  /// Waits until all have published. Throws std::runtime_error naming who did not, after the stall
  /// timeout.
  virtual void complete() = 0;

  /// What a rank published, its own included; valid from complete() to the next publish().
  virtual std::span<const std::byte> part(int rank) const = 0;
};

/// A group inside one process: an end for each thread that plays a rank. bytes: capacity of a
/// rank's buffer.
std::vector<std::unique_ptr<ShardExchange>> make_thread_exchange(int size, std::size_t bytes);

}  // namespace headrace
