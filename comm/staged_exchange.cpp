#include "comm/staged_exchange.h"

#include <stdexcept>
#include <string>

namespace headrace {
namespace {

class StagedExchange final : public ShardExchange {
 public:
  StagedExchange(ShardExchange& host, DeviceArena& arena, std::size_t capacity)
      : host_(host), arena_(arena), capacity_(capacity) {
    if (capacity > host.own().size()) {
      throw std::logic_error("an exchange of " + std::to_string(capacity) +
                             " bytes by way of one of " + std::to_string(host.own().size()));
    }
    for (int rank = 0; rank < host.size(); ++rank) parts_.push_back({arena.take(capacity), 0});
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  // What follows on the device comes after what still reads the last round.
  std::span<std::byte> own() override { return {of(rank()).data, capacity_}; }

  void publish(std::size_t bytes) override {
    of(rank()).bytes = bytes;
    arena_.download(host_.own().first(bytes), of(rank()).data);
    host_.publish(bytes);
  }

  void complete() override {
    host_.complete();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const std::span<const std::byte> bytes = host_.part(peer);
      of(peer).bytes = bytes.size();
      arena_.upload(of(peer).data, bytes);
    }
  }

  std::span<const std::byte> part(int rank) const override {
    const Part& part = parts_[static_cast<std::size_t>(rank)];
    return {part.data, part.bytes};
  }

 private:
  struct Part {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  Part& of(int rank) { return parts_[static_cast<std::size_t>(rank)]; }

  ShardExchange& host_;
  DeviceArena& arena_;
  std::size_t capacity_;
  std::vector<Part> parts_;  // by rank
};

}  // namespace

std::unique_ptr<ShardExchange> make_staged_exchange(ShardExchange& host, DeviceArena& arena,
                                                    std::size_t bytes) {
  return std::make_unique<StagedExchange>(host, arena, bytes);
}

std::size_t staged_exchange_bytes(int num_ranks, std::size_t bytes) {
  return static_cast<std::size_t>(num_ranks) * arena_bytes(bytes);
}

}  // namespace headrace
