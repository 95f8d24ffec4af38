// Memory for a job's index: zeroed pages, anonymous up to a budget, beyond it from an unlinked
// file, so that a job of a billion lines needs disk and not memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "runtime/job/file_ops.h"

namespace headrace {

class SpillArena;

/// Pages with one owner. Must not outlive its arena.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  std::byte* data() const { return data_; }

 private:
  friend class SpillArena;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  SpillArena* arena_ = nullptr;  // whose budget they count against; null for pages of the file
};

class SpillArena {
 public:
  /// directory: where the file is made once the budget is used up.
  SpillArena(std::filesystem::path directory, std::size_t budget_bytes)
      : directory_(std::move(directory)), budget_bytes_(budget_bytes) {}
  SpillArena(const SpillArena&) = delete;
  SpillArena& operator=(const SpillArena&) = delete;

  Pages allocate(std::size_t bytes);
  bool has_spilled() const { return file_.is_open(); }

 private:
  friend class Pages;
  Pages map_memory(std::size_t bytes);
  Pages map_file(std::size_t bytes);

  std::filesystem::path directory_;
  std::size_t budget_bytes_;
  std::size_t used_bytes_ = 0;
  File file_;
  std::size_t file_bytes_ = 0;
};

/// A growing array of plain values that begin as zeros. Values never move.
template <typename Value>
class SpillVector {
 public:
  explicit SpillVector(SpillArena& arena) : arena_(&arena) {}

  /// Makes index valid.
  void extend_to(std::int64_t index) {
    const auto chunk = static_cast<std::size_t>(index / kChunk);
    if (chunk >= chunks_.size()) chunks_.resize(chunk + 1);
    if (chunks_[chunk].data() == nullptr) chunks_[chunk] = arena_->allocate(kChunk * sizeof(Value));
  }

  /// Null where nothing was put near index.
  Value* find(std::int64_t index) const {
    const auto chunk = static_cast<std::size_t>(index / kChunk);
    if (chunk >= chunks_.size() || chunks_[chunk].data() == nullptr) return nullptr;
    return reinterpret_cast<Value*>(chunks_[chunk].data()) + index % kChunk;
  }

 private:
  static constexpr std::int64_t kChunk = 65536;
  SpillArena* arena_;
  std::vector<Pages> chunks_;
};

}  // namespace headrace
