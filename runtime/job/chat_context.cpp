#include "runtime/job/chat_context.h"

#include <fmt/format.h>

#include <string>

#include "runtime/job/field_readers.h"
#include "runtime/job/json_line.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

std::string part_text(std::string_view where, const Json& part) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) refuse_value(where, "text parts", part);
  const Json type = part.value("type", Json());
  if (type != "text") {
    refuse("unsupported", fmt::format("{}: a part of type {}; only \"text\" is supported", where,
                                      type.is_string() ? type.dump() : "that is not a string"));
  }
  return read_string(fmt::format("{}: text", where), part.value("text", Json()));
}

// Parts are joined by line ends, as vLLM does for templates that take strings.
std::string content_text(std::string_view where, const Json& content) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse_value(where, "a string, null or a list of text parts", content);
  std::string text;
  for (const Json& part : content) {
    if (!text.empty()) text += '\n';
    text += part_text(where, part);
  }
  return text;
}

// Clients send a call's arguments as JSON inside a string; templates iterate over the object.
void open_arguments(std::string_view where, Json& call) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
    refuse_value(where, "calls with a function", call);
  }
  Json& function = call["function"];
  if (!function.contains("arguments") || function["arguments"].is_null()) {
    function["arguments"] = Json::object();
    return;
  }
  if (!function["arguments"].is_string()) return;
  const auto text = function["arguments"].get<std::string>();
  Json arguments = Json::object();
  if (!text.empty()) {
    const std::string problem = parse_json_line(text, arguments);
    if (!problem.empty()) {
      refuse("invalid_request", fmt::format("{}: arguments: {}", where, problem));
    }
  }
  function["arguments"] = std::move(arguments);
}

Json message(std::string_view where, const Json& given) {
  if (!given.is_object()) refuse_value(where, "an object with role and content", given);
  Json message = given;
  read_string(fmt::format("{}.role", where), given.value("role", Json()));
  message["content"] =
      content_text(fmt::format("{}.content", where), given.value("content", Json()));
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return message;
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return message;
  }
  if (!calls->is_array()) refuse_value(fmt::format("{}.tool_calls", where), "a list", *calls);
  for (Json& call : *calls) open_arguments(fmt::format("{}.tool_calls", where), call);
  return message;
}

Json messages(const Json& given) {
  if (!given.is_array() || given.empty()) {
    refuse_value("messages", "a list of at least one message", given);
  }
  Json list = Json::array();
  for (std::size_t i = 0; i < given.size(); ++i) {
    list.push_back(message(fmt::format("messages[{}]", i), given[i]));
  }
  return list;
}

}  // namespace

Json chat_context(const BodyFields& fields, const Tokenizer& tokenizer) {
  Json context = Json::object();
  context["messages"] = messages(*fields.messages);
  context["tools"] = fields.tools != nullptr ? *fields.tools : Json();
  context["documents"] = Json();
  context["add_generation_prompt"] = fields.add_generation_prompt;
  for (const std::string role : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    const std::string text = tokenizer.special_text(role);
    if (!text.empty()) context[role] = text;
  }
  if (fields.template_kwargs != nullptr) {
    for (const auto& item : fields.template_kwargs->items()) {
      if (item.key() == "messages" || item.key() == "tools") {
        refuse("invalid_request",
               fmt::format("chat_template_kwargs: {} is a field of its own", item.key()));
      }
      context[item.key()] = item.value();
    }
  }
  return context;
}

}  // namespace headrace
