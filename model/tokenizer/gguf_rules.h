// What the name in tokenizer.ggml.pre stands for. A GGUF file names the rules of a byte-level
// tokenizer instead of spelling them out; here they are spelled as tokenizer.json would.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace headrace {

struct GgufRules {
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
  bool nfc = false;
};

/// Throws std::invalid_argument naming the names that are known.
GgufRules gguf_rules(std::string_view name);
/// The pre_tokenizer of that name, for parse_pre_tokenizer().
nlohmann::json gguf_pre_tokenizer(std::string_view name);

}  // namespace headrace
