#include "runtime/job/custom_ids.h"

#include <utility>

#include "runtime/job/hash.h"

namespace headrace {
namespace {

constexpr std::uint32_t kFirstCapacity = 341;  // keys on a page
// Linear probing stays short below 85 %; growing by half keeps the mean fill above 70 %.
constexpr std::uint64_t kMaxFillPercent = 85;

}  // namespace

bool CustomIds::insert(std::string_view custom_id) {
  const Hash128 hash = hash128(custom_id);
  Key key{{static_cast<std::uint32_t>(hash.low), static_cast<std::uint32_t>(hash.low >> 32),
           static_cast<std::uint32_t>(hash.high)}};
  if (key == Key{}) key.word[0] = 1;  // zeros mark an empty place
  Part& part = parts_[hash.high >> 56];
  if (std::uint64_t{part.size} * 100 >= part.capacity * kMaxFillPercent) grow(part);
  return insert(part, key);
}

bool CustomIds::insert(Part& part, const Key& key) {
  Key* keys = part.keys();
  auto place = static_cast<std::uint32_t>((std::uint64_t{key.word[1]} * part.capacity) >> 32);
  while (keys[place] != Key{}) {
    if (keys[place] == key) return false;
    place = place + 1 == part.capacity ? 0 : place + 1;
  }
  keys[place] = key;
  ++part.size;
  return true;
}

void CustomIds::grow(Part& part) {
  Part larger;
  larger.capacity = part.capacity == 0 ? kFirstCapacity : part.capacity + part.capacity / 2;
  larger.pages = arena_->allocate(larger.capacity * sizeof(Key));
  for (std::uint32_t i = 0; i < part.capacity; ++i) {
    if (part.keys()[i] != Key{}) insert(larger, part.keys()[i]);
  }
  part = std::move(larger);
}

}  // namespace headrace
