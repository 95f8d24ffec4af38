// Turns an input line into a Request: OpenAI Batch form or short form, every field checked, text
// turned into ids. A line that cannot be served becomes a LineError and harms nobody else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "model/chat/chat_prompt.h"
#include "model/tokenizer/tokenizer.h"
#include "runtime/job/input_reader.h"
#include "runtime/job/request.h"
#include "runtime/job/sampling_defaults.h"

namespace headrace {

/// The text of a chat prompt. std::invalid_argument (messages that are none) and std::runtime_error
/// (the template's own word) become the line's error. Called from the parser's thread.
using ChatRenderer = std::function<std::string(const ChatRequest& request)>;

struct ParserConfig {
  std::shared_ptr<const Tokenizer> tokenizer;
  ChatRenderer chat;             // empty: the model has no chat template
  int max_model_len = 0;         // prompt and completion together
  int vocab_size = 0;            // ids of prompts, logit_bias and stop_token_ids lie below
  std::vector<TokenId> end_ids;  // end of sequence, from model, tokenizer and generation config
  SamplingDefaults defaults;
  std::uint64_t seed = 0;                       // --seed
  std::vector<std::string> served_model_names;  // a body's model must be among them; empty: any
};

struct ParsedLine {
  std::optional<std::string> custom_id;  // also of a failed line, where it can be read
  std::variant<Request, LineError> result;
};

/// Immutable; parse() may be called from any thread (as far as the renderer may).
class RequestParser {
 public:
  explicit RequestParser(ParserConfig config);

  /// Never throws for anything a line contains.
  ParsedLine parse(const InputLine& line) const;

 private:
  ParserConfig config_;
};

/// The custom_id of a line that needs no parsing (finished in an earlier run): the same string that
/// parse() gives.
std::optional<std::string> peek_custom_id(std::string_view line);

}  // namespace headrace
