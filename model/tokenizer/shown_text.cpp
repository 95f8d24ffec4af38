#include "model/tokenizer/shown_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

constexpr std::size_t kLongest = 200;  // bytes; an expression should mostly fit

}  // namespace

std::string shown_text(std::string_view text) {
  if (text.size() <= kLongest) return fmt::format("{:?}", text);
  return fmt::format("{:?}...", text.substr(0, previous_char(text, kLongest)));
}

std::string shown_key(std::string_view key) {
  const bool plain = key.size() <= kLongest && std::none_of(key.begin(), key.end(), [](char c) {
                       return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
                     });
  return plain ? std::string(key) : shown_text(key);
}

}  // namespace headrace
