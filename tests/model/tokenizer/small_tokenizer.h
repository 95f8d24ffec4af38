// A tokenizer of a dozen tokens, for tests that break or vary it.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "model/tokenizer/tokenizer.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {

inline nlohmann::json added_token(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

/// Byte-level BPE over a, b, c and the space: ab is 4, abc is 5, Ġa is 6; <s> is 7, </s> 8, <t> 9.
inline nlohmann::json small_tokenizer() {
  nlohmann::json tokenizer = nlohmann::json::parse(R"({
    "version": "1.0",
    "added_tokens": [],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {
      "type": "BPE",
      "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "abc": 5, "Ġa": 6},
      "merges": [["a", "b"], ["ab", "c"], ["Ġ", "a"]]
    }
  })");
  tokenizer["added_tokens"].push_back(added_token(7, "<s>", true));
  tokenizer["added_tokens"].push_back(added_token(8, "</s>", true));
  tokenizer["added_tokens"].push_back(added_token(9, "<t>", false));
  return tokenizer;
}

class TokenizerDirectory {
 public:
  explicit TokenizerDirectory(const nlohmann::json& tokenizer) {
    write("tokenizer.json", tokenizer.dump());
  }
  explicit TokenizerDirectory(const std::string& bytes) { write("tokenizer.json", bytes); }

  void write(const std::string& name, const std::string& bytes) const {
    model_files::write_file(directory_.path() / name, bytes);
  }
  std::shared_ptr<const Tokenizer> load() const { return Tokenizer::load(directory_.path()); }
  const std::filesystem::path& path() const { return directory_.path(); }

  /// The message of the std::invalid_argument that loading ends with; empty where it succeeds.
  std::string complaint() const {
    try {
      load();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  }

 private:
  model_files::TempDirectory directory_;
};

}  // namespace headrace
