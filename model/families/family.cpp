#include "model/families/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "model/checkpoint/appearance.h"
#include "model/families/pages.h"

namespace headrace {
namespace {

// Every supported family, one line each.
constexpr std::array kFamilies{
    &kLlamaFamily,  &kMistralFamily, &kQwen2Family,    &kQwen3Family,      &kGemma2Family,
    &kGemma3Family, &kPhi3Family,    &kSmolLm3Family,  &kGraniteFamily,    &kOlmo2Family,
    &kGpt2Family,   &kGptNeoXFamily, &kStableLmFamily, &kStarCoder2Family, &kFalconFamily,
};

// llama.cpp's names, the same in all architectures but for what a family's table says.
constexpr std::array kSharedGgufTensors{
    TensorName{"token_embd", "model.embed_tokens", {}},
    TensorName{"position_embd", "model.embed_positions", {}},
    TensorName{"output_norm", "model.norm", {}},
    TensorName{"output", "lm_head", {}},
    TensorName{"blk.#.attn_norm", "model.layers.#.input_layernorm", {}},
    TensorName{"blk.#.attn_q", "model.layers.#.self_attn.q_proj", {}},
    TensorName{"blk.#.attn_k", "model.layers.#.self_attn.k_proj", {}},
    TensorName{"blk.#.attn_v", "model.layers.#.self_attn.v_proj", {}},
    TensorName{"blk.#.attn_qkv", "model.layers.#.self_attn.q_proj", {FusedPart::kQuery}},
    TensorName{"blk.#.attn_qkv", "model.layers.#.self_attn.k_proj", {FusedPart::kKey}},
    TensorName{"blk.#.attn_qkv", "model.layers.#.self_attn.v_proj", {FusedPart::kValue}},
    TensorName{"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm", {}},
    TensorName{"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm", {}},
    TensorName{"blk.#.attn_output", "model.layers.#.self_attn.o_proj", {}},
    TensorName{"blk.#.post_attention_norm", "model.layers.#.self_attn.post_norm", {}},
    TensorName{"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm", {}},
    TensorName{"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj", {}},
    TensorName{"blk.#.ffn_up", "model.layers.#.mlp.up_proj", {}},
    TensorName{"blk.#.ffn_down", "model.layers.#.mlp.down_proj", {}},
    TensorName{"blk.#.post_ffw_norm", "model.layers.#.mlp.post_norm", {}},
};

// "LlamaForCausalLM, ...": one name of every family that has one.
std::string supported(std::string_view Family::*name) {
  std::vector<std::string_view> names;
  names.reserve(kFamilies.size());
  for (const Family* family : kFamilies) {
    if (!(family->*name).empty()) names.push_back(family->*name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

const Family* find_family(std::string_view Family::*name, std::string_view value) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family* family) {
    return !value.empty() && family->*name == value;
  });
  return found == kFamilies.end() ? nullptr : *found;
}

// Matches "blk.#.attn_q" with "blk.12.attn_q": what stands for "#", empty where there is none in
// the pattern; nullopt where they do not match.
std::optional<std::string_view> match(std::string_view pattern, std::string_view name) {
  const std::size_t mark = pattern.find('#');
  if (mark == std::string_view::npos) {
    return name == pattern ? std::optional<std::string_view>("") : std::nullopt;
  }
  const std::string_view before = pattern.substr(0, mark);
  const std::string_view after = pattern.substr(mark + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after)) {
    return std::nullopt;
  }
  name.remove_prefix(before.size());
  name.remove_suffix(after.size());
  const bool digits =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::optional(name) : std::nullopt;
}

// All lines of a table that fit.
std::vector<CanonicalName> look_up(std::span<const TensorName> table, std::string_view stored) {
  std::vector<CanonicalName> names;
  for (const std::string_view suffix : {".weight", ".bias"}) {
    if (!stored.ends_with(suffix)) continue;
    const std::string_view stem = stored.substr(0, stored.size() - suffix.size());
    for (const TensorName& line : table) {
      const std::optional<std::string_view> layer = match(line.stored, stem);
      if (!layer) continue;
      std::string name(line.canonical);
      if (!layer->empty()) name.replace(name.find('#'), 1, *layer);
      names.push_back({name.append(suffix), line.layout});
    }
  }
  return names;
}

}  // namespace

const Family& family_of(const JsonObject& config) {
  const auto accepted = fmt::format("supported: {}", supported(&Family::architecture));
  const auto architectures = config.texts("architectures");
  if (!architectures || architectures->size() != 1) config.refuse("architectures", accepted);
  const Family* family = find_family(&Family::architecture, architectures->front());
  if (family == nullptr) config.refuse("architectures", accepted);
  const auto model_type = config.text("model_type");
  if (model_type && *model_type != family->model_type) {
    config.refuse("model_type",
                  fmt::format("{} has {}", family->architecture, in_quotes(family->model_type)));
  }
  return *family;
}

const Family& family_of(const GgufFile& file) {
  const std::string* architecture = file.string("general.architecture");
  const Family* family =
      architecture == nullptr ? nullptr : find_family(&Family::gguf_architecture, *architecture);
  if (family == nullptr) {
    throw std::invalid_argument(
        fmt::format("{}: general.architecture is {}; supported: {}", file.files().front().string(),
                    architecture == nullptr ? "absent" : in_quotes(*architecture),
                    supported(&Family::gguf_architecture)));
  }
  return *family;
}

std::vector<CanonicalName> hugging_face_names(const Family& family, std::string_view stored) {
  std::string_view name = stored;
  if (name.starts_with(family.hugging_face_prefix)) {
    name.remove_prefix(family.hugging_face_prefix.size());
  }
  std::vector<CanonicalName> names = look_up(family.hugging_face_tensors, name);
  if (names.empty()) names.push_back({std::string(name), {}});
  return names;
}

std::vector<CanonicalName> gguf_names(const Family& family, std::string_view stored) {
  std::vector<CanonicalName> names = look_up(family.gguf_tensors, stored);
  return names.empty() ? look_up(kSharedGgufTensors, stored) : names;
}

bool ignores(const Family& family, std::string_view stored) {
  return family.ignores_tensor != nullptr && family.ignores_tensor(stored);
}

bool has_canonical_tensors(const Family& family) {
  return family.hugging_face_tensors.empty() && family.hugging_face_prefix.empty();
}

}  // namespace headrace
