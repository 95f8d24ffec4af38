// The set of custom_ids seen, as 96-bit hashes: 12 bytes an id. Two different ids of a billion are
// taken for equal with a probability of 1e-11.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/job/spill_arena.h"

namespace headrace {

class CustomIds {
 public:
  explicit CustomIds(SpillArena& arena) : arena_(&arena) {}

  /// False where the id is in the set already.
  bool insert(std::string_view custom_id);

 private:
  struct Key {
    std::array<std::uint32_t, 3> word;
    friend bool operator==(const Key&, const Key&) = default;
  };
  // Open addressing with linear probes. Parts grow one by one, so that no moment holds the set
  // twice.
  struct Part {
    Pages pages;
    std::uint32_t capacity = 0;
    std::uint32_t size = 0;
    Key* keys() const { return reinterpret_cast<Key*>(pages.data()); }
  };
  static constexpr int kNumParts = 256;

  static bool insert(Part& part, const Key& key);
  void grow(Part& part);

  SpillArena* arena_;
  std::array<Part, kNumParts> parts_;
};

}  // namespace headrace
