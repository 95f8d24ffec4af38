#include "runtime/job/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/job/body_fields.h"
#include "runtime/job/field_readers.h"
#include "runtime/job/hash.h"
#include "runtime/job/json_line.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// A body without max_tokens at /v1/completions: OpenAI's and vLLM's default.
constexpr int kDefaultCompletionTokens = 16;
// Every choice has a sequence and an answer in memory; vLLM and OpenAI clients send up to 2,048
// prompts.
constexpr std::int64_t kMaxChoices = 16384;

// Where a line's body is, and which of its fields are not the body's.
struct Form {
  Endpoint endpoint = Endpoint::kCompletions;
  const Json* body = nullptr;
  std::vector<std::string_view> envelope;
};

Endpoint endpoint_of(const Json& document) {
  const auto url = document.find("url");
  if (url == document.end() || url->is_null()) refuse("invalid_request", "url: is missing");
  const std::string& text = read_string("url", *url);
  if (text == "/v1/completions") return Endpoint::kCompletions;
  if (text == "/v1/chat/completions") return Endpoint::kChat;
  if (text == "/v1/embeddings") {
    refuse("unsupported", "url: /v1/embeddings is not supported: this job generates text");
  }
  refuse_value("url", "/v1/completions or /v1/chat/completions", *url);
}

Form batch_form(const Json& document) {
  static constexpr std::string_view kNames[] = {"custom_id", "method", "url", "body"};
  for (const auto& item : document.items()) {
    if (std::find(std::begin(kNames), std::end(kNames), item.key()) == std::end(kNames)) {
      refuse("unsupported",
             fmt::format("unknown field \"{}\" beside body", shortened(item.key(), 64)));
    }
  }
  const Json method = document.value("method", Json());
  if (!method.is_null() && method != "POST") refuse_value("method", "\"POST\"", method);
  Form form{endpoint_of(document), &document["body"], {}};
  if (!form.body->is_object()) refuse_value("body", "an object", *form.body);
  return form;
}

Form short_form(const Json& document) {
  const bool prompt = document.contains("prompt");
  const bool messages = document.contains("messages");
  if (prompt && messages) refuse("invalid_request", "prompt and messages exclude each other");
  if (!prompt && !messages) {
    refuse("invalid_request", "a request needs body with url, or prompt, or messages");
  }
  return {messages ? Endpoint::kChat : Endpoint::kCompletions, &document, {"custom_id"}};
}

std::optional<std::string> custom_id_of(const Json& document) {
  const auto id = document.find("custom_id");
  if (id == document.end() || !id->is_string()) return std::nullopt;
  return id->get<std::string>();
}

void check_custom_id(const Json& document) {
  const Json id = document.value("custom_id", Json());
  if (!id.is_null() && !id.is_string()) refuse_value("custom_id", "a string", id);
}

// Builds one Request from a body's fields.
class RequestMaker {
 public:
  RequestMaker(const ParserConfig& config, const BodyFields& fields, Request& request)
      : config_(config), fields_(fields), request_(request) {}

  void make() {
    check_model();
    if (request_.endpoint == Endpoint::kChat) {
      add_chat_prompt();
    } else {
      add_prompts();
    }
    set_choices();
    set_flags();
    set_sampling();
    set_random_stream();
    set_stops();
    for (Prompt& prompt : request_.prompts) set_max_tokens(prompt);
  }

 private:
  void check_model() const {
    const auto& served = config_.served_model_names;
    if (served.empty() || !fields_.model) return;
    if (std::find(served.begin(), served.end(), *fields_.model) != served.end()) return;
    refuse("model_not_found", fmt::format("model: \"{}\" is not served; expected \"{}\"",
                                          shortened(*fields_.model, 256), served.front()));
  }

  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const {
    return config_.tokenizer->encode(text, {.add_special_tokens = add_special_tokens});
  }

  void add_text_prompt(const std::string& text) {
    Prompt prompt;
    prompt.tokens = encode(text, fields_.add_special_tokens.value_or(true));
    if (fields_.echo) prompt.text = text;
    request_.prompts.push_back(std::move(prompt));
  }

  void add_id_prompt(const Json& ids) {
    Prompt prompt;
    prompt.tokens = read_token_ids("prompt", ids, config_.vocab_size);
    if (fields_.echo) {
      prompt.text = config_.tokenizer->decode(prompt.tokens,
                                              {.skip_special_tokens = fields_.skip_special_tokens});
    }
    request_.prompts.push_back(std::move(prompt));
  }

  void add_prompt(const Json& prompt) {
    if (prompt.is_string()) return add_text_prompt(prompt.get_ref<const std::string&>());
    if (prompt.is_array() && !prompt.empty()) return add_id_prompt(prompt);
    refuse_value("prompt", "text or a list of at least one token id", prompt);
  }

