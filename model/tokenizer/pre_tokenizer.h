// Cuts a text into words.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/json_node.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/pattern.h"

namespace headrace {

/// A text and the words cut out of it so far. Kept between uses, so that its memory is reused.
struct Words {
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Segment segment;
  std::vector<Span> spans;  // in order; what lies between them is dropped
  std::vector<Span> next;   // where a step writes its spans
  std::vector<Match> matches;
  std::string text;  // where a step writes a changed text

  std::string_view word(Span span) const {
    return std::string_view(segment.text).substr(span.begin, span.end - span.begin);
  }
  /// One word: the whole text.
  void reset() {
    spans.clear();
    if (!segment.text.empty()) spans.push_back({.begin = 0, .end = segment.text.size()});
  }
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;
  virtual ~PreTokenizer() = default;
  virtual void apply(Words& words) const = 0;
};

struct PreTokenizers {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;  // a Sequence is flattened into them
  /// The last step of a byte-level tokenizer respells bytes as characters. It is left out, and the
  /// model takes the words as bytes.
  bool words_are_bytes = false;
};

/// Throws std::invalid_argument naming the node for types and values that are not known.
PreTokenizers parse_pre_tokenizer(const JsonNode& node);

void pre_tokenize(const PreTokenizers& pre_tokenizers, Words& words);

}  // namespace headrace
