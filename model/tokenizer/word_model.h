// The last step of encoding: one word (a piece that the pre-tokenizer cut out) to token ids.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/token.h"
#include "model/tokenizer/text_hash.h"

namespace headrace {

/// Ids of short words met before. Direct-mapped, so its memory is fixed and a lookup is one
/// compare.
class WordCache {
 public:
  WordCache() : entries_(new Entry[kEntries]) {}

  /// Appends the word's ids to out; false where it is not known.
  bool find(std::string_view word, std::vector<TokenId>& out) const {
    if (word.size() > kLongestWord) return false;
    const Entry& entry = entries_[slot_of(word)];
    if (entry.size != word.size() ||
        std::memcmp(entry.word.data(), word.data(), word.size()) != 0) {
      return false;
    }
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.num_ids);
    return true;
  }

  void store(std::string_view word, const TokenId* ids, std::size_t num_ids) {
    if (word.size() > kLongestWord || word.empty() || num_ids > kMostIds) return;
    Entry& entry = entries_[slot_of(word)];
    entry.size = static_cast<std::uint8_t>(word.size());
    entry.num_ids = static_cast<std::uint8_t>(num_ids);
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::copy_n(ids, num_ids, entry.ids.begin());  // of none there may be no pointer
  }

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << 14;  // of 128 bytes: 2 MiB
  static constexpr std::size_t kLongestWord = 62;
  static constexpr std::size_t kMostIds = 16;
  // Two cache lines: the word, and its ids.
  struct alignas(64) Entry {
    std::uint8_t size = 0;  // 0: free
    std::uint8_t num_ids = 0;
    std::array<char, kLongestWord> word;
    std::array<TokenId, kMostIds> ids;
  };

  static std::size_t slot_of(std::string_view word) { return hash_text(word) & (kEntries - 1); }

  std::unique_ptr<Entry[]> entries_;
};

/// Working memory of one encode call; reused by later calls.
struct WordMemory {
  struct Symbol {
    TokenId id = -1;  // -1: joined to the left
    std::int32_t previous = -1;
    std::int32_t next = -1;
  };

  struct BestEnd {
    double score = 0.0;
    std::int64_t start = -1;  // -1: not reached
    TokenId id = -1;
  };

  WordCache cache;
  std::vector<TokenId> ids;
  std::vector<Symbol> symbols;
  std::vector<std::uint64_t> queue;
  std::vector<BestEnd> ends;
};

class WordModel {
 public:
  WordModel() = default;
  WordModel(const WordModel&) = delete;
  WordModel& operator=(const WordModel&) = delete;
  virtual ~WordModel() = default;

  /// Appends the ids of a word. O(n log n) in its length.
  void encode(std::string_view word, WordMemory& memory, std::vector<TokenId>& out) const {
    if (word.empty() || memory.cache.find(word, out)) return;
    const std::size_t before = out.size();
    encode_unknown(word, memory, out);
    memory.cache.store(word, out.data() + before, out.size() - before);
  }

 protected:
  virtual void encode_unknown(std::string_view word, WordMemory& memory,
                              std::vector<TokenId>& out) const = 0;
};

}  // namespace headrace
