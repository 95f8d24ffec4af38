// Tokenizers of Hugging Face directories: tokenizer.json (or SentencePiece's tokenizer.model), and
// beside it tokenizer_config.json, special_tokens_map.json, chat_template.jinja,
// additional_chat_templates/*.jinja.
#pragma once

#include <filesystem>

#include "model/tokenizer/text_tokenizer.h"

namespace headrace {

TokenizerParts read_hugging_face_tokenizer(const std::filesystem::path& directory);

}  // namespace headrace
