#include "launch/tokenize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "launch/commands.h"
#include "launch/exit_codes.h"
#include "launch/line_output.h"
#include "launch/options.h"
#include "runtime/job/field_readers.h"
#include "runtime/job/input_reader.h"
#include "runtime/job/json_line.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

/// A field that decides nothing because this program does not know it would be a silent guess.
void check_fields(const ordered_json& line, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : line.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw std::invalid_argument(
          fmt::format("unknown field \"{}\"; known here: {}", key, fmt::join(known, ", ")));
    }
  }
}

const ordered_json& required(const ordered_json& line, const char* key) {
  const auto it = line.find(key);
  if (it == line.end()) throw std::invalid_argument(fmt::format("\"{}\" is missing", key));
  return *it;
}

/// nullptr where the field is absent or null.
const ordered_json* optional_field(const ordered_json& line, const char* key,
                                   ordered_json::value_t type) {
  const auto it = line.find(key);
  if (it == line.end() || it->is_null()) return nullptr;
  if (it->type() != type) {
    const bool list = type == ordered_json::value_t::array;
    throw std::invalid_argument(
        fmt::format("\"{}\" is not {}", key, list ? "a list" : "an object"));
  }
  return &*it;
}

std::vector<TokenId> token_ids(const ordered_json& ids, int vocab_size) {
  if (!ids.is_array()) throw std::invalid_argument("\"ids\" is not a list of token ids");
  std::vector<TokenId> out;
  out.reserve(ids.size());
  for (const ordered_json& id : ids) {
    if (!id.is_number_integer() || id < 0 || id >= vocab_size) {
      throw std::invalid_argument(fmt::format(
          "\"ids\" holds {}; accepted: 0 to {}, the tokenizer's ids", id.dump(), vocab_size - 1));
    }
    out.push_back(id.get<TokenId>());
  }
  return out;
}

/// nullopt where only the help was asked for, and printed.
std::optional<TokenizeOptions> read_options(const std::vector<std::string>& args) {
  TokenizeOptions o;
  OptionSet options({.command = "tokenize",
                     .synopsis = "--model MODEL",
                     .summary = "Turns {\"text\"} into {\"ids\"}, one JSON object a line, in input "
                                "order. Needs only the\n"
                                "model's tokenizer files. A bad line becomes {\"error\"} in its "
                                "place, and the exit code 3."});
  options.group("Input and output");
  options.add({.name = "model",
               .value = "MODEL",
               .help = "Hugging Face directory, org/name in the local cache, .gguf or .h5 file",
               .required = true},
              o.model);
  options.add({.name = "input",
               .value = "FILE...",
               .help = "JSON Lines, also .gz and .zst; - is standard input"},
              o.inputs);
  options.add({.name = "output", .value = "FILE", .help = "- is standard output"}, o.output);
  options.group("Text and ids");
  options.add({.name = "no-special-tokens",
               .help = "leave out the special tokens that the tokenizer adds by itself"},
              o.no_special_tokens);
  options.add({.name = "decode", .help = "turn {\"ids\"} into {\"text\"}"}, o.decode);
  options.add({.name = "skip-special-tokens", .help = "with --decode: hide special tokens"},
              o.skip_special_tokens);
  options.group("Chat");
  options.add({.name = "chat",
               .help = "turn {\"messages\"} (and tools, documents, chat_template_kwargs) into "
                       "{\"text\", \"ids\"}"},
              o.chat);
  options.add({.name = "no-generation-prompt",
               .help = "with --chat: end behind the last message, not where the answer begins"},
              o.no_generation_prompt);
  options.add({.name = "chat-template",
               .value = "FILE",
               .help = "with --chat: a Jinja template in place of the model's own"},
              o.chat_template);
  if (!options.parse(args)) {
    std::cout << options.help();
    return std::nullopt;
  }
  options.exclude("chat", "decode");
  options.exclude("no-special-tokens", "decode");
  options.exclude("no-special-tokens", "chat");
  options.require_with("skip-special-tokens", "decode");
  options.require_with("no-generation-prompt", "chat");
  options.require_with("chat-template", "chat");
  return o;
}

