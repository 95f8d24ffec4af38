#include "model/chat/chat_template.h"

#include <utility>

#include "model/chat/context_value.h"
#include "model/chat/interpreter.h"
#include "model/chat/parser.h"

namespace headrace {

struct ChatTemplate::Program {
  std::string name;
  jinja::Tree tree;
};

namespace {

// Far beyond any real template; it bounds the work before a render's own limits begin.
constexpr std::size_t kMaxSourceBytes = 1U << 20;

jinja::Tree parse_named(std::string_view source, const std::string& name) {
  if (source.size() > kMaxSourceBytes) {
    throw std::invalid_argument(name + ":1: the chat template has " +
                                std::to_string(source.size()) + " bytes; at most " +
                                std::to_string(kMaxSourceBytes) + " are accepted");
  }
  try {
    return jinja::parse(source);
  } catch (const jinja::SyntaxError& error) {
    throw std::invalid_argument(name + ":" + std::to_string(error.line) + ": " + error.what());
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string name) {
  jinja::Tree tree = parse_named(source, name);
  program_ = std::make_unique<const Program>(Program{std::move(name), std::move(tree)});
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const nlohmann::ordered_json& context, std::int64_t now_s,
                                 Limits limits) const {
  if (!context.is_object()) throw TemplateError("the context of a chat template must be an object");
  std::optional<jinja::Interpreter> interpreter;
  try {
    const jinja::Value values = jinja::to_value(context);
    interpreter.emplace(program_->tree, values, now_s,
                        jinja::Budget{limits.output_bytes, limits.steps});
    return interpreter->run();
  } catch (const jinja::RaisedError& error) {
    throw TemplateError(error.what());
  } catch (const jinja::RenderError& error) {
    const int line = interpreter ? interpreter->line() : 1;
    throw TemplateError(program_->name + ":" + std::to_string(line) + ": " + error.what());
  }
}

}  // namespace headrace
