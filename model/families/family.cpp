#include "model/families/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "model/checkpoint/appearance.h"
#include "model/families/llama.h"

namespace headrace {
namespace {

// Every supported family, one line each.
constexpr std::array kFamilies{
    &kLlamaFamily,
};

// "LlamaForCausalLM, ...": one name of every family.
std::string supported(std::string_view Family::*name) {
  std::vector<std::string_view> names;
  names.reserve(kFamilies.size());
  for (const Family* family : kFamilies) names.push_back(family->*name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const Family* find_family(std::string_view Family::*name, std::string_view value) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const Family* family) { return family->*name == value; });
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

std::optional<CanonicalName> canonical_name(const Family& family, std::string_view gguf_name) {
  for (const std::string_view suffix : {".weight", ".bias"}) {
    if (!gguf_name.ends_with(suffix)) continue;
    const std::string_view stem = gguf_name.substr(0, gguf_name.size() - suffix.size());
    for (const GgufTensorName& line : family.gguf_tensors) {
      const std::optional<std::string_view> layer = match(line.gguf, stem);
      if (!layer) continue;
      std::string name(line.canonical);
      if (!layer->empty()) name.replace(name.find('#'), 1, *layer);
      return CanonicalName{name.append(suffix), line.interleaved_heads};
    }
  }
  return std::nullopt;
}

}  // namespace headrace
