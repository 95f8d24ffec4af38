#include "model/families/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/families/pages.h"

namespace headrace {
namespace {

// Every supported family, one line each.
constexpr std::array kFamilies{
    &kLlamaFamily,   &kMistralFamily,    &kQwen2Family,      &kQwen3Family,
    &kGemma2Family,  &kGemma3Family,     &kPhi3Family,       &kSmolLm3Family,
    &kGraniteFamily, &kGraniteSwaFamily, &kOlmo2Family,      &kGpt2Family,
    &kGptNeoXFamily, &kStableLmFamily,   &kStarCoder2Family, &kFalconFamily,
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

// What stands for each "#" of a pattern: "12" where "blk.#.attn_q" meets "blk.12.attn_q"; nullopt
// where the two do not match.
std::optional<std::vector<std::string_view>> match(std::string_view pattern,
                                                   std::string_view name) {
  std::vector<std::string_view> numbers;
  while (true) {
    const std::size_t literal = std::min(pattern.find('#'), pattern.size());
    if (!name.starts_with(pattern.substr(0, literal))) return std::nullopt;
    name.remove_prefix(literal);
    pattern.remove_prefix(literal);
    if (pattern.empty()) return name.empty() ? std::optional(numbers) : std::nullopt;
    pattern.remove_prefix(1);
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0) return std::nullopt;
    numbers.push_back(name.substr(0, digits));
    name.remove_prefix(digits);
  }
}

// The pattern with numbers in place of its "#", as many as there are.
std::string fill(std::string_view pattern, std::span<const std::string_view> numbers) {
  std::string name(pattern);
  for (const std::string_view number : numbers) {
    const std::size_t mark = name.find('#');
    if (mark != std::string::npos) name.replace(mark, 1, number);
  }
  return name;
}

// The number of a piece, where the stored name has a "#" more than the canonical one.
std::optional<int> piece_of(const TensorName& line, std::span<const std::string_view> numbers) {
  const auto marks = std::count(line.canonical.begin(), line.canonical.end(), '#');
  if (std::ssize(numbers) == marks) return std::nullopt;
  const std::string_view text = numbers.back();
  int piece = -1;  // stays so where it is too long for a number
  std::from_chars(text.data(), text.data() + text.size(), piece);
  return piece;
}

// A name's parts: "blk.0.attn_q" and ".weight"; the second is empty where it is neither.
std::pair<std::string_view, std::string_view> stem_and_suffix(std::string_view name) {
  for (const std::string_view suffix : {".weight", ".bias"}) {
    if (name.ends_with(suffix)) return {name.substr(0, name.size() - suffix.size()), suffix};
  }
  return {name, {}};
}

// All lines of a table that fit.
std::vector<CanonicalName> look_up(std::span<const TensorName> table, const ModelConfig& model,
                                   std::string_view stored) {
  std::vector<CanonicalName> names;
  const auto [stem, suffix] = stem_and_suffix(stored);
  if (suffix.empty()) return names;
  for (const TensorName& line : table) {
    if (line.applies != nullptr && !line.applies(model)) continue;
    const auto numbers = match(line.stored, stem);
    if (!numbers) continue;
    names.push_back({.name = fill(line.canonical, *numbers).append(suffix),
                     .layout = line.layout,
                     .piece = piece_of(line, *numbers)});
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

std::vector<CanonicalName> hugging_face_names(const Family& family, const ModelConfig& model,
                                              std::string_view stored) {
  std::string_view name = stored;
  if (name.starts_with(family.hugging_face_prefix)) {
    name.remove_prefix(family.hugging_face_prefix.size());
  }
  std::vector<CanonicalName> names = look_up(family.hugging_face_tensors, model, name);
  if (names.empty()) names.push_back({.name = std::string(name), .layout = {}});
  return names;
}

std::vector<CanonicalName> gguf_names(const Family& family, const ModelConfig& model,
                                      std::string_view stored) {
  std::vector<CanonicalName> names = look_up(family.gguf_tensors, model, stored);
  return names.empty() ? look_up(kSharedGgufTensors, model, stored) : names;
}

DirectoryName directory_name(const Family& family, const ModelConfig& model,
                             std::string_view canonical) {
  const auto [stem, suffix] = stem_and_suffix(canonical);
  DirectoryName result{.name = std::string(stem), .layout = {}};
  for (const TensorName& line : family.hugging_face_tensors) {
    if (line.applies != nullptr && !line.applies(model)) continue;
    if (const auto numbers = match(line.canonical, stem)) {
      result = {.name = fill(line.stored, *numbers), .layout = line.layout};
      break;
    }
  }
  result.name.append(suffix);
  if (stem != "lm_head") result.name.insert(0, family.hugging_face_prefix);
  return result;
}

bool ignores(const Family& family, std::string_view stored) {
  return family.ignores_tensor != nullptr && family.ignores_tensor(stored);
}

}  // namespace headrace
