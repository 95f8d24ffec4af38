#include "comm/shard_exchange.h"

#include <stdexcept>

namespace headrace {

void ShardExchange::gather(std::span<const std::size_t> bytes) {
  publish(bytes[static_cast<std::size_t>(rank())]);
  complete();
  for (int peer = 0; peer < size(); ++peer) {
    const std::size_t expected = bytes[static_cast<std::size_t>(peer)];
    if (part(peer).size() == expected) continue;
    throw std::logic_error("rank " + std::to_string(peer) + " of a stage gave " +
                           std::to_string(part(peer).size()) + " bytes, " +
                           std::to_string(expected) + " are its part");
  }
}

void ShardExchange::sum(std::span<float> /*values*/) {
  throw std::logic_error("sums over ranks on the host are the readers'");
}

}  // namespace headrace
