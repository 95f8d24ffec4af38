// `headrace tokenize`: a file of texts, ids or chats, line by line through a model's tokenizer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "launch/model_text.h"

namespace headrace {

struct TokenizeOptions {
  std::string model;
  std::vector<std::string> inputs = {"-"};
  std::string output = "-";
  std::optional<std::string> chat_template;
  bool decode = false;
  bool chat = false;
  bool no_special_tokens = false;
  bool skip_special_tokens = false;
  bool no_generation_prompt = false;
};

/// Turns one input line into one output line. What is wrong with a line becomes {"error"} in its
/// place.
class LineConverter {
 public:
  LineConverter(TokenizeOptions options, ModelText text);

  struct Result {
    std::string line;  // without line end
    bool failed = false;
  };
  /// number: of the line, for its error.
  Result convert(std::string_view line, std::int64_t number) const;

  /// The answer to a line that cannot be read.
  static Result failure(std::int64_t number, std::string_view why);

 private:
  nlohmann::ordered_json converted(const nlohmann::ordered_json& line) const;
  nlohmann::ordered_json encoded(const nlohmann::ordered_json& line) const;
  nlohmann::ordered_json decoded(const nlohmann::ordered_json& line) const;
  nlohmann::ordered_json rendered(const nlohmann::ordered_json& line) const;

  TokenizeOptions options_;
  ModelText text_;
  std::int64_t now_s_;
};

}  // namespace headrace
