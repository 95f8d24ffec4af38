// The parser's view of a template's tokens.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat/lexer.h"

namespace headrace::jinja {

/// Reads tokens one after the other; what is not as expected throws SyntaxError.
class TokenStream {
 public:
  explicit TokenStream(std::string_view source) : tokens_(tokenize(source)) {}

  // Counts how deep the parser is inside itself.
  class Nesting {
   public:
    explicit Nesting(TokenStream& tokens) : depth_(tokens.nesting_) {
      constexpr int kMaxNesting = 100;  // of brackets and of statements
      if (++depth_ > kMaxNesting) {
        throw SyntaxError(tokens.current().line,
                          "nested deeper than " + std::to_string(kMaxNesting) + " levels");
      }
    }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    int& depth_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& advance() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at_name(std::string_view name) const { return is_name(current(), name); }
  bool at_operator(std::string_view text) const { return is_operator(current(), text); }
  static bool is_name(const Token& token, std::string_view name) {
    return token.kind == TokenKind::kName && token.text == name;
  }
  static bool is_operator(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kOperator && token.text == text;
  }
  bool skip_name(std::string_view name) {
    if (!at_name(name)) return false;
    advance();
    return true;
  }
  bool skip_operator(std::string_view text) {
    if (!at_operator(text)) return false;
    advance();
    return true;
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) fail_expected("'" + std::string(text) + "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected("'" + std::string(name) + "'");
  }
  const Token& expect(TokenKind kind, const char* what) {
    if (current().kind != kind) fail_expected(what);
    return advance();
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw SyntaxError(current().line, message);
  }
  [[noreturn]] void fail_expected(const std::string& what) const {
    fail("expected " + what + ", got '" + describe(current()) + "'");
  }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace headrace::jinja
