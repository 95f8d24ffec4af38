// Puts special tokens (BOS, EOS) around the ids of a text.
#pragma once

#include <functional>
#include <vector>

#include "model/token.h"
#include "model/tokenizer/json_node.h"

namespace headrace {

/// What stands in a finished sequence: ids of special tokens, or the text's own ids.
struct TemplatePiece {
  bool is_text = false;
  std::vector<TokenId> ids;  // of special tokens; left out without add_special_tokens
};
using SequenceTemplate = std::vector<TemplatePiece>;  // empty: the text alone

/// Throws std::invalid_argument naming the node for types and values that are not known, and for
/// ids that `is_token` denies.
SequenceTemplate parse_post_processor(const JsonNode& node,
                                      const std::function<bool(std::int64_t)>& is_token);

}  // namespace headrace
