// What a job remembers of each request line: 20 bytes.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "runtime/job/spill_arena.h"

namespace headrace {

class LineIndex {
 public:
  enum class Status : std::uint8_t { kUnknown, kSeen, kAnswered, kFailed };

  /// Where a finished line's output lies in OUTPUT.partial.
  struct Extent {
    std::int64_t offset = 0;
    std::uint32_t length = 0;  // without line end
  };

  explicit LineIndex(SpillArena& arena) : entries_(arena) {}

  /// One more than the largest ordinal that was put in.
  std::int64_t size() const { return size_; }

  Status status(std::int64_t ordinal) const {
    const Entry* entry = entries_.find(ordinal);
    return entry == nullptr ? Status::kUnknown : entry->status;
  }
  bool finished(std::int64_t ordinal) const { return status(ordinal) >= Status::kAnswered; }

  std::uint64_t hash(std::int64_t ordinal) const {
    const Entry* entry = entries_.find(ordinal);
    return entry->hash_low | (std::uint64_t{entry->hash_high} << 32);
  }
  Extent extent(std::int64_t ordinal) const {
    const Entry* entry = entries_.find(ordinal);
    return {
        static_cast<std::int64_t>(entry->offset_low | (std::uint64_t{entry->offset_high} << 32)),
        entry->length};
  }

  void set_seen(std::int64_t ordinal, std::uint64_t hash) {
    Entry& entry = put(ordinal);
    entry.hash_low = static_cast<std::uint32_t>(hash);
    entry.hash_high = static_cast<std::uint32_t>(hash >> 32);
    entry.status = Status::kSeen;
  }
  void set_finished(std::int64_t ordinal, bool answered, Extent extent) {
    Entry& entry = put(ordinal);
    entry.offset_low = static_cast<std::uint32_t>(extent.offset);
    entry.offset_high = static_cast<std::uint16_t>(extent.offset >> 32);
    entry.length = extent.length;
    entry.status = answered ? Status::kAnswered : Status::kFailed;
  }

  static constexpr std::int64_t kMaxLines = std::int64_t{1} << 36;   // chunk table of 8 MiB
  static constexpr std::int64_t kMaxOffset = std::int64_t{1} << 48;  // what an entry can hold

 private:
  struct Entry {
    std::uint32_t hash_low;
    std::uint32_t hash_high;
    std::uint32_t offset_low;
    std::uint32_t length;
    std::uint16_t offset_high;
    Status status;
    std::uint8_t unused;
  };
  static_assert(sizeof(Entry) == 20);

  Entry& put(std::int64_t ordinal) {
    if (ordinal < 0 || ordinal >= kMaxLines)
      throw std::length_error("more lines than a job can have");
    entries_.extend_to(ordinal);
    if (ordinal >= size_) size_ = ordinal + 1;
    return *entries_.find(ordinal);
  }

  SpillVector<Entry> entries_;
  std::int64_t size_ = 0;
};

}  // namespace headrace