/// Whether every line could be converted.
bool convert_all(const LineConverter& converter, InputReader& reader, LineOutput& output) {
  bool all = true;
  InputLine line;
  while (reader.next(line)) {
    const LineConverter::Result result =
        line.too_long ? LineConverter::failure(line.number, line_too_long_text())
                      : converter.convert(line.text, line.number);
    output.write(result.line);
    all = all && !result.failed;
  }
  output.finish();
  return all;
}

}  // namespace

LineConverter::LineConverter(TokenizeOptions options, ModelText text)
    : options_(std::move(options)), text_(std::move(text)), now_s_(local_now_s()) {
  if (options_.chat && text_.chat == nullptr) throw std::invalid_argument(text_.chat_problem);
}

LineConverter::Result LineConverter::convert(std::string_view line, std::int64_t number) const {
  ordered_json parsed;
  if (const std::string problem = parse_json_line(line, parsed); !problem.empty()) {
    return failure(number, problem);
  }
  try {
    if (!parsed.is_object()) throw std::invalid_argument("a JSON object is expected");
    return {.line = converted(parsed).dump()};
  } catch (const std::invalid_argument& e) {
    return failure(number, e.what());
  } catch (const TemplateError& e) {
    return failure(number, e.what());
  } catch (const LineFailure& e) {
    return failure(number, e.error.message);
  }
}

LineConverter::Result LineConverter::failure(std::int64_t number, std::string_view why) {
  const ordered_json line = {{"error", fmt::format("line {}: {}", number, why)}};
  // A message may quote the line's own bytes, whatever they are.
  return {.line = line.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
          .failed = true};
}

ordered_json LineConverter::converted(const ordered_json& line) const {
  if (options_.decode) return decoded(line);
  if (options_.chat) return rendered(line);
  return encoded(line);
}

ordered_json LineConverter::encoded(const ordered_json& line) const {
  check_fields(line, {"text"});
  const ordered_json& text = required(line, "text");
  if (!text.is_string()) throw std::invalid_argument("\"text\" is not a string");
  return {{"ids", text_.tokenizer->encode(text.get_ref<const std::string&>(),
                                          {.add_special_tokens = !options_.no_special_tokens})}};
}

ordered_json LineConverter::decoded(const ordered_json& line) const {
  check_fields(line, {"ids"});
  return {{"text",
           text_.tokenizer->decode(token_ids(required(line, "ids"), text_.tokenizer->vocab_size()),
                                   {.skip_special_tokens = options_.skip_special_tokens})}};
}

ordered_json LineConverter::rendered(const ordered_json& line) const {
  check_fields(line, {"messages", "tools", "documents", "chat_template_kwargs"});
  ChatRequest request{.messages = required(line, "messages")};
  const auto take = [&](const char* key, ordered_json::value_t type, ordered_json& target) {
    if (const ordered_json* given = optional_field(line, key, type)) target = *given;
  };
  take("tools", ordered_json::value_t::array, request.tools);
  take("documents", ordered_json::value_t::array, request.documents);
  take("chat_template_kwargs", ordered_json::value_t::object, request.template_kwargs);
  request.add_generation_prompt = !options_.no_generation_prompt;
  std::string text = text_.render(request, now_s_);
  // The template has written every special token that belongs there.
  std::vector<TokenId> ids = text_.tokenizer->encode(text, {.add_special_tokens = false});
  return {{"text", std::move(text)}, {"ids", std::move(ids)}};
}

int run_tokenize(const std::vector<std::string>& args) {
  const std::optional<TokenizeOptions> options = read_options(args);
  if (!options) return kExitSuccess;
  check_inputs(options->inputs, {options->output});
  const LineConverter converter(
      *options,
      load_model_text({.model = options->model, .chat_template = options->chat_template}));
  InputReader reader({.paths = options->inputs, .shard = {}});
  const std::unique_ptr<LineOutput> output = LineOutput::open(options->output);
  return convert_all(converter, reader, *output) ? kExitSuccess : kExitPartialFailure;
}

}  // namespace headrace
