#include "model/tokenizer/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

// Up to this many symbols, looking at all pairs again after each join beats a queue.
constexpr std::size_t kFewSymbols = 32;

}  // namespace

MergeTable rank_merges(const RawMerges& raw, const Vocabulary& vocabulary, std::string_view prefix,
                       std::string_view source) {
  MergeTable table(raw.entries.size());
  std::string joined;
  for (std::size_t i = 0; i < raw.entries.size(); ++i) {
    const std::string_view left = raw.left(raw.entries[i]);
    const std::string_view right = raw.right(raw.entries[i]);
    joined.assign(left);
    joined += right.starts_with(prefix) ? right.substr(prefix.size()) : right;
    const TokenId left_id = vocabulary.find_or(left, -1);
    const TokenId right_id = vocabulary.find_or(right, -1);
    const TokenId joined_id = vocabulary.find_or(joined, -1);
    if (left_id < 0 || right_id < 0 || joined_id < 0) {
      throw std::invalid_argument(
          fmt::format("{}: merge {} ({} and {}): {} is not in the vocabulary", source, i,
                      shown_text(left), shown_text(right),
                      shown_text(left_id < 0    ? left
                                 : right_id < 0 ? right
                                                : joined)));
    }
    table.set(left_id, right_id, {.rank = static_cast<std::uint32_t>(i), .joined = joined_id});
  }
  return table;
}

BpeModel::BpeModel(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges,
                   BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string stand_in;
    append_utf8(stand_in, byte_to_char(static_cast<unsigned char>(byte)));
    alphabet_[byte] = vocabulary_->find_or(stand_in, -1);
    fallback_[byte] = vocabulary_->find_or(fmt::format("<0x{:02X}>", byte), -1);
  }
}

void BpeModel::encode_unknown(std::string_view word, WordMemory& memory,
                              std::vector<TokenId>& out) const {
  if (word.size() > INT32_MAX) {
    throw std::invalid_argument(
        fmt::format("a word of {} bytes; accepted: up to 2 GiB", word.size()));
  }
  if (options_.ignore_merges) {
    const TokenId whole = options_.words_are_bytes
                              ? vocabulary_->find_or(to_byte_alphabet(word), -1)
                              : vocabulary_->find_or(word, -1);
    if (whole >= 0) {
      out.push_back(whole);
      return;
    }
  }
  memory.ids.clear();
  if (!options_.words_are_bytes) {
    chars_to_ids(word, memory.ids);
  } else if (!bytes_to_ids(word, memory.ids)) {
    memory.ids.clear();
    chars_to_ids(to_byte_alphabet(word), memory.ids);
  }
  if (memory.ids.size() <= kFewSymbols) {
    merge_few(memory.ids);
  } else {
    merge_many(memory);
  }
  out.insert(out.end(), memory.ids.begin(), memory.ids.end());
}

// The usual case of a byte-level vocabulary; false where it needs the rules for characters.
bool BpeModel::bytes_to_ids(std::string_view word, std::vector<TokenId>& ids) const {
  if (!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
    return false;
  }
  for (const char byte : word) {
    const TokenId id = alphabet_[static_cast<unsigned char>(byte)];
    if (id < 0) return false;
    ids.push_back(id);
  }
  return true;
}

void BpeModel::chars_to_ids(std::string_view word, std::vector<TokenId>& ids) const {
  const bool decorated =
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  std::string decoration;
  TokenId unk = -1;  // of unknown characters before this one, not yet written
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t size = utf8_length(word[i]);
    std::string_view text = word.substr(i, size);
    if (decorated) {
      decoration = i == 0 ? std::string() : options_.continuing_subword_prefix;
      decoration += text;
      if (i + size == word.size()) decoration += options_.end_of_word_suffix;
      text = decoration;
    }
    i += size;
    const TokenId id = vocabulary_->find_or(text, -1);
    if (id >= 0) {
      if (unk >= 0) ids.push_back(unk);
      unk = -1;
      ids.push_back(id);
    } else if (options_.byte_fallback && fall_back_to_bytes(text, ids)) {
      continue;  // a waiting unknown token is written behind these bytes, as the library does it
    } else if (options_.unk_token) {
      if (unk >= 0 && !options_.fuse_unk) ids.push_back(unk);
      unk = unk_id();
    }
  }
  if (unk >= 0) ids.push_back(unk);
}

bool BpeModel::fall_back_to_bytes(std::string_view text, std::vector<TokenId>& ids) const {
  const bool all_exist = std::all_of(text.begin(), text.end(), [this](char byte) {
    return fallback_[static_cast<unsigned char>(byte)] >= 0;
  });
  if (!all_exist) return false;
  for (const char byte : text) ids.push_back(fallback_[static_cast<unsigned char>(byte)]);
  return true;
}

TokenId BpeModel::unk_id() const {
  const TokenId id = vocabulary_->find_or(*options_.unk_token, -1);
  if (id < 0) {
    throw std::invalid_argument(
        fmt::format("the text has an unknown character, and unk_token {} is not in the vocabulary",
                    shown_text(*options_.unk_token)));
  }
  return id;
}

void BpeModel::merge_few(std::vector<TokenId>& ids) const {
  std::array<Merge, kFewSymbols> merges;  // of symbols i and i + 1
  std::size_t count = ids.size();
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = merges_.find(ids[i], ids[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNoRank) break;
    ids[best] = merges[best].joined;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best > 0) merges[best - 1] = merges_.find(ids[best - 1], ids[best]);
    if (best + 1 < count) merges[best] = merges_.find(ids[best], ids[best + 1]);
  }
  ids.resize(count);
}

// A queue of candidate pairs, (rank, position of the left symbol), over a linked list of symbols.
void BpeModel::merge_many(WordMemory& memory) const {
  auto& symbols = memory.symbols;
  auto& queue = memory.queue;
  symbols.clear();
  queue.clear();
  const auto count = static_cast<std::int32_t>(memory.ids.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols.push_back({.id = memory.ids[static_cast<std::size_t>(i)],
                       .previous = i - 1,
                       .next = i + 1 < count ? i + 1 : -1});
  }
  const auto at = [&symbols](std::int32_t i) -> WordMemory::Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };
  const auto consider = [&](std::int32_t left) {
    if (left < 0 || at(left).next < 0) return false;
    const std::uint32_t rank = merges_.find(at(left).id, at(at(left).next).id).rank;
    if (rank == MergeTable::kNoRank) return false;
    queue.push_back(static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(left));
    return true;
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) consider(i);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](std::int32_t left) {
    if (consider(left)) std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t top = queue.back();
    queue.pop_back();
    const auto left = static_cast<std::int32_t>(top & UINT32_MAX);
    const std::int32_t right = at(left).next;
    if (at(left).id < 0 || right < 0) continue;
    const Merge merge = merges_.find(at(left).id, at(right).id);
    if (merge.rank != top >> 32) continue;  // the pair has changed since it was queued
    at(left).id = merge.joined;
    at(left).next = at(right).next;
    at(right).id = -1;
    if (at(left).next >= 0) at(at(left).next).previous = left;
    push(at(left).previous);
    push(left);
  }
  memory.ids.clear();
  for (std::int32_t i = 0; i >= 0; i = at(i).next) memory.ids.push_back(at(i).id);
}

}  // namespace headrace
