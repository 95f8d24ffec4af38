// What a family of models is: a page that maps its files onto the traits of the one decoder. The
// page says how config.json and GGUF metadata become a ModelConfig, and how GGUF names its tensors.
//
// A new family is a new file beside llama.cpp that defines one Family, and its line in family.cpp.
// What the decoder cannot do yet becomes a trait in ModelConfig.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/json_object.h"
#include "model/config.h"

namespace headrace {

/// One line of a family's table of names. "#" stands for the number of a layer; ".weight" and
/// ".bias" follow on both sides.
struct GgufTensorName {
  std::string_view gguf;       // "blk.#.attn_q"
  std::string_view canonical;  // "model.layers.#.self_attn.q_proj"
  /// The file has the rows of each head in pairs that RoPE turns together: row 2i is Hugging Face's
  /// row i, row 2i + 1 its row head_dim / 2 + i.
  bool interleaved_heads = false;
};

struct Family {
  std::string_view architecture;       // config.json's architectures: "LlamaForCausalLM"
  std::string_view model_type;         // config.json's model_type: "llama"
  std::string_view gguf_architecture;  // general.architecture: "llama"

  /// Both throw std::invalid_argument naming file, key, value and what would be accepted. tied_head
  /// is what the file says; opening corrects it by which tensors there are.
  ModelConfig (*from_config_json)(const JsonObject& config);
  ModelConfig (*from_gguf)(const GgufFile& file);

  std::span<const GgufTensorName> gguf_tensors;
  /// Tensors of files that the decoder computes itself or has no use for.
  bool (*ignores_tensor)(std::string_view name);
};

/// The family that config.json names. Throws std::invalid_argument, listing those supported, where
/// it names none of them.
const Family& family_of(const JsonObject& config);

/// The family that general.architecture names.
const Family& family_of(const GgufFile& file);

struct CanonicalName {
  std::string name;
  bool interleaved_heads = false;
};

/// nullopt for a name that the family's table does not have.
std::optional<CanonicalName> canonical_name(const Family& family, std::string_view gguf_name);

}  // namespace headrace
