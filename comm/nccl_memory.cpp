#include "comm/nccl_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace headrace {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGranule = 2 * kMiB;
constexpr std::size_t kSteps = 8;
constexpr std::size_t kHeader = 8192;  // of the larger of the two ends

constexpr std::size_t kLl = 8 * 512 * kSteps * 16;
constexpr std::size_t kLl128 = 120 * 640 * kSteps * sizeof(std::uint64_t);
constexpr std::size_t kSimple = 4 * kMiB;

constexpr std::size_t kNvlsChunk = std::size_t{128} << 10;
// Peers that a rank has on a channel at most: two in a ring, four in a tree.
constexpr std::size_t kMostPeers = 6;
// Each communicator's queue of work for its kernels, 1 MiB.
constexpr std::size_t kWorkQueue = kGranule;

std::size_t whole_granules(std::size_t bytes) {
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

// As NCCL reads it: what is no number, or negative, is the default.
std::size_t size_of(const char* variable, std::size_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 0);
  return end == text || *end != '\0' || value < 0 ? otherwise : static_cast<std::size_t>(value);
}

// Both ends of a connection, in either of the two ways to place the simple buffer.
struct Connection {
  std::size_t sender = 0;
  std::size_t receiver = 0;
  std::size_t both = 0;  // a rank that sends and receives
};

Connection connection() {
  const std::size_t simple = size_of("NCCL_BUFFSIZE", kSimple);
  const std::size_t others =
      kHeader + size_of("NCCL_LL_BUFFSIZE", kLl) + size_of("NCCL_LL128_BUFFSIZE", kLl128);
  const std::size_t written_sender = whole_granules(kHeader);
  const std::size_t written_receiver = whole_granules(others + simple);
  const std::size_t read_sender = whole_granules(kHeader + simple);
  const std::size_t read_receiver = whole_granules(others);
  return {.sender = std::max(written_sender, read_sender),
          .receiver = std::max(written_receiver, read_receiver),
          .both = std::max(written_sender + written_receiver, read_sender + read_receiver)};
}

}  // namespace

std::size_t nccl_bytes(const TransportOptions& options) {
  if (options.kind != TransportKind::kNccl) return 0;
  const Connection one = connection();
  std::size_t bytes = 0;
  if (options.upstream) bytes += kWorkQueue + kNcclEdgeChannels * one.receiver;
  if (options.downstream) bytes += kWorkQueue + kNcclEdgeChannels * one.sender;
  const std::size_t size = options.group.size();
  if (size < 2) return bytes;
  const std::size_t peers = std::min(size - 1, kMostPeers);
  const std::size_t nvls = whole_granules(2 * kSteps * kNvlsChunk * size * kNcclGroupChannels);
  return bytes + kWorkQueue + kNcclGroupChannels * peers * one.both + nvls;
}

}  // namespace headrace
