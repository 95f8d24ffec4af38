#include "model/tokenizer/token_splits.h"

#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

std::int32_t count_chars(std::string_view text) {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < text.size(); i += utf8_length(text[i])) ++count;
  return count;
}

class SplitFinder {
 public:
  SplitFinder(const Vocabulary& vocabulary, const std::vector<bool>& takes_part)
      : vocabulary_(vocabulary), takes_part_(takes_part) {}

  void add_splits(TokenId id, std::vector<TokenSplit>& out) const {
    const std::string_view token = vocabulary_.token(id);
    if (token.empty() || find(token) != id) return;
    const std::int32_t chars = count_chars(token);
    std::int32_t left_chars = 0;
    for (std::size_t i = utf8_length(token[0]); i < token.size(); i += utf8_length(token[i])) {
      ++left_chars;
      const TokenId left = find(token.substr(0, i));
      const TokenId right = left < 0 ? -1 : find(token.substr(i));
      if (right < 0) continue;
      out.push_back({.joined = id,
                     .left = left,
                     .right = right,
                     .left_chars = left_chars,
                     .right_chars = chars - left_chars});
    }
  }

 private:
  TokenId find(std::string_view text) const {
    const TokenId id = vocabulary_.find_or(text, -1);
    return id >= 0 && takes_part_[static_cast<std::size_t>(id)] ? id : -1;
  }

  const Vocabulary& vocabulary_;
  const std::vector<bool>& takes_part_;
};

}  // namespace

std::vector<TokenSplit> token_splits(const Vocabulary& vocabulary,
                                     const std::vector<bool>& takes_part) {
  const SplitFinder finder(vocabulary, takes_part);
  std::vector<TokenSplit> splits;
  for (TokenId id = 0; id < vocabulary.size(); ++id) finder.add_splits(id, splits);
  return splits;
}

}  // namespace headrace
