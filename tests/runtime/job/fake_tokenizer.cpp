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
    if (id < 0 || id >= kNumIds) continue;
    if (id < 256) {
      bytes += static_cast<char>(id);
    } else if (!options.skip_special_tokens || !is_special(id)) {
      bytes += kTexts[static_cast<std::size_t>(id - 256)];
    }
  }
  return valid(bytes);
}

namespace {

// The text of a fake token never changes once its characters are complete, so a stream only has to
// wait for whole characters.
class FakeTextStream : public TextStream {
 public:
  FakeTextStream(const FakeTokenizer& tokenizer, DecodeOptions options)
      : tokenizer_(tokenizer), options_(options) {}

  std::string push(TokenId id) override {
    window_.push_back(id);
    std::string text = tokenizer_.decode(window_, options_);
    if (text.ends_with("\xEF\xBF\xBD") && window_.size() < 4) return {};
    window_.clear();
    return text;
  }

  std::string finish() override {
    std::string text = tokenizer_.decode(window_, options_);
    window_.clear();
    return text;
  }

 private:
  const FakeTokenizer& tokenizer_;
  DecodeOptions options_;
  std::vector<TokenId> window_;
};

}  // namespace

std::unique_ptr<TextStream> FakeTokenizer::open_stream(DecodeOptions options) const {
  return std::make_unique<FakeTextStream>(*this, options);
}

}  // namespace headrace
