#include "runtime/job/body_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "runtime/job/field_readers.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

struct FieldContext {
  BodyFields& fields;
  std::string_view name;
  const Json& value;
  int vocab_size;
};

constexpr float kUnbounded = std::numeric_limits<float>::infinity();
constexpr int kMaxChoicesPerPrompt = 1024;
constexpr std::size_t kMaxStopStrings = 16;

int integer(const FieldContext& c, std::int64_t min, std::int64_t max = INT32_MAX) {
  return static_cast<int>(read_integer(c.name, c.value, {min, max}));
}

float number(const FieldContext& c, FloatRange range) {
  return read_float(c.name, c.value, range);
}

bool boolean(const FieldContext& c) {
  return read_bool(c.name, c.value);
}

void read_stop(const FieldContext& c) {
  if (c.value.is_string()) {
    c.fields.stop = {c.value.get<std::string>()};
  } else if (c.value.is_array()) {
    for (const Json& item : c.value) c.fields.stop.push_back(read_string(c.name, item));
  } else {
    refuse_value(c.name, "a string or a list of strings", c.value);
  }
  if (c.fields.stop.size() > kMaxStopStrings) {
    refuse("invalid_request", fmt::format("stop: {} strings, at most {} are accepted",
                                          c.fields.stop.size(), kMaxStopStrings));
  }
  if (std::find(c.fields.stop.begin(), c.fields.stop.end(), "") != c.fields.stop.end()) {
    refuse("invalid_request", "stop: an empty string would stop before the first token");
  }
}

TokenId token_of_key(const std::string& key, int vocab_size) {
  TokenId id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool whole = error == std::errc() && end == key.data() + key.size();
  if (!whole || id < 0 || id >= vocab_size) {
    refuse_value("logit_bias", fmt::format("token ids from 0 to {} as keys", vocab_size - 1), key);
  }
  return id;
}

void read_logit_bias(const FieldContext& c) {
  if (!c.value.is_object()) refuse_value(c.name, "an object of token ids and biases", c.value);
  if (c.value.size() > static_cast<std::size_t>(kMaxLogitBias)) {
    refuse("invalid_request", fmt::format("logit_bias: {} entries, at most {} are accepted",
                                          c.value.size(), kMaxLogitBias));
  }
  auto& bias = c.fields.logit_bias;
  for (const auto& item : c.value.items()) {
    bias.emplace_back(token_of_key(item.key(), c.vocab_size),
                      read_float(c.name, item.value(), {-100.0F, 100.0F}));
  }
  std::sort(bias.begin(), bias.end());
  const auto twice = std::adjacent_find(
      bias.begin(), bias.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != bias.end()) {
    refuse("invalid_request", fmt::format("logit_bias: token id {} is given twice", twice->first));
  }
}

void read_stop_token_ids(const FieldContext& c) {
  c.fields.stop_token_ids = read_token_ids(c.name, c.value, c.vocab_size);
}

void read_tools(const FieldContext& c) {
  const bool objects =
      c.value.is_array() &&
      std::all_of(c.value.begin(), c.value.end(), [](const Json& t) { return t.is_object(); });
  if (!objects) refuse_value(c.name, "a list of objects", c.value);
  if (!c.value.empty()) c.fields.tools = &c.value;
}

void read_tool_choice(const FieldContext& c) {
  if (c.value == "auto" || c.value == "none") return;
  refuse("unsupported", "tool_choice: only \"auto\" and \"none\" are supported");
}

void read_template_kwargs(const FieldContext& c) {
  if (!c.value.is_object()) refuse_value(c.name, "an object", c.value);
  c.fields.template_kwargs = &c.value;
}

void read_response_format(const FieldContext& c) {
  if (c.value.is_object() && c.value.value("type", Json()) == "text") return;
  refuse("unsupported", "response_format: only {\"type\":\"text\"} is supported");
}

void read_stream(const FieldContext& c) {
  if (boolean(c)) refuse("unsupported", "stream: a batch answer is not streamed; leave it false");
}

void read_continue(const FieldContext& c) {
  if (boolean(c)) refuse("unsupported", "continue_final_message: true is not supported");
}

void accept(const FieldContext&) {}

