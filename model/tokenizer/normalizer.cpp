#include "model/tokenizer/normalizer.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "model/tokenizer/charsmap.h"
#include "model/tokenizer/pattern.h"
#include "model/tokenizer/pattern_node.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  void apply(Segment& segment) const override { segment.text = normalize(segment.text, form_); }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(Segment& segment) const override {
    std::string out;
    out.reserve(segment.text.size());
    for (std::size_t i = 0; i < segment.text.size();) {
      append_lowercase(out, next_char(segment.text, i));
    }
    segment.text = std::move(out);
  }
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void apply(Segment& segment) const override {
    const std::string_view text = segment.text;
    std::size_t begin = 0;
    std::size_t end = text.size();
    if (left_) {
      for (std::size_t i = 0; i < text.size() && is_space(next_char(text, i));) begin = i;
    }
    while (right_ && end > begin) {
      const std::size_t start = previous_char(text, end);
      std::size_t i = start;
      if (!is_space(next_char(text, i))) break;
      end = start;
    }
    if (begin > 0) segment.at_start = false;
    segment.text = std::string(text.substr(begin, end - begin));
  }

 private:
  bool left_;
  bool right_;
};

// Drops some characters and exchanges others.
void map_characters(Segment& segment, bool (*drops)(char32_t), char32_t (*map)(char32_t)) {
  std::string out;
  out.reserve(segment.text.size());
  for (std::size_t i = 0; i < segment.text.size();) {
    const bool is_first = i == 0;
    const char32_t c = next_char(segment.text, i);
    if (!drops(c)) {
      append_utf8(out, map(c));
    } else if (is_first) {
      segment.at_start = false;
    }
  }
  segment.text = std::move(out);
}

class StripAccents final : public Normalizer {
 public:
  void apply(Segment& segment) const override {
    map_characters(segment, is_stripped_mark, [](char32_t c) { return c; });
  }
};

// The cleaning of the Moses/NMT scripts that SentencePiece took over.
class Nmt final : public Normalizer {
 public:
  void apply(Segment& segment) const override { map_characters(segment, drops, map); }

 private:
  static bool drops(char32_t c) {
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
           c == 0x8F || c == 0x9F;
  }
  static char32_t map(char32_t c) {
    const bool blank = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    return blank ? U' ' : c;
  }
};

class Replace final : public Normalizer {
 public:
  Replace(std::unique_ptr<Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(Segment& segment) const override {
    std::vector<Match> matches;
    pattern_->find(segment.text, matches);
    if (matches.size() == 1 && !matches[0].is_match) return;
    std::string out;
    out.reserve(segment.text.size());
    for (const Match& match : matches) {
      const std::string_view text =
          std::string_view(segment.text).substr(match.begin, match.end - match.begin);
      // What replaces several characters counts as coming from the last of them.
      if (match.is_match && match.begin == 0 && !text.empty() &&
          (content_.empty() || utf8_length(text[0]) < text.size())) {
        segment.at_start = false;
      }
      out += match.is_match ? std::string_view(content_) : text;
    }
    segment.text = std::move(out);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(Segment& segment) const override {
    if (!segment.text.empty()) segment.text.insert(0, text_);
  }

 private:
  std::string text_;
};

class ByteSpelling final : public Normalizer {
 public:
  void apply(Segment& segment) const override { segment.text = to_byte_alphabet(segment.text); }
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(std::string_view base64) : map_(base64) {}
  void apply(Segment& segment) const override { segment.text = map_.normalize(segment.text); }

 private:
  Charsmap map_;
};

std::unique_ptr<const Normalizer> make_charsmap(const JsonNode& node) {
  const JsonNode charsmap = node.at("precompiled_charsmap");
  try {
    return std::make_unique<Precompiled>(charsmap.string());
  } catch (const std::invalid_argument&) {
    charsmap.reject("SentencePiece's character map in base64");
  }
}

void append_normalizers(const JsonNode& node, Normalizers& out) {
  static constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms = {
      {{"NFC", NormalForm::kNfc},
       {"NFD", NormalForm::kNfd},
       {"NFKC", NormalForm::kNfkc},
       {"NFKD", NormalForm::kNfkd}}};
  const std::string type = node.at("type").string();
  for (const auto& [name, form] : kForms) {
    if (type == name) {
      out.push_back(std::make_unique<UnicodeForm>(form));
      return;
    }
  }
  if (type == "Sequence") {
    for (const JsonNode& part : node.at("normalizers").elements()) append_normalizers(part, out);
  } else if (type == "Lowercase") {
    out.push_back(std::make_unique<Lowercase>());
  } else if (type == "Strip") {
    out.push_back(
        std::make_unique<Strip>(node.at("strip_left").boolean(), node.at("strip_right").boolean()));
  } else if (type == "StripAccents") {
    out.push_back(std::make_unique<StripAccents>());
  } else if (type == "Nmt") {
    out.push_back(std::make_unique<Nmt>());
  } else if (type == "Replace") {
    out.push_back(
        std::make_unique<Replace>(parse_pattern(node.at("pattern")), node.at("content").string()));
  } else if (type == "Prepend") {
    out.push_back(std::make_unique<Prepend>(node.at("prepend").string()));
  } else if (type == "ByteLevel") {
    out.push_back(std::make_unique<ByteSpelling>());
  } else if (type == "Precompiled") {
    out.push_back(make_charsmap(node));
  } else {
    node.at("type").reject(
        "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, Replace, Prepend, ByteLevel, "
        "Precompiled, Sequence");
  }
}

}  // namespace

Normalizers parse_normalizer(const JsonNode& node) {
  Normalizers normalizers;
  append_normalizers(node, normalizers);
  return normalizers;
}

void normalize_segment(const Normalizers& normalizers, Segment& segment) {
  for (const auto& normalizer : normalizers) normalizer->apply(segment);
}

}  // namespace headrace
