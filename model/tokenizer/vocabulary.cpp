#include "model/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/text_hash.h"

namespace headrace {

Vocabulary::Vocabulary(const RawVocabulary& raw, std::int64_t id_limit, std::string_view source)
    : id_limit_(id_limit) {
  text_.reserve(raw.text.size());
  slots_.assign(std::bit_ceil(raw.entries.size() * 2 + 16), -1);
  for (const RawVocabulary::Entry& entry : raw.entries) {
    const std::string_view token = raw.token(entry);
    if (!raw.is_list && find_or(token, -1) >= 0) {
      throw std::invalid_argument(
          fmt::format("{}: the token {} stands twice", source, shown_text(token)));
    }
    add(token, entry.id, source);
  }
}

void Vocabulary::add(std::string_view token, std::int64_t id, std::string_view source) {
  if (id < 0 || id >= id_limit_) {
    throw std::invalid_argument(
        fmt::format("{}: the token {} has the id {}; accepted: 0 to {} in a file of this size",
                    source, shown_text(token), id, id_limit_ - 1));
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= spans_.size()) spans_.resize(index + 1);
  if (spans_[index].offset != kAbsent) {
    throw std::invalid_argument(fmt::format("{}: {} and {} have the same id {}", source,
                                            shown_text(this->token(static_cast<TokenId>(id))),
                                            shown_text(token), id));
  }
  if (text_.size() + token.size() >= kAbsent) {
    throw std::invalid_argument(fmt::format("{}: a vocabulary of 4 GiB or more", source));
  }
  if (static_cast<std::size_t>(count_ + 1) * 2 > slots_.size()) grow();
  spans_[index] = {.offset = static_cast<std::uint32_t>(text_.size()),
                   .size = static_cast<std::uint32_t>(token.size())};
  text_ += token;
  TokenId& slot = slots_[slot_of(token)];
  if (slot < 0) ++count_;
  slot = static_cast<TokenId>(id);
}

TokenId Vocabulary::find_or(std::string_view token, TokenId otherwise) const {
  if (slots_.empty()) return otherwise;
  const TokenId id = slots_[slot_of(token)];
  return id < 0 ? otherwise : id;
}

std::string_view Vocabulary::token(TokenId id) const {
  if (!contains(id)) return {};
  const Span span = spans_[static_cast<std::size_t>(id)];
  return std::string_view(text_).substr(span.offset, span.size);
}

// Where the token is, or the free slot where it belongs.
std::size_t Vocabulary::slot_of(std::string_view token) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_text(token) & mask;
  while (slots_[slot] >= 0 && this->token(slots_[slot]) != token) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  const std::vector<TokenId> old = std::move(slots_);
  slots_.assign(std::max<std::size_t>(16, old.size() * 2), -1);
  for (const TokenId id : old) {
    if (id >= 0) slots_[slot_of(token(id))] = id;
  }
}

}  // namespace headrace
