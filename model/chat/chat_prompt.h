// From the messages of a request to the context of a chat template, as transformers'
// apply_chat_template builds it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace headrace {

/// How a template takes a message's content when the request gives a list of text parts.
enum class ContentForm {
  kText,   // the template expects a string: the parts' texts are joined, with nothing between them
  kParts,  // the template walks over the parts itself
};

/// kParts when a loop of the template runs over a message's content: over `x.content` or
/// `x['content']`, a variable set from one, a variable called content, or a macro's parameter that
/// is given one. (What vLLM calls the content format "auto".) Throws std::invalid_argument as
/// ChatTemplate does.
ContentForm detect_content_form(std::string_view template_source, const std::string& name);

/// The special tokens that the tokenizer defines; a template sees an absent one as undefined.
struct SpecialTexts {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<std::string> unk;
  std::optional<std::string> pad;
};

struct ChatRequest {
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools = nullptr;      // null: the template sees None
  nlohmann::ordered_json documents = nullptr;  // likewise
  bool add_generation_prompt = true;
  nlohmann::ordered_json template_kwargs =
      nlohmann::ordered_json::object();  // win over special tokens
};

/// The context for ChatTemplate::render. Like transformers it leaves out a message's keys that are
/// null and gives reasoning under the names reasoning_content and thinking; unlike it, content that
/// is null is the empty string, and a tool call's arguments, which OpenAI's API writes as JSON in a
/// string, become the object that templates expect. Throws std::invalid_argument naming the message
/// and key: messages are objects with a role, content is a string, null or a list of text parts,
/// tools and documents are lists of objects.
nlohmann::ordered_json chat_context(const ChatRequest& request, const SpecialTexts& special,
                                    ContentForm form);

}  // namespace headrace
