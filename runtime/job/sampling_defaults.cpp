#include "runtime/job/sampling_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runtime/job/field_readers.h"
#include "runtime/job/json_line.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr float kUnbounded = std::numeric_limits<float>::infinity();

std::vector<TokenId> read_eos(const Json& value) {
  constexpr std::string_view kName = "eos_token_id";
  // The vocabulary's size is not known here; the ids are compared with sampled ones only.
  std::vector<TokenId> ids;
  if (value.is_array()) {
    ids = read_token_ids(kName, value, INT32_MAX);
  } else {
    ids = {static_cast<TokenId>(read_integer(kName, value))};
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

SamplingDefaults read_defaults(const Json& document) {
  SamplingDefaults defaults;
  const auto field = [&](const char* name, auto&& read) {
    const auto value = document.find(name);
    if (value != document.end() && !value->is_null()) read(name, *value);
  };
  field("temperature", [&](auto name, const Json& value) {
    defaults.temperature = read_float(name, value, {0.0F, kUnbounded});
  });
  field("top_p", [&](auto name, const Json& value) {
    defaults.top_p = read_float(name, value, {0.0F, 1.0F, true});
  });
  field("top_k", [&](auto name, const Json& value) {
    defaults.top_k = static_cast<int>(read_integer(name, value, {-1, INT32_MAX}));
  });
  field("min_p", [&](auto name, const Json& value) {
    defaults.min_p = read_float(name, value, {0.0F, 1.0F});
  });
  field("repetition_penalty", [&](auto name, const Json& value) {
    defaults.repetition_penalty = read_float(name, value, {0.0F, kUnbounded, true});
  });
  field("max_new_tokens", [&](auto name, const Json& value) {
    defaults.max_new_tokens = static_cast<int>(read_integer(name, value, {1, INT32_MAX}));
  });
  field("eos_token_id", [&](auto, const Json& value) { defaults.eos_token_ids = read_eos(value); });
  return defaults;
}

template <typename Value>
std::string shown(const std::optional<Value>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

}  // namespace

SamplingDefaults parse_generation_config(std::string_view json, const std::string& name) {
  Json document;
  const std::string problem = parse_json_line(json, document);
  if (!problem.empty()) throw std::invalid_argument(fmt::format("{}: {}", name, problem));
  if (!document.is_object()) {
    throw std::invalid_argument(
        fmt::format("{}: expected an object, got {}", name, json_kind(document)));
  }
  try {
    return read_defaults(document);
  } catch (const LineFailure& failure) {
    throw std::invalid_argument(fmt::format("{}: {}", name, failure.error.message));
  }
}

std::string describe(const SamplingDefaults& defaults) {
  std::string eos;
  for (const TokenId id : defaults.eos_token_ids)
    eos += fmt::format("{}{}", eos.empty() ? "" : ",", id);
  return fmt::format(
      "temperature {} top_p {} top_k {} min_p {} repetition_penalty {} max_new_tokens {} eos {}",
      shown(defaults.temperature), shown(defaults.top_p), shown(defaults.top_k),
      shown(defaults.min_p), shown(defaults.repetition_penalty), shown(defaults.max_new_tokens),
      eos.empty() ? "-" : eos);
}

}  // namespace headrace
