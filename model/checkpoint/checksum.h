// The checksum of Headrace checkpoints: XXH3, 64 bits, over stored bytes as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s;

namespace headrace {

class Checksum {
 public:
  Checksum();

  void add(std::span<const std::byte> bytes);
  /// Of all bytes so far.
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace headrace
