// Template source as tokens: jinja2's lexer with trim_blocks and lstrip_blocks on, no line
// statements, and one trailing newline of the source dropped.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat/value.h"

namespace headrace::jinja {

/// A source that is not a template; ChatTemplate adds its name. what() lacks the line.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(int at_line, const std::string& message)
      : std::runtime_error(message), line(at_line) {}
  int line;
};

enum class TokenKind : std::uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // data, name, operator; the decoded string
  Value number;      // of kInteger and kFloat
};

/// The last token is kEnd. Throws SyntaxError.
std::vector<Token> tokenize(std::string_view source);

/// As a message names it: 'end of template', "'%}'", ...
std::string describe(const Token& token);

}  // namespace headrace::jinja
