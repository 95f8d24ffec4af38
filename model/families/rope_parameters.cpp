#include "model/families/rope_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// The same for a long RoPE (section 3.3 of Ding et al., 2024, LongRoPE).
double long_rope_amplitude(double factor, double original_context) {
  return factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original_context));
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

// One number above 0 for each pair of dimensions.
std::vector<float> pair_divisors(const JsonObject& parameters, std::string_view key, int pairs) {
  const std::vector<double> numbers = parameters.numbers(key).value_or(std::vector<double>{});
  const bool sound = std::all_of(numbers.begin(), numbers.end(), [](double n) { return n > 0.0; });
  if (!sound || std::ssize(numbers) != pairs) {
    parameters.refuse(key, "a list of " + std::to_string(pairs) + " numbers above 0 is needed");
  }
  return {numbers.begin(), numbers.end()};
}

void read_long(const JsonObject& parameters, int max_position_embeddings, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::kLong;
  rope.long_divisors = pair_divisors(parameters, "long_factor", rope.rotary_dim / 2);
  rope.short_divisors = pair_divisors(parameters, "short_factor", rope.rotary_dim / 2);
  const double original = rope.original_max_position_embeddings;
  rope.factor = positive(parameters, "factor")
                    .value_or(static_cast<double>(max_position_embeddings) / original);
  rope.attention_factor =
      positive(parameters, "attention_factor").value_or(long_rope_amplitude(rope.factor, original));
}

// The object with the scaling's keys; an empty rope_scaling counts as none.
std::optional<JsonObject> parameters_of(const JsonObject& config) {
  std::optional<JsonObject> scaling = config.object("rope_scaling");
  if (scaling && !scaling->keys().empty()) return scaling;
  return config.object("rope_parameters");
}

int rotary_dim(const JsonObject& config, const JsonObject& parameters, int head_dim,
               const RopeDefaults& defaults) {
  // Within rope_parameters the key is the same in every family.
  constexpr std::string_view kKey = "partial_rotary_factor";
  const bool inside = parameters.has(kKey);
  const JsonObject& source = inside ? parameters : config;
  const std::string_view key = inside ? kKey : defaults.share_key;
  const double share = source.number(key).value_or(defaults.share);
  const int dim = share > 0.0 && share <= 1.0 ? static_cast<int>(head_dim * share) : 0;
  if (dim < 2 || dim % 2 != 0) {
    source.refuse(key, "a share of head_dim from above 0 to 1 that is an even number is accepted");
  }
  return dim;
}

double theta_of(const JsonObject& config, const JsonObject& parameters,
                const RopeDefaults& defaults) {
  const bool inside = parameters.has("rope_theta");
  const JsonObject& source = inside ? parameters : config;
  const std::string_view key = inside ? "rope_theta" : defaults.theta_key;
  const double theta = source.number(key).value_or(defaults.theta);
  if (theta <= 1.0) source.refuse(key, "a number above 1 is accepted");
  return theta;
}

// What is to be read: the whole file, and the object in it that has the scaling's keys.
struct RopeSource {
  const JsonObject& config;
  const JsonObject& parameters;
  int head_dim;
  int max_position_embeddings;
};

RopeConfig read_rope(const RopeSource& source, const RopeDefaults& defaults) {
  const JsonObject& parameters = source.parameters;
  for (const std::string& key : parameters.keys()) {
    if (parameters.is_object(key)) parameters.refuse(key, "one set for all layers is supported");
  }
  RopeConfig rope;
  rope.theta = theta_of(source.config, parameters, defaults);
  rope.rotary_dim = rotary_dim(source.config, parameters, source.head_dim, defaults);

  const std::string type =
      parameters.text("rope_type").value_or(parameters.text("type").value_or("default"));
  if (type == "default") return rope;
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = required_positive(parameters, "factor");
    return rope;
  }
  const int context = source.max_position_embeddings;
  rope.original_max_position_embeddings =
      original_context(source.config, parameters,
                       defaults.original_context > 0 ? defaults.original_context : context);
  if (type == "llama3") {
    read_llama3(parameters, rope);
  } else if (type == "yarn") {
    read_yarn(parameters, context, rope);
  } else if (type == "longrope" || type == "su") {  // the older name
    read_long(parameters, context, rope);
  } else {
    parameters.refuse(parameters.has("rope_type") ? "rope_type" : "type",
                      "supported: default, linear, llama3, yarn, longrope");
  }
  return rope;
}

}  // namespace

RopeConfig rope_from_config_json(const JsonObject& config, int head_dim,
                                 int max_position_embeddings, const RopeDefaults& defaults) {
  const JsonObject none = JsonObject::parse("{}", config.source());
  const JsonObject parameters = parameters_of(config).value_or(none);
  return read_rope({config, parameters, head_dim, max_position_embeddings}, defaults);
}

RopeConfig rope_of_layer_type(const JsonObject& config, const ModelConfig& model,
                              const LayerTypeRope& wanted) {
  JsonObject parameters = JsonObject::parse("{}", config.source());
  if (const auto nested = config.object("rope_parameters")) {
    if (auto of_type = nested->object(wanted.layer_type)) parameters = *std::move(of_type);
  } else if (wanted.scaled) {
    parameters = config.object("rope_scaling").value_or(parameters);
  }
  return read_rope({config, parameters, model.head_dim, model.max_position_embeddings},
                   wanted.defaults);
}

}  // namespace headrace
