// Tokenizers of GGUF files: the metadata keys tokenizer.*.
#pragma once

#include <filesystem>

#include "model/tokenizer/text_tokenizer.h"

namespace headrace {

TokenizerParts read_gguf_tokenizer(const std::filesystem::path& path);

}  // namespace headrace
