// What a family of models is: a page that maps its files onto the traits of the one decoder. The
// page says how config.json and GGUF metadata become a ModelConfig, and how files name and lay out
// their tensors.
//
// A new family is a new file beside llama.cpp that defines one Family, and its lines in pages.h and
// family.cpp. What the decoder cannot do yet becomes a trait in ModelConfig.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/json_object.h"
#include "model/checkpoint/stored_layout.h"
#include "model/config.h"
#include "model/families/config_json_facts.h"

namespace headrace {

/// One line of a table of names. "#" stands for the number of a layer; ".weight" and ".bias" follow
/// on both sides. A stored tensor that holds several has a line for each. One "#" more in the
/// stored name numbers the tensors that are the canonical vector, one behind the other.
struct TensorName {
  std::string_view stored;     // "blk.#.attn_q"
  std::string_view canonical;  // "model.layers.#.self_attn.q_proj"
  StoredLayout layout;
  /// Which models of the family have the line; null: all.
  bool (*applies)(const ModelConfig& model) = nullptr;
};

struct Family {
  std::string_view architecture;       // config.json's architectures: "LlamaForCausalLM"
  std::string_view model_type;         // config.json's model_type: "llama"
  std::string_view gguf_architecture;  // general.architecture: "llama"; empty: another page's

  /// Both throw std::invalid_argument naming file, key, value and what would be accepted. tied_head
  /// is what the file says; opening corrects it by which tensors there are.
  ModelConfig (*from_config_json)(const JsonObject& config);
  ModelConfig (*from_gguf)(const GgufFile& file);

  /// The way back (write_config_json.h): how config.json spells what all families have, and adding
  /// what this one has beyond that.
  ConfigJsonKeys config_keys = {};
  void (*add_to_config_json)(const ModelConfig& model, nlohmann::ordered_json& config) = nullptr;

  /// Where a directory's names or layouts are not the canonical ones; a name that no line has is
  /// canonical already.
  std::span<const TensorName> hugging_face_tensors = {};
  /// What all names of a directory but the head's may or may not begin with: "transformer.".
  std::string_view hugging_face_prefix = {};
  /// Lines that differ from those that most architectures share, and those beyond them.
  std::span<const TensorName> gguf_tensors = {};

  /// Tensors of files that the decoder computes itself or has no use for; null for none.
  bool (*ignores_tensor)(std::string_view name) = nullptr;
};

/// The family that config.json names. Throws std::invalid_argument, listing those supported, where
/// it names none of them.
const Family& family_of(const JsonObject& config);

/// The family that general.architecture names.
const Family& family_of(const GgufFile& file);

/// What a stored tensor is, or what it holds one behind the other.
struct CanonicalName {
  std::string name;
  StoredLayout layout;
  std::optional<int> piece = {};  // of a vector that several tensors hold: which, from 0 on
};

/// The names in models of this configuration.
std::vector<CanonicalName> hugging_face_names(const Family& family, const ModelConfig& model,
                                              std::string_view stored);

/// Empty for a name that neither the family's table nor the shared one has.
std::vector<CanonicalName> gguf_names(const Family& family, const ModelConfig& model,
                                      std::string_view stored);

/// Where a directory has a canonical tensor.
struct DirectoryName {
  std::string name;  // of the tensor, or of the piece number 0 with "#" for that number
  StoredLayout layout;
};
DirectoryName directory_name(const Family& family, const ModelConfig& model,
                             std::string_view canonical);

/// Whether the family ignores the tensor.
bool ignores(const Family& family, std::string_view stored);

}  // namespace headrace