  void add_prompts() {
    if (fields_.prompt == nullptr) refuse("invalid_request", "prompt: is missing");
    const Json& prompt = *fields_.prompt;
    const bool list = prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
    if (!list) return add_prompt(prompt);
    check_num_choices(prompt.size());
    for (const Json& item : prompt) add_prompt(item);
  }

  void add_chat_prompt() {
    if (fields_.messages == nullptr) refuse("invalid_request", "messages: is missing");
    if (!config_.chat) {
      refuse("unsupported", "messages: the model has no chat template; give one, or send a prompt");
    }
    Prompt prompt;
    try {
      prompt.tokens =
          encode(config_.chat(chat_request()), fields_.add_special_tokens.value_or(false));
    } catch (const std::invalid_argument& error) {
      refuse("invalid_request", error.what());
    } catch (const std::runtime_error& error) {
      refuse("template_error", fmt::format("chat template: {}", error.what()));
    }
    request_.prompts.push_back(std::move(prompt));
  }

  ChatRequest chat_request() const {
    ChatRequest request{.messages = *fields_.messages};
    if (fields_.tools != nullptr) request.tools = *fields_.tools;
    if (fields_.template_kwargs != nullptr) request.template_kwargs = *fields_.template_kwargs;
    request.add_generation_prompt = fields_.add_generation_prompt;
    return request;
  }

  void check_num_choices(std::size_t num_prompts) const {
    const auto num_choices = static_cast<std::int64_t>(num_prompts) * fields_.n;
    if (num_choices <= kMaxChoices) return;
    refuse("invalid_request",
           fmt::format("{} prompts with n {} make {} choices, at most {} are accepted", num_prompts,
                       fields_.n, num_choices, kMaxChoices));
  }

  void set_choices() {
    if (fields_.best_of && *fields_.best_of != fields_.n) {
      refuse("unsupported", fmt::format("best_of: {} is not supported; only n ({}) is accepted",
                                        *fields_.best_of, fields_.n));
    }
    check_num_choices(request_.prompts.size());
    request_.n = fields_.n;
    request_.priority = fields_.priority;
  }

  void set_flags() {
    request_.include_stop_str_in_output = fields_.include_stop_str_in_output;
    request_.skip_special_tokens = fields_.skip_special_tokens;
    request_.echo = fields_.echo;
    request_.return_token_ids = fields_.return_token_ids;
    request_.num_prompt_logprobs = fields_.num_prompt_logprobs;
    request_.num_logprobs = fields_.num_logprobs;
    if (fields_.chat_logprobs) request_.num_logprobs = fields_.top_logprobs.value_or(0);
    if (fields_.top_logprobs.value_or(0) > 0 && !fields_.chat_logprobs) {
      refuse("invalid_request", "top_logprobs: needs logprobs to be true");
    }
  }

  void set_sampling() {
    const SamplingDefaults& defaults = config_.defaults;
    SamplingParams& params = request_.params;
    params.temperature = fields_.temperature.value_or(defaults.temperature.value_or(1.0F));
    params.top_p = fields_.top_p.value_or(defaults.top_p.value_or(1.0F));
    params.top_k = std::max(0, fields_.top_k.value_or(defaults.top_k.value_or(0)));
    params.min_p = fields_.min_p.value_or(defaults.min_p.value_or(0.0F));
    params.repetition_penalty =
        fields_.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0F));
    params.presence_penalty = fields_.presence_penalty;
    params.frequency_penalty = fields_.frequency_penalty;
    params.logit_bias = fields_.logit_bias;
    params.num_logprobs = request_.num_logprobs;
    params.num_prompt_logprobs = request_.num_prompt_logprobs;
    if (request_.echo) {
      params.num_prompt_logprobs = std::max(params.num_prompt_logprobs, request_.num_logprobs);
    }
  }

  void set_random_stream() {
    SamplingParams& params = request_.params;
    // vLLM takes a seed of -1 as none.
    if (fields_.seed && *fields_.seed != -1) {
      params.key = static_cast<std::uint64_t>(*fields_.seed);
      params.stream = 0;
      return;
    }
    params.key = config_.seed;
    params.stream = request_.custom_id ? hash64(*request_.custom_id)
                                       : hash64(fmt::format("line {}", request_.line));
  }

  void set_stops() {
    request_.stop = fields_.stop;
    std::vector<TokenId>& stops = request_.stop_token_ids;
    stops = fields_.stop_token_ids;
    if (!fields_.ignore_eos) {
      request_.end_ids = config_.end_ids;
      stops.insert(stops.end(), config_.end_ids.begin(), config_.end_ids.end());
    }
    std::sort(stops.begin(), stops.end());
    stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
    if (stops.size() > static_cast<std::size_t>(kMaxStopIds)) {
      refuse("invalid_request",
             fmt::format(
                 "stop_token_ids: {} ids with the end-of-sequence ids, at most {} are accepted",
                 stops.size(), kMaxStopIds));
    }
    request_.params.min_tokens = fields_.min_tokens;
    if (fields_.min_tokens > 0) request_.params.banned_before_min = stops;
  }

  std::optional<int> asked_max_tokens() const {
    if (fields_.max_tokens && fields_.max_completion_tokens &&
        *fields_.max_tokens != *fields_.max_completion_tokens) {
      refuse("invalid_request", fmt::format("max_tokens ({}) and max_completion_tokens ({}) differ",
                                            *fields_.max_tokens, *fields_.max_completion_tokens));
    }
    if (fields_.max_completion_tokens) return fields_.max_completion_tokens;
    if (fields_.max_tokens) return fields_.max_tokens;
    if (request_.endpoint == Endpoint::kCompletions) return kDefaultCompletionTokens;
    return config_.defaults.max_new_tokens;
  }

  void set_max_tokens(Prompt& prompt) const {
    const auto num_prompt_tokens = static_cast<std::int64_t>(prompt.tokens.size());
    if (num_prompt_tokens == 0) refuse("invalid_request", "the prompt has no tokens");
    const std::optional<int> asked = asked_max_tokens();
    const std::int64_t room = config_.max_model_len - num_prompt_tokens;
    const std::int64_t wanted = asked.value_or(config_.max_model_len);
    if (room < std::min<std::int64_t>(wanted, 1)) {
      refuse("context_length_exceeded",
             fmt::format("the prompt has {} tokens; the context of {} leaves no room for an answer",
                         num_prompt_tokens, config_.max_model_len));
    }
    if (wanted == 0 && request_.endpoint == Endpoint::kChat) {
      refuse("invalid_request", "max_tokens: a chat answer needs at least 1");
    }
    if (asked && fields_.min_tokens > *asked) {
      refuse("invalid_request",
             fmt::format("min_tokens: {} is above max_tokens ({})", fields_.min_tokens, *asked));
    }
    prompt.max_tokens = static_cast<int>(std::min(wanted, room));
  }

  const ParserConfig& config_;
  const BodyFields& fields_;
  Request& request_;
};

