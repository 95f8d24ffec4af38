// Vocabulary and merges as a file lists them, before they are checked against each other. Both file
// formats are read into this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

/// Texts one after the other in one buffer: a large vocabulary is not a large number of
/// allocations.
struct RawVocabulary {
  struct Entry {
    std::size_t offset = 0;
    std::size_t size = 0;
    std::int64_t id = 0;
    double score = 0.0;  // of a list of [text, score]
  };
  std::string text;
  std::vector<Entry> entries;
  bool is_list = false;  // ids are positions; the same text may stand twice

  std::string_view token(const Entry& entry) const {
    return std::string_view(text).substr(entry.offset, entry.size);
  }
  void add(std::string_view token, std::int64_t id, double score = 0.0) {
    entries.push_back({.offset = text.size(), .size = token.size(), .id = id, .score = score});
    text += token;
  }
};

/// Pairs in order of rank.
struct RawMerges {
  struct Entry {
    std::size_t offset = 0;
    std::size_t left_size = 0;
    std::size_t right_size = 0;
  };
  std::string text;
  std::vector<Entry> entries;

  std::string_view left(const Entry& entry) const {
    return std::string_view(text).substr(entry.offset, entry.left_size);
  }
  std::string_view right(const Entry& entry) const {
    return std::string_view(text).substr(entry.offset + entry.left_size, entry.right_size);
  }
  void add(std::string_view left, std::string_view right) {
    entries.push_back(
        {.offset = text.size(), .left_size = left.size(), .right_size = right.size()});
    text += left;
    text += right;
  }
  /// "left right", as older files and GGUF write it; false where there is not exactly one space.
  bool add_legacy(std::string_view line) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return false;
    }
    add(line.substr(0, space), line.substr(space + 1));
    return true;
  }
};

}  // namespace headrace
