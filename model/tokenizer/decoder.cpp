#include "model/tokenizer/decoder.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "model/tokenizer/pattern.h"
#include "model/tokenizer/pattern_node.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

template <class Sink, class... Arguments>
class Step final : public DecoderStep {
 public:
  explicit Step(Arguments... arguments) : arguments_(std::move(arguments)...) {}
  std::unique_ptr<TokenSink> open(TokenSink& next) const override {
    return std::apply([&next](const auto&... a) { return std::make_unique<Sink>(next, a...); },
                      arguments_);
  }

 private:
  std::tuple<Arguments...> arguments_;
};

class StringSink final : public TokenSink {
 public:
  explicit StringSink(std::string& out) : out_(out) {}
  void text(std::string_view piece) override { out_ += piece; }
  void end_token() override {}
  void finish() override {}

 private:
  std::string& out_;
};

// A step that needs a token whole before it can say anything about it.
class WholeTokenSink : public TokenSink {
 public:
  explicit WholeTokenSink(TokenSink& next) : next_(next) {}
  void text(std::string_view piece) final { token_ += piece; }
  void end_token() final {
    token(token_);
    token_.clear();
  }
  void finish() override { next_.finish(); }

 protected:
  virtual void token(std::string_view token) = 0;
  void pass(std::string_view token) {
    next_.text(token);
    next_.end_token();
  }
  TokenSink& next_;

 private:
  std::string token_;
};

// Joins all tokens to one.
class FuseSink final : public TokenSink {
 public:
  explicit FuseSink(TokenSink& next) : next_(next) {}
  void text(std::string_view piece) override { next_.text(piece); }
  void end_token() override {}
  void finish() override {
    next_.end_token();
    next_.finish();
  }

 private:
  TokenSink& next_;
};

// Bytes to UTF-8; what is none becomes U+FFFD, one for each maximal subpart. All tokens become one.
class ByteLevelSink final : public WholeTokenSink {
 public:
  using WholeTokenSink::WholeTokenSink;

  void finish() override {
    if (!bytes_.empty()) next_.text(kReplacementCharacter);
    next_.end_token();
    next_.finish();
  }

 protected:
  void token(std::string_view token) override {
    if (!from_byte_alphabet(token, bytes_)) bytes_ += token;
    std::size_t done = 0;
    while (done < bytes_.size()) {
      const std::string_view rest = std::string_view(bytes_).substr(done);
      const std::size_t valid = std::min(find_invalid_utf8(rest), rest.size());
      if (valid > 0) next_.text(rest.substr(0, valid));
      done += valid;
      if (done == bytes_.size()) break;
      const Utf8Prefix prefix = utf8_prefix(rest.substr(valid, 4));
      if (!prefix.complete) break;
      next_.text(kReplacementCharacter);
      done += prefix.size;
    }
    bytes_.erase(0, done);
  }

 private:
  std::string bytes_;  // between tokens: the unfinished start of a character
};

// <0xNN> tokens to bytes. A run of them is text if all of it is UTF-8, else U+FFFD for each.
class ByteFallbackSink final : public WholeTokenSink {
 public:
  using WholeTokenSink::WholeTokenSink;

  void finish() override {
    end_run();
    next_.finish();
  }

 protected:
  void token(std::string_view token) override {
    const int byte = byte_of(token);
    if (byte >= 0) {
      run_.push_back(static_cast<char>(byte));
    } else {
      end_run();
      pass(token);
    }
  }

 private:
  static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    // The library reads the digits as a Rust number, which may begin with a plus sign.
    const int high = token[3] == '+' ? 0 : hex_digit(token[3]);
    const int low = hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
  }

  void end_run() {
    if (run_.empty()) return;
    if (find_invalid_utf8(run_) == std::string_view::npos) {
      pass(run_);
    } else {
      for (std::size_t i = 0; i < run_.size(); ++i) pass(kReplacementCharacter);
    }
    run_.clear();
  }

  std::string run_;
};

class ReplaceSink final : public WholeTokenSink {
 public:
  ReplaceSink(TokenSink& next, const std::shared_ptr<const Pattern>& pattern,
              const std::string& content)
      : WholeTokenSink(next), pattern_(*pattern), content_(content) {}

 protected:
  void token(std::string_view token) override { pass(replace_matches(token, pattern_, content_)); }

 private:
  const Pattern& pattern_;
  const std::string& content_;
};

// Takes up to `start` of a character from the front of each token, up to `stop` from its end.
class StripSink final : public TokenSink {
 public:
  struct Options {
    std::string content;
    std::int64_t start = 0;
    std::int64_t stop = 0;
  };

  StripSink(TokenSink& next, const Options& options)
      : next_(next), options_(options), to_strip_(options.start) {}

  void text(std::string_view piece) override {
    while (to_strip_ > 0 && !piece.empty()) {
      if (!piece.starts_with(options_.content)) {
        to_strip_ = 0;
        break;
      }
      piece.remove_prefix(options_.content.size());
      --to_strip_;
    }
    if (options_.stop == 0) {
      if (!piece.empty()) next_.text(piece);
      return;
    }
    hold_back(piece);
  }

