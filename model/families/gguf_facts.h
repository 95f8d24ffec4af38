// What GGUF metadata says in every family: the same keys with the architecture's name in front.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/json_object.h"
#include "model/config.h"
#include "model/families/family.h"

namespace headrace {

/// llama.cpp's converter reorders the rows of q and k of the Llama architecture and those that
/// follow it, so that RoPE turns neighbours where Hugging Face's turns halves (LlamaModel.permute
/// in its convert_hf_to_gguf.py).
inline constexpr std::array kInterleavedGgufTensors{
    TensorName{
        "blk.#.attn_q", "model.layers.#.self_attn.q_proj", {.form = StoredForm::kInterleavedHeads}},
    TensorName{
        "blk.#.attn_k", "model.layers.#.self_attn.k_proj", {.form = StoredForm::kInterleavedHeads}},
};

/// The keys of one architecture in one file: "block_count" stands for "llama.block_count".
/// Look-ups throw std::invalid_argument naming file, key, value and what would be accepted.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  const GgufFile& file() const { return file_; }
  std::string_view architecture() const { return architecture_; }
  std::string full(std::string_view key) const;

  std::optional<int> integer(std::string_view key, IntegerRange range) const;
  int required_integer(std::string_view key, IntegerRange range) const;
  /// Finite.
  std::optional<double> number(std::string_view key) const;
  /// Above 0; the other one where the key is absent.
  double positive(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  const GgufTensor* tensor(std::string_view name) const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

/// What a family's page knows beforehand.
struct GgufDefaults {
  NormKind norm = NormKind::kRms;
  /// Keys that the page reads itself. Each of the others that would change what the decoder
  /// computes must be absent or have its neutral value.
  std::initializer_list<std::string_view> own_keys = {};
};

/// Sizes, heads, norm epsilon, tied head, biases (by the tensors of the first layer) and special
/// tokens. RoPE is left to the page: see gguf_rope.h.
ModelConfig facts_of(const GgufKeys& keys, const GgufDefaults& defaults);

/// RoPE that turns `model.rope.rotary_dim` dimensions of a head has to turn all of them.
void require_whole_heads(const GgufKeys& keys, const ModelConfig& model, std::string_view models);

/// attention.sliding_window: from 1 on, or 0 where it is absent.
int sliding_window(const GgufKeys& keys);

}  // namespace headrace
