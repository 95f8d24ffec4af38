#include "fake_tokenizer.h"

#include <array>

namespace headrace {
namespace {

int length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

// Bytes that make no character become U+FFFD, one each.
std::string valid(const std::string& bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size();) {
    const int length = length_of(static_cast<unsigned char>(bytes[i]));
    int have = 1;
    while (have < length && i + have < bytes.size() &&
           (static_cast<unsigned char>(bytes[i + have]) & 0xC0U) == 0x80U) {
      ++have;
    }
    if (length == 0 || have < length) {
      out += "\xEF\xBF\xBD";
      ++i;
    } else {
      out.append(bytes, i, static_cast<std::size_t>(length));
      i += static_cast<std::size_t>(length);
    }
  }
  return out;
}

}  // namespace

std::string FakeTokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  static constexpr std::array<const char*, 5> kTexts = {"<s>", "</s>", "end", " END", "a"};
  std::string bytes;
  for (const TokenId id : ids) {
    if (id < 0 || id >= kVocabSize) throw std::invalid_argument("no such id");
    if (id < 256) {
      bytes += static_cast<char>(id);
    } else if (!options.skip_special_tokens || !is_special(id)) {
      bytes += kTexts[static_cast<std::size_t>(id - 256)];
    }
  }
  return valid(bytes);
}

// The tests of this folder stand on their own tokenizer, whose text never changes once a character
// is complete; so a decoder that waits for whole characters is all they need. Weak, since the model
// library has the general one.
__attribute__((weak))
IncrementalDecoder::IncrementalDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                                       DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

__attribute__((weak)) std::string IncrementalDecoder::push(TokenId id) {
  window_.push_back(id);
  std::string text = tokenizer_->decode(window_, options_);
  if (text.ends_with("\xEF\xBF\xBD") && window_.size() < 4) return {};
  window_.clear();
  return text;
}

__attribute__((weak)) std::string IncrementalDecoder::finish() {
  std::string text = tokenizer_->decode(window_, options_);
  window_.clear();
  return text;
}

}  // namespace headrace