struct Field {
  enum class Where : std::uint8_t { kBoth, kCompletions, kChat };
  Where where;
  void (*read)(const FieldContext&);
};

using FieldTable = std::unordered_map<std::string_view, Field>;

FieldTable make_field_table() {
  using enum Field::Where;
  return {
      {"prompt", {kCompletions, [](const FieldContext& c) { c.fields.prompt = &c.value; }}},
      {"messages", {kChat, [](const FieldContext& c) { c.fields.messages = &c.value; }}},
      {"model",
       {kBoth, [](const FieldContext& c) { c.fields.model = read_string(c.name, c.value); }}},
      {"max_tokens", {kBoth, [](const FieldContext& c) { c.fields.max_tokens = integer(c, 0); }}},
      {"max_completion_tokens",
       {kBoth, [](const FieldContext& c) { c.fields.max_completion_tokens = integer(c, 0); }}},
      {"min_tokens", {kBoth, [](const FieldContext& c) { c.fields.min_tokens = integer(c, 0); }}},
      {"n",
       {kBoth, [](const FieldContext& c) { c.fields.n = integer(c, 1, kMaxChoicesPerPrompt); }}},
      {"best_of", {kBoth, [](const FieldContext& c) { c.fields.best_of = integer(c, 1); }}},
      {"temperature",
       {kBoth,
        [](const FieldContext& c) {
          c.fields.temperature = number(c, {0.0F, kUnbounded});
        }}},
      {"top_p",
       {kBoth,
        [](const FieldContext& c) {
          c.fields.top_p = number(c, {0.0F, 1.0F, true});
        }}},
      {"top_k", {kBoth, [](const FieldContext& c) { c.fields.top_k = integer(c, -1); }}},
      {"min_p",
       {kBoth,
        [](const FieldContext& c) {
          c.fields.min_p = number(c, {0.0F, 1.0F});
        }}},
      {"repetition_penalty",
       {kBoth,
        [](const FieldContext& c) {
          c.fields.repetition_penalty = number(c, {0.0F, kUnbounded, true});
        }}},
      {"presence_penalty",
       {kBoth,
        [](const FieldContext& c) {
          c.fields.presence_penalty = number(c, {-2.0F, 2.0F});
        }}},
      {"frequency_penalty",
       {kBoth,
        [](const FieldContext& c) {
          c.fields.frequency_penalty = number(c, {-2.0F, 2.0F});
        }}},
      {"seed",
       {kBoth,
        [](const FieldContext& c) {
          c.fields.seed = read_integer(c.name, c.value, {INT64_MIN, INT64_MAX});
        }}},
      {"logit_bias", {kBoth, read_logit_bias}},
      {"stop", {kBoth, read_stop}},
      {"stop_token_ids", {kBoth, read_stop_token_ids}},
      {"include_stop_str_in_output",
       {kBoth, [](const FieldContext& c) { c.fields.include_stop_str_in_output = boolean(c); }}},
      {"ignore_eos", {kBoth, [](const FieldContext& c) { c.fields.ignore_eos = boolean(c); }}},
      {"skip_special_tokens",
       {kBoth, [](const FieldContext& c) { c.fields.skip_special_tokens = boolean(c); }}},
      {"add_special_tokens",
       {kBoth, [](const FieldContext& c) { c.fields.add_special_tokens = boolean(c); }}},
      {"return_token_ids",
       {kBoth, [](const FieldContext& c) { c.fields.return_token_ids = boolean(c); }}},
      {"prompt_logprobs",
       {kBoth,
        [](const FieldContext& c) { c.fields.num_prompt_logprobs = integer(c, 0, kMaxLogprobs); }}},
      {"priority",
       {kBoth, [](const FieldContext& c) { c.fields.priority = integer(c, INT32_MIN); }}},
      {"echo", {kCompletions, [](const FieldContext& c) { c.fields.echo = boolean(c); }}},
      {"top_logprobs",
       {kChat, [](const FieldContext& c) { c.fields.top_logprobs = integer(c, 0, kMaxLogprobs); }}},
      {"tools", {kChat, read_tools}},
      {"tool_choice", {kChat, read_tool_choice}},
      {"chat_template_kwargs", {kChat, read_template_kwargs}},
      {"add_generation_prompt",
       {kChat, [](const FieldContext& c) { c.fields.add_generation_prompt = boolean(c); }}},
      {"continue_final_message", {kChat, read_continue}},
      {"response_format", {kBoth, read_response_format}},
      {"stream", {kBoth, read_stream}},
      {"stream_options", {kBoth, accept}},
      {"user", {kBoth, accept}},
      {"metadata", {kBoth, accept}},
      {"store", {kBoth, accept}},
      {"service_tier", {kBoth, accept}},
  };
}

