// The text side of a model: its tokenizer and its chat templates, found by the MODEL argument.
// Needs no weights and no config.json. `tokenize` and `generate` both go through here, so that a
// chat request and `headrace tokenize --chat` give the same ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/chat/chat_prompt.h"
#include "model/chat/chat_template.h"
#include "model/tokenizer/tokenizer.h"

namespace headrace {

/// Immutable after loading; may be copied and used from any thread.
struct ModelText {
  std::shared_ptr<const Tokenizer> tokenizer;

  /// A template and the form in which it takes content that is a list of parts.
  struct Chat {
    ChatTemplate source;
    ContentForm content_form;
  };
  std::shared_ptr<const Chat> chat;             // null: no usable template, see chat_problem
  std::shared_ptr<const Chat> chat_with_tools;  // for requests with tools; null: chat serves both
  std::string chat_problem;                     // why chat is null, for error messages

  /// Equal for equal templates; empty without one.
  std::string template_fingerprint;

  /// The prompt of a chat, by the template that its tools choose. now_s: seconds since the epoch,
  /// local civil time already. Throws TemplateError, and std::invalid_argument as chat_context().
  std::string render(const ChatRequest& request, std::int64_t now_s) const;
};

struct ModelTextOptions {
  std::string model;                         // as --model takes it
  std::optional<std::string> chat_template;  // a file whose template replaces the model's own
};

/// Throws std::invalid_argument for a model without a sound tokenizer, and for a chat template file
/// that cannot be read or parsed. A template of the model's own that cannot be parsed is left out
/// and told in chat_problem: completions need none.
ModelText load_model_text(const ModelTextOptions& options);

/// SOURCE_DATE_EPOCH, where it is set. Throws std::invalid_argument where it is no such number.
std::optional<std::int64_t> source_date_epoch();

/// Now, in seconds since the epoch as the local wall clock shows it: what a template's date is made
/// of. SOURCE_DATE_EPOCH (UTC), where it is set, replaces the clock.
std::int64_t local_now_s();

}  // namespace headrace