  void end_token() override {
    std::string_view rest = held_;
    for (std::int64_t i = 0; i < options_.stop && rest.ends_with(options_.content); ++i) {
      rest.remove_suffix(options_.content.size());
    }
    if (!rest.empty()) next_.text(rest);
    next_.end_token();
    held_.clear();
    to_strip_ = options_.start;
  }

  void finish() override { next_.finish(); }

 private:
  // Keeps the run of strippable characters at the end, as far as it may be stripped.
  void hold_back(std::string_view piece) {
    held_ += piece;
    std::string_view rest = held_;
    std::int64_t kept = 0;
    while (kept < options_.stop && rest.ends_with(options_.content)) {
      rest.remove_suffix(options_.content.size());
      ++kept;
    }
    if (rest.empty()) return;
    next_.text(rest);
    held_.erase(0, rest.size());
  }

  TokenSink& next_;
  const Options& options_;
  std::int64_t to_strip_;
  std::string held_;
};

// The replacement character becomes a space; in the first token it vanishes, unless it never was
// put there.
class MetaspaceSink final : public TokenSink {
 public:
  struct Options {
    std::string replacement;
    bool drops_in_first = true;
  };

  MetaspaceSink(TokenSink& next, const Options& options)
      : next_(next), options_(options), drops_(options.drops_in_first) {}

  void text(std::string_view piece) override {
    while (!piece.empty()) {
      const std::size_t at = piece.find(options_.replacement);
      const std::string_view before = piece.substr(0, at);
      if (!before.empty()) next_.text(before);
      if (at == std::string_view::npos) return;
      if (!drops_) next_.text(" ");
      piece.remove_prefix(at + options_.replacement.size());
    }
  }
  void end_token() override {
    drops_ = false;
    next_.end_token();
  }
  void finish() override { next_.finish(); }

 private:
  TokenSink& next_;
  const Options& options_;
  bool drops_;
};

class JoinSink final : public TokenSink {
 public:
  explicit JoinSink(TokenSink& next) : next_(next) {}
  void text(std::string_view piece) override {
    begin_token();
    next_.text(piece);
  }
  void end_token() override {
    begin_token();
    in_token_ = false;
  }
  void finish() override {
    next_.end_token();
    next_.finish();
  }

 private:
  void begin_token() {
    if (!in_token_ && !is_first_) next_.text(" ");
    in_token_ = true;
    is_first_ = false;
  }

  TokenSink& next_;
  bool in_token_ = false;
  bool is_first_ = true;
};

template <class Sink, class... Arguments>
void add(Decoder& decoder, Arguments... arguments) {
  decoder.push_back(std::make_unique<Step<Sink, Arguments...>>(std::move(arguments)...));
}

std::string one_character(const JsonNode& node) {
  std::string character = node.string();
  if (character.empty() || utf8_length(character[0]) != character.size()) {
    node.reject("one character");
  }
  return character;
}

std::int64_t count(const JsonNode& node) {
  const std::int64_t value = node.integer();
  if (value < 0) node.reject("0 or more");
  return value;
}

void append_steps(const JsonNode& node, Decoder& out) {
  const std::string type = node.at("type").string();
  if (type == "Sequence") {
    for (const JsonNode& part : node.at("decoders").elements()) append_steps(part, out);
  } else if (type == "ByteLevel") {
    add<ByteLevelSink>(out);
  } else if (type == "ByteFallback") {
    add<ByteFallbackSink>(out);
  } else if (type == "Fuse") {
    add<FuseSink>(out);
  } else if (type == "Strip") {
    add<StripSink>(out, StripSink::Options{.content = one_character(node.at("content")),
                                           .start = count(node.at("start")),
                                           .stop = count(node.at("stop"))});
  } else if (type == "Replace") {
    add<ReplaceSink>(out, std::shared_ptr<const Pattern>(parse_pattern(node.at("pattern"))),
                     node.at("content").string());
  } else if (type == "Metaspace") {
    add<MetaspaceSink>(
        out, MetaspaceSink::Options{
                 .replacement = one_character(node.at("replacement")),
                 .drops_in_first = node.string_or("prepend_scheme", "always") != "never"});
  } else {
    node.at("type").reject("ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, Sequence");
  }
}

}  // namespace

Decoder parse_decoder(const JsonNode& node) {
  Decoder decoder;
  append_steps(node, decoder);
  return decoder;
}

Decoder joining_decoder() {
  Decoder decoder;
  add<JoinSink>(decoder);
  return decoder;
}

DecoderChain::DecoderChain(const Decoder& decoder, std::string& out) {
  sinks_.push_back(std::make_unique<StringSink>(out));
  for (auto step = decoder.rbegin(); step != decoder.rend(); ++step) {
    sinks_.push_back((*step)->open(*sinks_.back()));
  }
  front_ = sinks_.back().get();
}

}  // namespace headrace
