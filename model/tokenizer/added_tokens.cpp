#include "model/tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    std::size_t before = previous_char(text, begin);
    if (is_word(next_char(text, before))) return false;
  }
  return end == text.size() || !is_word(next_char(text, end));
}

std::size_t skip_spaces_back(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t start = previous_char(text, end);
    std::size_t i = start;
    if (!is_space(next_char(text, i))) break;
    end = start;
  }
  return end;
}

std::size_t skip_spaces(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!is_space(next_char(text, next))) break;
    begin = next;
  }
  return begin;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::size_t bytes = 0;
  for (const AddedToken& token : tokens_) bytes += token.pattern().size();
  trie_ = ByteTrie(bytes);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& pattern = tokens_[i].pattern();
    if (pattern.empty()) {
      throw std::invalid_argument(fmt::format("the added token {} is empty once normalized",
                                              shown_text(tokens_[i].content)));
    }
    TokenId& value = trie_.insert(pattern).value;
    if (value >= 0) {
      throw std::invalid_argument(fmt::format("the added tokens {} and {} are both {}",
                                              tokens_[static_cast<std::size_t>(value)].id,
                                              tokens_[i].id, shown_text(pattern)));
    }
    value = static_cast<TokenId>(i);
    begins_[static_cast<unsigned char>(pattern[0])] = true;
  }
}

std::optional<AddedTokenFinder::Hit> AddedTokenFinder::find(std::string_view text,
                                                            std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Hit> longest;
    std::uint32_t node = ByteTrie::kRoot;
    for (std::size_t i = begin; i < text.size(); ++i) {
      const ByteTrie::Node* next = trie_.child(node, text[i]);
      if (next == nullptr) break;
      node = next->number;
      if (next->value >= 0) {
        longest = {
            .begin = begin, .end = i + 1, .token = &tokens_[static_cast<std::size_t>(next->value)]};
      }
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokenFinder::cut(std::string_view text, std::vector<Piece>& out) const {
  std::size_t covered = 0;
  std::size_t from = 0;
  while (const auto hit = tokens_.empty() ? std::nullopt : find(text, from)) {
    from = hit->end;
    std::size_t begin = hit->begin;
    std::size_t end = hit->end;
    if (hit->token->single_word && !is_single_word(text, begin, end)) continue;
    if (hit->token->lstrip) begin = std::max(skip_spaces_back(text, begin), covered);
    if (hit->token->rstrip) end = skip_spaces(text, end);
    if (covered < begin) out.push_back({.begin = covered, .end = begin, .id = -1});
    out.push_back({.begin = begin, .end = end, .id = hit->token->id});
    // A token inside of white space that the one before took along gives some of it back, as in the
    // library.
    covered = end;
  }
  if (covered != text.size()) out.push_back({.begin = covered, .end = text.size(), .id = -1});
}

}  // namespace headrace
