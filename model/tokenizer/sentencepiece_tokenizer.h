// Tokenizers of directories that have SentencePiece's tokenizer.model and no tokenizer.json: the
// model is told in the terms of tokenizer.json, as transformers converts it, and goes the same way.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "model/tokenizer/tokenizer_json_file.h"

namespace headrace {

/// The directory's tokenizer.model with what tokenizer_config.json and added_tokens.json say about
/// it. roles: what the side files say ("bos_token", text); the model's defaults are added to them.
/// Throws std::invalid_argument naming file, key, value and what would be accepted.
TokenizerJsonFile read_sentencepiece_as_json(
    const std::filesystem::path& directory,
    std::vector<std::pair<std::string, std::string>>& roles);

}  // namespace headrace
