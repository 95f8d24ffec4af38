// What a token of a SentencePiece model is for. GGUF's tokenizer.ggml.token_type has the same
// numbers.
#pragma once

namespace headrace {

enum class TokenType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

}  // namespace headrace
