#include "model/tokenizer/pre_tokenizer.h"

#include <array>
#include <optional>
#include <utility>

#include "model/tokenizer/pattern_node.h"
#include "model/tokenizer/scanners.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

// What becomes of a match (the delimiter) when a word is split.
enum class Delimiter { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

class Split final : public PreTokenizer {
 public:
  struct Options {
    Delimiter delimiter = Delimiter::kIsolated;
    bool invert = false;  // gaps are the delimiters
  };

  Split(std::unique_ptr<Pattern> pattern, Options options)
      : pattern_(std::move(pattern)), options_(options) {}

  void apply(Words& words) const override {
    words.next.clear();
    for (const Words::Span span : words.spans) {
      words.matches.clear();
      pattern_->find(words.word(span), words.matches);
      emit(span.begin, words.matches, words.next);
    }
    words.spans.swap(words.next);
  }

 private:
  static void add(std::size_t base, const Match& match, std::vector<Words::Span>& out) {
    if (match.begin != match.end) {
      out.push_back({.begin = base + match.begin, .end = base + match.end});
    }
  }

  bool is_delimiter(const Match& match) const { return match.is_match != options_.invert; }

  void emit(std::size_t base, std::vector<Match>& matches, std::vector<Words::Span>& out) const {
    switch (options_.delimiter) {
      case Delimiter::kIsolated:
        for (const Match& match : matches) add(base, match, out);
        break;
      case Delimiter::kRemoved:
        for (const Match& match : matches) {
          if (!is_delimiter(match)) add(base, match, out);
        }
        break;
      case Delimiter::kContiguous:
        emit_joined(base, matches, out,
                    [](bool delimiter, bool before) { return delimiter == before; });
        break;
      case Delimiter::kMergedWithPrevious:
        emit_joined(base, matches, out,
                    [](bool delimiter, bool before) { return delimiter && !before; });
        break;
      case Delimiter::kMergedWithNext:
        emit_merged_with_next(base, matches, out);
        break;
    }
  }

  // Joins a piece to the one before it where the rule says so. Before the first there is a gap, but
  // nothing to join.
  template <class Rule>
  void emit_joined(std::size_t base, const std::vector<Match>& matches,
                   std::vector<Words::Span>& out, Rule joins) const {
    bool before = false;
    std::optional<Match> open;
    for (const Match& match : matches) {
      const bool delimiter = is_delimiter(match);
      if (open && joins(delimiter, before)) {
        open->end = match.end;
      } else {
        if (open) add(base, *open, out);
        open = match;
      }
      before = delimiter;
    }
    if (open) add(base, *open, out);
  }

  // The mirror image: from the end, a delimiter joins the piece behind it unless that is one.
  void emit_merged_with_next(std::size_t base, std::vector<Match>& matches,
                             std::vector<Words::Span>& out) const {
    bool behind = false;
    bool has_piece = false;
    std::size_t piece = matches.size();  // index of the piece last begun
    for (std::size_t i = matches.size(); i-- > 0;) {
      const bool delimiter = is_delimiter(matches[i]);
      if (delimiter && !behind && has_piece) {
        matches[piece].begin = matches[i].begin;
        matches[i].end = matches[i].begin;  // nothing of its own is left
      } else {
        piece = i;
        has_piece = true;
      }
      behind = delimiter;
    }
    for (const Match& match : matches) add(base, match, out);
  }

  std::unique_ptr<Pattern> pattern_;
  Options options_;
};

// A step that writes each word anew.
template <class Rewrite>
void rewrite_words(Words& words, Rewrite rewrite) {
  words.text.clear();
  words.next.clear();
  // The first word moves to offset 0, which must not make it the start of the input.
  if (!words.spans.empty() && words.spans.front().begin > 0) words.segment.at_start = false;
  for (const Words::Span span : words.spans) {
    const std::size_t begin = words.text.size();
    rewrite(span, words.text);
    words.next.push_back({.begin = begin, .end = words.text.size()});
  }
  words.segment.text.swap(words.text);
  words.spans.swap(words.next);
}

class Metaspace final : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };

  Metaspace(std::string replacement, Prepend prepend)
      : replacement_(std::move(replacement)), prepend_(prepend) {}

  void apply(Words& words) const override {
    rewrite_words(words, [&](Words::Span span, std::string& out) {
      const std::string_view word = words.word(span);
      const bool wanted =
          prepend_ == Prepend::kAlways ||
          (prepend_ == Prepend::kFirst && span.begin == 0 && words.segment.at_start);
      if (wanted && !word.starts_with(' ') && !word.starts_with(replacement_)) out += replacement_;
      for (const char c : word) {
        if (c == ' ') {
          out += replacement_;
        } else {
          out += c;
        }
      }
    });
  }

 private:
  std::string replacement_;
  Prepend prepend_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  void apply(Words& words) const override {
    rewrite_words(words, [&](Words::Span span, std::string& out) {
      const std::string_view word = words.word(span);
      if (!word.starts_with(' ')) out += ' ';
      out += word;
    });
  }
};

class ByteSpelling final : public PreTokenizer {
 public:
  void apply(Words& words) const override {
    rewrite_words(words, [&](Words::Span span, std::string& out) {
      out += to_byte_alphabet(words.word(span));
    });
  }
};