// Fields of OpenAI's and vLLM's requests that are not served, with their defaults.
std::unordered_map<std::string_view, Json> make_default_table() {
  return {
      {"use_beam_search", false},
      {"length_penalty", 1.0},
      {"early_stopping", false},
      {"beam_width", 1},
      {"suffix", ""},
      {"bad_words", Json::array()},
      {"allowed_token_ids", Json::array()},
      {"spaces_between_special_tokens", true},
      {"truncate_prompt_tokens", Json()},
      {"return_tokens_as_token_ids", false},
      {"detokenize", true},
      {"parallel_tool_calls", true},
      {"modalities", Json::array({"text"})},
      {"documents", Json::array()},
      {"include_reasoning", true},
      {"functions", Json::array()},
      {"function_call", "none"},
      {"chat_template", Json()},
      {"structured_outputs", Json()},
      {"guided_json", Json()},
      {"guided_regex", Json()},
      {"guided_choice", Json()},
      {"guided_grammar", Json()},
      {"logits_processors", Json::array()},
      {"prompt_embeds", Json()},
      {"mm_processor_kwargs", Json()},
      {"kv_transfer_params", Json()},
      {"reasoning_effort", Json()},
      {"verbosity", Json()},
      {"prediction", Json()},
      {"audio", Json()},
      {"web_search_options", Json()},
  };
}

void read_logprobs(const FieldContext& c, Endpoint endpoint) {
  if (endpoint == Endpoint::kChat) {
    c.fields.chat_logprobs = boolean(c);
  } else {
    c.fields.num_logprobs = integer(c, 0, kMaxLogprobs);
  }
}

[[noreturn]] void refuse_field(std::string_view name) {
  static const auto kDefaults = make_default_table();
  const auto known = kDefaults.find(name);
  if (known == kDefaults.end()) {
    refuse("unsupported", fmt::format("unknown field \"{}\"", name.substr(0, 64)));
  }
  const std::string accepted = known->second.is_null() ? "null" : known->second.dump();
  refuse("unsupported", fmt::format("{}: not supported; only {} is accepted", name, accepted));
}

bool equals_default(std::string_view name, const Json& value) {
  static const auto kDefaults = make_default_table();
  const auto known = kDefaults.find(name);
  return known != kDefaults.end() && known->second == value;
}

void check_endpoint(std::string_view name, Field::Where where, Endpoint endpoint) {
  const bool chat = endpoint == Endpoint::kChat;
  if (where == Field::Where::kBoth || (where == Field::Where::kChat) == chat) return;
  refuse("invalid_request",
         fmt::format("{}: belongs to {}", name, chat ? "/v1/completions" : "/v1/chat/completions"));
}

void read_field(const FieldContext& c, Endpoint endpoint) {
  static const FieldTable kFields = make_field_table();
  if (c.value.is_null() || equals_default(c.name, c.value)) return;
  if (c.name == "logprobs") return read_logprobs(c, endpoint);
  const auto field = kFields.find(c.name);
  if (field == kFields.end()) refuse_field(c.name);
  check_endpoint(c.name, field->second.where, endpoint);
  field->second.read(c);
}

}  // namespace

BodyFields read_body(const Json& body, Endpoint endpoint, int vocab_size,
                     const std::vector<std::string_view>& envelope) {
  BodyFields fields;
  for (const auto& item : body.items()) {
    const std::string& name = item.key();
    if (std::find(envelope.begin(), envelope.end(), name) != envelope.end()) continue;
    read_field({fields, name, item.value(), vocab_size}, endpoint);
  }
  return fields;
}

}  // namespace headrace
