// Patterns as tokenizer.json writes them.
#pragma once

#include <memory>

#include "model/tokenizer/json_node.h"
#include "model/tokenizer/pattern.h"

namespace headrace {

/// {"String": text} or {"Regex": expression}; anything else throws std::invalid_argument.
std::unique_ptr<Pattern> parse_pattern(const JsonNode& node);

}  // namespace headrace