Request make_request(const Json& document, const InputLine& line, const ParserConfig& config) {
  check_custom_id(document);
  const Form form = document.contains("body") ? batch_form(document) : short_form(document);
  const BodyFields fields = read_body(*form.body, form.endpoint, config.vocab_size, form.envelope);
  Request request;
  request.ordinal = line.ordinal;
  request.line = line.number;
  request.custom_id = custom_id_of(document);
  request.endpoint = form.endpoint;
  RequestMaker(config, fields, request).make();
  return request;
}

// Keeps the top level's custom_id and skips the rest, at a fraction of a document's cost. Accepts
// what parse_json_line() accepts.
class CustomIdFinder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t& text) override {
    if (wanted_) {
      wanted_ = false;
      id_ = std::move(text);
    }
    return ++num_values_ <= kMaxJsonValues;
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    wanted_ = num_members_.size() == 1 && name == "custom_id";
    return ++num_members_.back() <= kMaxJsonMembers;
  }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::optional<std::string> take() { return std::move(id_); }

 private:
  bool value() {
    if (wanted_) id_.reset();
    wanted_ = false;
    return ++num_values_ <= kMaxJsonValues;
  }
  bool open() {
    if (!value()) return false;
    num_members_.push_back(0);
    return num_members_.size() <= static_cast<std::size_t>(kMaxJsonDepth);
  }
  bool close() {
    num_members_.pop_back();
    return true;
  }

  std::vector<int> num_members_;  // of each open container
  std::int64_t num_values_ = 0;
  bool wanted_ = false;
  std::optional<std::string> id_;
};

}  // namespace

RequestParser::RequestParser(ParserConfig config) : config_(std::move(config)) {}

ParsedLine RequestParser::parse(const InputLine& line) const {
  if (line.too_long) {
    return {std::nullopt, LineError{"line_too_long", line_too_long_text()}};
  }
  Json document;
  std::string problem = parse_json_line(line.text, document);
  if (!problem.empty()) return {std::nullopt, LineError{"invalid_json", std::move(problem)}};
  if (!document.is_object()) {
    return {std::nullopt, LineError{"invalid_request", fmt::format("expected an object, got {}",
                                                                   json_kind(document))}};
  }
  try {
    Request request = make_request(document, line, config_);
    return {request.custom_id, std::move(request)};
  } catch (LineFailure& failure) {
    return {custom_id_of(document), std::move(failure.error)};
  } catch (const std::invalid_argument& error) {
    return {custom_id_of(document), LineError{"invalid_request", error.what()}};
  }
}

std::optional<std::string> peek_custom_id(std::string_view line) {
  CustomIdFinder finder;
  if (!Json::sax_parse(line.begin(), line.end(), &finder)) return std::nullopt;
  return finder.take();
}

}  // namespace headrace
