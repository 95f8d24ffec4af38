// The context in which a chat template renders: messages brought into the form templates expect.
#pragma once

#include <nlohmann/json.hpp>

#include "model/tokenizer/tokenizer.h"
#include "runtime/job/body_fields.h"

namespace headrace {

/// Throws LineFailure for messages that are not messages, or content that is not text.
nlohmann::ordered_json chat_context(const BodyFields& fields, const Tokenizer& tokenizer);

}  // namespace headrace
