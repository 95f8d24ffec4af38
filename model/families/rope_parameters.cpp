#include "model/families/rope_parameters.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace headrace {
namespace {

constexpr IntegerRange kContextRange{1, std::numeric_limits<int>::max()};

// A number that must be above zero; nullopt where it is absent.
std::optional<double> positive(const JsonObject& object, std::string_view key) {
  const std::optional<double> value = object.number(key);
  if (value && *value <= 0) object.refuse(key, "a number above 0 is accepted");
  return value;
}

double required_positive(const JsonObject& object, std::string_view key) {
  const std::optional<double> value = positive(object, key);
  if (!value) object.refuse(key, "a number above 0 is needed");
  return *value;
}

// 0 and absent both mean the default in transformers.
double positive_or(const JsonObject& object, std::string_view key, double otherwise) {
  if (object.number(key) == 0.0) return otherwise;
  return positive(object, key).value_or(otherwise);
}

// Amplitude of cosines and sines that goes with a stretch by factor (yarn, section 3.4 of Peng et
// al., 2023; mscale is DeepSeek's addition).
double yarn_amplitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const JsonObject& parameters, double factor) {
  if (const auto given = parameters.number("attention_factor")) return *given;
  const double mscale = parameters.number("mscale").value_or(0.0);
  const double mscale_all_dim = parameters.number("mscale_all_dim").value_or(0.0);
  if (mscale == 0.0 || mscale_all_dim == 0.0) return yarn_amplitude(factor, 1.0);
  return yarn_amplitude(factor, mscale) / yarn_amplitude(factor, mscale_all_dim);
}

// The key outside the scaling's object has precedence, as in transformers.
int original_context(const JsonObject& config, const JsonObject& parameters, int otherwise) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  const JsonObject& source = config.has(kKey) ? config : parameters;
  return static_cast<int>(source.integer(kKey, kContextRange).value_or(otherwise));
}

void read_llama3(const JsonObject& parameters, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::kLlama3;
  rope.factor = required_positive(parameters, "factor");
  rope.low_freq_factor = required_positive(parameters, "low_freq_factor");
  rope.high_freq_factor = required_positive(parameters, "high_freq_factor");
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    parameters.refuse("high_freq_factor", "a number above low_freq_factor is accepted");
  }
}

void read_yarn(const JsonObject& parameters, int max_position_embeddings, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::kYarn;
  rope.factor = positive(parameters, "factor")
                    .value_or(static_cast<double>(max_position_embeddings) /
                              rope.original_max_position_embeddings);
  rope.attention_factor = yarn_attention_factor(parameters, rope.factor);
  rope.beta_fast = positive_or(parameters, "beta_fast", 32.0);
  rope.beta_slow = positive_or(parameters, "beta_slow", 1.0);
  rope.truncate = parameters.boolean("truncate").value_or(true);
}

// The object with the scaling's keys; an empty rope_scaling counts as none.
std::optional<JsonObject> parameters_of(const JsonObject& config) {
  std::optional<JsonObject> scaling = config.object("rope_scaling");
  if (scaling && !scaling->keys().empty()) return scaling;
  return config.object("rope_parameters");
}

}  // namespace

RopeConfig rope_from_config_json(const JsonObject& config, int head_dim,
                                 int max_position_embeddings) {
  const JsonObject none = JsonObject::parse("{}", config.source());
  const JsonObject parameters = parameters_of(config).value_or(none);
  for (const std::string& key : parameters.keys()) {
    if (parameters.is_object(key)) parameters.refuse(key, "one set for all layers is supported");
  }

  RopeConfig rope;
  const JsonObject& theta = parameters.has("rope_theta") ? parameters : config;
  rope.theta = theta.number("rope_theta").value_or(10000.0);
  if (rope.theta <= 1.0) theta.refuse("rope_theta", "a number above 1 is accepted");

  const JsonObject& partial = parameters.has("partial_rotary_factor") ? parameters : config;
  const double share = partial.number("partial_rotary_factor").value_or(1.0);
  rope.rotary_dim = share > 0.0 && share <= 1.0 ? static_cast<int>(head_dim * share) : 0;
  if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0) {
    partial.refuse("partial_rotary_factor",
                   "a share of head_dim from above 0 to 1 that is an even number is accepted");
  }

  const std::string type =
      parameters.text("rope_type").value_or(parameters.text("type").value_or("default"));
  if (type == "default") return rope;
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = required_positive(parameters, "factor");
    return rope;
  }
  if (type != "llama3" && type != "yarn") {
    parameters.refuse(parameters.has("rope_type") ? "rope_type" : "type",
                      "supported: default, linear, llama3, yarn");
  }
  rope.original_max_position_embeddings =
      original_context(config, parameters, max_position_embeddings);
  if (type == "llama3") {
    read_llama3(parameters, rope);
  } else {
    read_yarn(parameters, max_position_embeddings, rope);
  }
  return rope;
}

}  // namespace headrace
