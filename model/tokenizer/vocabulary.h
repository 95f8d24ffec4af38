// Token texts and ids, both ways, in two flat tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/token.h"
#include "model/tokenizer/raw_model.h"

namespace headrace {

class Vocabulary {
 public:
  /// Ids below this limit are accepted. It follows the size of the file, so that a short file
  /// cannot ask for much memory by one large id.
  explicit Vocabulary(std::int64_t id_limit) : id_limit_(id_limit) {}

  /// All entries of a file; `source` is named in complaints: negative or too large ids, ids given
  /// twice, texts given twice (in a list the later one counts).
  Vocabulary(const RawVocabulary& raw, std::int64_t id_limit, std::string_view source);

  /// A text already there gets the new id for find(); the old id keeps its text.
  void add(std::string_view token, std::int64_t id, std::string_view source);

  std::optional<TokenId> find(std::string_view token) const {
    const TokenId id = find_or(token, -1);
    return id < 0 ? std::nullopt : std::optional(id);
  }
  TokenId find_or(std::string_view token, TokenId otherwise) const;

  bool contains(TokenId id) const {
    return id >= 0 && id < size() && spans_[static_cast<std::size_t>(id)].offset != kAbsent;
  }
  /// Empty for an id without a token.
  std::string_view token(TokenId id) const;

  /// The largest id + 1.
  TokenId size() const { return static_cast<TokenId>(spans_.size()); }
  /// Number of different texts.
  std::int64_t count() const { return count_; }

 private:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;
  struct Span {
    std::uint32_t offset = kAbsent;
    std::uint32_t size = 0;
  };

  std::size_t slot_of(std::string_view token) const;
  void grow();

  std::int64_t id_limit_;
  std::int64_t count_ = 0;
  std::string text_;
  std::vector<Span> spans_;     // by id
  std::vector<TokenId> slots_;  // open addressing, a power of two, at most half full; -1 is free
};

}  // namespace headrace