// \w+|[^\w\s]+ : a run of word characters, a run of other characters, white space between dropped.
class WhitespacePattern final : public Pattern {
 public:
  void find(std::string_view text, std::vector<Match>& out) const override {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = begin;
      const Kind kind = kind_of(next_char(text, end));
      for (std::size_t next = end; next < text.size() && kind_of(next_char(text, next)) == kind;) {
        end = next;
      }
      out.push_back({.begin = begin, .end = end, .is_match = kind != Kind::kSpace});
      begin = end;
    }
  }

 private:
  enum class Kind { kSpace, kWord, kOther };
  static Kind kind_of(char32_t c) {
    return is_word(c) ? Kind::kWord : is_space(c) ? Kind::kSpace : Kind::kOther;
  }
};

Delimiter parse_behavior(const JsonNode& node) {
  static constexpr std::array<std::pair<std::string_view, Delimiter>, 5> kNames = {
      {{"Removed", Delimiter::kRemoved},
       {"Isolated", Delimiter::kIsolated},
       {"MergedWithPrevious", Delimiter::kMergedWithPrevious},
       {"MergedWithNext", Delimiter::kMergedWithNext},
       {"Contiguous", Delimiter::kContiguous}}};
  const std::string text = node.string();
  for (const auto& [name, delimiter] : kNames) {
    if (text == name) return delimiter;
  }
  node.reject("Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

class Parser {
 public:
  PreTokenizers run(const JsonNode& node) {
    parse(node);
    // Only the respelling that comes last may be left to the model.
    if (!respells_.empty() && respells_.back() + 1 == out_.steps.size()) {
      out_.steps.pop_back();
      out_.words_are_bytes = true;
    }
    return std::move(out_);
  }

 private:
  void add(std::unique_ptr<const PreTokenizer> step) { out_.steps.push_back(std::move(step)); }

  void add_split(std::unique_ptr<Pattern> pattern, Delimiter delimiter, bool invert = false) {
    add(std::make_unique<Split>(std::move(pattern),
                                Split::Options{.delimiter = delimiter, .invert = invert}));
  }

  void parse(const JsonNode& node) {
    const std::string type = node.at("type").string();
    if (type == "Sequence") {
      for (const JsonNode& part : node.at("pretokenizers").elements()) parse(part);
    } else if (type == "ByteLevel") {
      parse_byte_level(node);
    } else if (type == "Split") {
      add_split(parse_pattern(node.at("pattern")), parse_behavior(node.at("behavior")),
                node.at("invert").boolean());
    } else if (type == "Metaspace") {
      parse_metaspace(node);
    } else if (type == "Whitespace") {
      add_split(std::make_unique<WhitespacePattern>(), Delimiter::kRemoved, true);
    } else if (type == "WhitespaceSplit") {
      add_split(char_pattern(is_space), Delimiter::kRemoved);
    } else if (type == "Punctuation") {
      const auto behavior = node.find("behavior");
      add_split(char_pattern(is_punctuation),
                behavior ? parse_behavior(*behavior) : Delimiter::kIsolated);
    } else if (type == "Digits") {
      add_split(char_pattern(is_numeric), node.at("individual_digits").boolean()
                                              ? Delimiter::kIsolated
                                              : Delimiter::kContiguous);
    } else if (type == "BertPreTokenizer") {
      add_split(char_pattern(is_space), Delimiter::kRemoved);
      add_split(char_pattern(is_punctuation), Delimiter::kIsolated);
    } else {
      node.at("type").reject(
          "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, Punctuation, Digits, "
          "BertPreTokenizer, Sequence");
    }
  }

  void parse_byte_level(const JsonNode& node) {
    if (node.at("add_prefix_space").boolean()) add(std::make_unique<PrefixSpace>());
    if (node.boolean_or("use_regex", true)) {
      add_split(regex_pattern(std::string(kGpt2Expression)), Delimiter::kIsolated);
    }
    respells_.push_back(out_.steps.size());
    add(std::make_unique<ByteSpelling>());
  }

  void parse_metaspace(const JsonNode& node) {
    const JsonNode replacement = node.at("replacement");
    const std::string character = replacement.string();
    if (character.empty() || utf8_length(character[0]) != character.size()) {
      replacement.reject("one character");
    }
    const auto scheme = node.find("prepend_scheme");
    const std::string name = scheme ? scheme->string() : "always";
    auto prepend = Metaspace::Prepend::kAlways;
    if (name == "first") {
      prepend = Metaspace::Prepend::kFirst;
    } else if (name == "never") {
      prepend = Metaspace::Prepend::kNever;
    } else if (name != "always") {
      scheme->reject("always, first, never");
    }
    const auto add_prefix_space = node.find("add_prefix_space");
    if (add_prefix_space && !add_prefix_space->boolean() && prepend != Metaspace::Prepend::kNever) {
      add_prefix_space->reject("true, or no value, beside a prepend_scheme other than never");
    }
    add(std::make_unique<Metaspace>(character, prepend));
    if (node.boolean_or("split", true)) {
      add_split(literal_pattern(character), Delimiter::kMergedWithNext);
    }
  }

  PreTokenizers out_;
  std::vector<std::size_t> respells_;  // indices of the steps that respell bytes
};

}  // namespace

PreTokenizers parse_pre_tokenizer(const JsonNode& node) {
  return Parser().run(node);
}

void pre_tokenize(const PreTokenizers& pre_tokenizers, Words& words) {
  words.reset();
  for (const auto& step : pre_tokenizers.steps) step->apply(words);
}

}  // namespace headrace
