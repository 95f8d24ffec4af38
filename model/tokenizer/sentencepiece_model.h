// The file tokenizer.model of SentencePiece: a protocol buffer with the pieces, and the settings of
// its trainer and its normalizer that decide ids. The field numbers are those of
// sentencepiece_model.proto in https://github.com/google/sentencepiece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/tokenizer/raw_model.h"
#include "model/tokenizer/token_type.h"

namespace headrace {

struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBpe = 2 };

  std::string name;       // of the file, for messages
  std::size_t bytes = 0;  // its size

  RawVocabulary pieces;  // a list, with scores
  std::vector<TokenType> types;

  // Trainer.
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  std::int64_t unk_id = 0;
  std::int64_t bos_id = 1;  // -1: none; so below
  std::int64_t eos_id = 2;
  std::int64_t pad_id = -1;

  // Normalizer.
  std::string charsmap;  // empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Throws std::invalid_argument naming the file and the place for what is damaged or no such model,
/// and for kinds of models that are not run.
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path);

}  // namespace headrace
