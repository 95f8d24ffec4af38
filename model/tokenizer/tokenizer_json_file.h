// Reads tokenizer.json. Vocabulary and merges, which are nearly all of the file, go straight into
// flat buffers; the rest becomes an ordinary JSON tree.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "model/tokenizer/raw_model.h"

namespace headrace {

// NOLINTNEXTLINE(bugprone-exception-escape): the JSON tree's own moves check its invariants.
struct TokenizerJsonFile {
  std::string name;       // for messages
  std::size_t bytes = 0;  // size of the file
  nlohmann::json tree;    // without model.vocab and model.merges
  RawVocabulary vocabulary;
  RawMerges merges;
  bool has_vocabulary = false;
  bool has_merges = false;
};

/// Throws std::invalid_argument naming the file and the place for what is not JSON, nests deeper
/// than 64 levels, or has a vocabulary or merges of another form.
TokenizerJsonFile read_tokenizer_json(const std::filesystem::path& path);

/// A whole file; std::invalid_argument where it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// A small JSON file as a tree, with the same limits.
nlohmann::json read_json(const std::filesystem::path& path);

}  // namespace headrace
