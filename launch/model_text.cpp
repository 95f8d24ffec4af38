#include "launch/model_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/option_values.h"
#include "model/checkpoint/checkpoint.h"
#include "runtime/job/hash.h"

namespace headrace {
namespace {

using NamedTemplate = Tokenizer::NamedTemplate;

std::string read_template_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path)) {
    throw std::invalid_argument(
        fmt::format("--chat-template \"{}\": a file with a Jinja template is expected", path));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::shared_ptr<const ModelText::Chat> parse_template(const std::string& source,
                                                      const std::string& name) {
  return std::make_shared<const ModelText::Chat>(
      ModelText::Chat{ChatTemplate(source, name), detect_content_form(source, name)});
}

SpecialTexts special_texts(const Tokenizer& tokenizer) {
  const auto text = [&](std::string_view role) -> std::optional<std::string> {
    std::string found = tokenizer.special_text(role);
    if (found.empty()) return std::nullopt;
    return found;
  };
  return {.bos = text("bos_token"),
          .eos = text("eos_token"),
          .unk = text("unk_token"),
          .pad = text("pad_token")};
}

void use_template_file(const std::string& path, ModelText& text) {
  const std::string source = read_template_file(path);
  text.chat = parse_template(source, path);
  text.template_fingerprint = hex(hash128(source));
}

const NamedTemplate* find_template(const std::vector<NamedTemplate>& templates,
                                   std::string_view name) {
  const auto it = std::find_if(templates.begin(), templates.end(),
                               [&](const NamedTemplate& t) { return t.name == name; });
  return it == templates.end() ? nullptr : &*it;
}

/// As transformers chooses: "tool_use" for requests with tools where there is one, else "default".
void use_own_templates(const std::string& model, ModelText& text) {
  const std::vector<NamedTemplate>& templates = text.tokenizer->chat_templates();
  if (templates.empty()) {
    text.chat_problem =
        fmt::format("{} has no chat template; --chat-template FILE gives it one", model);
    return;
  }
  const NamedTemplate* usual = find_template(templates, "default");
  if (usual == nullptr) {
    std::vector<std::string> names;
    names.reserve(templates.size());
    for (const NamedTemplate& t : templates) names.push_back(t.name);
    text.chat_problem = fmt::format(
        "{} has chat templates {} but none named default; --chat-template FILE chooses one", model,
        fmt::join(names, ", "));
    return;
  }
  const NamedTemplate* with_tools = find_template(templates, "tool_use");
  try {
    text.chat = parse_template(usual->source, "chat template of " + model);
    if (with_tools != nullptr) {
      text.chat_with_tools =
          parse_template(with_tools->source, "chat template tool_use of " + model);
    }
  } catch (const std::invalid_argument& e) {
    text.chat = nullptr;
    text.chat_problem = e.what();
    return;
  }
  text.template_fingerprint =
      hex(hash128(usual->source + '\0' + (with_tools != nullptr ? with_tools->source : "")));
}

}  // namespace

std::string ModelText::render(const ChatRequest& request, std::int64_t now_s) const {
  if (chat == nullptr) throw TemplateError(chat_problem);
  const bool has_tools = request.tools.is_array() && !request.tools.empty();
  const Chat& chosen = has_tools && chat_with_tools != nullptr ? *chat_with_tools : *chat;
  return chosen.source.render(chat_context(request, special_texts(*tokenizer), chosen.content_form),
                              now_s);
}

ModelText load_model_text(const ModelTextOptions& options) {
  ModelText text;
  text.tokenizer = Tokenizer::load(resolve_model_path(options.model));
  if (options.chat_template) {
    use_template_file(*options.chat_template, text);
  } else {
    use_own_templates(options.model, text);
  }
  return text;
}

std::optional<std::int64_t> source_date_epoch() {
  const char* fixed = std::getenv("SOURCE_DATE_EPOCH");
  if (fixed == nullptr) return std::nullopt;
  try {
    return parse_integer(fixed, {.min = 0});
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(fmt::format("SOURCE_DATE_EPOCH \"{}\": {}", fixed, e.what()));
  }
}

std::int64_t local_now_s() {
  if (const auto fixed = source_date_epoch()) return *fixed;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<std::int64_t>(now) + local.tm_gmtoff;
}

}  // namespace headrace
