#include "model/chat/chat_prompt.h"

#include <array>
#include <set>
#include <stdexcept>

#include "model/chat/parser.h"
#include "model/chat/tree_walk.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// ---- does a template walk over content?

using Names = std::set<std::string>;

// Is the value of this expression a message's content, or made from one by filters and choices?
bool is_content(const jinja::Expr* expr, const Names& aliases) {
  using jinja::ExprKind;
  if (expr == nullptr) return false;
  switch (expr->kind) {
    case ExprKind::kName:
      return aliases.count(static_cast<const jinja::NameExpr&>(*expr).name) > 0;
    case ExprKind::kAttribute:
      return static_cast<const jinja::AttributeExpr&>(*expr).name == "content";
    case ExprKind::kItem: {
      const jinja::Expr& index = *static_cast<const jinja::ItemExpr&>(*expr).index;
      if (index.kind == ExprKind::kSlice) {
        return is_content(static_cast<const jinja::ItemExpr&>(*expr).object.get(), aliases);
      }
      if (index.kind != ExprKind::kConstant) return false;
      const jinja::Value& key = static_cast<const jinja::ConstantExpr&>(index).value();
      return key.is(jinja::Kind::kString) && key.text() == "content";
    }
    case ExprKind::kFilter:
      return is_content(static_cast<const jinja::ApplyExpr&>(*expr).operand.get(), aliases);
    case ExprKind::kConditional: {
      const auto& node = static_cast<const jinja::ConditionalExpr&>(*expr);
      return is_content(node.then.get(), aliases) || is_content(node.otherwise.get(), aliases);
    }
    case ExprKind::kOr: {
      const auto& node = static_cast<const jinja::BinaryExpr&>(*expr);
      return is_content(node.left.get(), aliases) || is_content(node.right.get(), aliases);
    }
    default:
      return false;
  }
}

// Parameters of `macro` that this call gives content become aliases.
void add_parameters(const jinja::CallExpr& call, const jinja::MacroBody& macro, Names& aliases) {
  const auto parameter = [&](std::size_t i) {
    return static_cast<const jinja::NameExpr&>(*macro.parameters[i]).name;
  };
  const jinja::Exprs& given = call.arguments.positional;
  for (std::size_t i = 0; i < given.size() && i < macro.parameters.size(); ++i) {
    if (is_content(given[i].get(), aliases)) aliases.insert(parameter(i));
  }
  for (const auto& [name, value] : call.arguments.keyword) {
    if (is_content(value.get(), aliases)) aliases.insert(name.value().text());
  }
}

void collect_aliases(const jinja::Stmts& body, Names& aliases) {
  std::vector<const jinja::MacroBody*> macros;
  jinja::visit_statements(body, [&](const jinja::Stmt& stmt) {
    if (stmt.kind == jinja::StmtKind::kMacro)
      macros.push_back(&static_cast<const jinja::MacroStmt&>(stmt).macro);
  });
  const auto visit_call = [&](const jinja::Expr& expr) {
    if (expr.kind != jinja::ExprKind::kCall) return;
    const auto& call = static_cast<const jinja::CallExpr&>(expr);
    if (call.callee->kind != jinja::ExprKind::kName) return;
    const std::string& callee = static_cast<const jinja::NameExpr&>(*call.callee).name;
    for (const jinja::MacroBody* macro : macros) {
      if (macro->name == callee) add_parameters(call, *macro, aliases);
    }
  };
  jinja::visit_statements(body, [&](const jinja::Stmt& stmt) {
    if (stmt.kind == jinja::StmtKind::kSet) {
      const auto& node = static_cast<const jinja::SetStmt&>(stmt);
      if (node.target->kind == jinja::ExprKind::kName && is_content(node.value.get(), aliases)) {
        aliases.insert(static_cast<const jinja::NameExpr&>(*node.target).name);
      }
    }
    jinja::for_own_expressions(
        stmt, [&](const jinja::Expr& expr) { jinja::visit_expressions(&expr, visit_call); });
  });
}

// ---- messages

[[noreturn]] void refuse(const std::string& where, const std::string& problem) {
  throw std::invalid_argument(where + ": " + problem);
}

std::string part_text(const Json& part, const std::string& where) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
    refuse(where, "a content part must be an object with a type");
  }
  const auto type = part["type"].get<std::string>();
  if (type != "text")
    refuse(where, "a content part of type '" + type + "' is not supported, only 'text' is");
  if (!part.contains("text") || !part["text"].is_string())
    refuse(where, "a text part must have a string 'text'");
  return part["text"].get<std::string>();
}

Json convert_content(const Json& content, const std::string& where, ContentForm form) {
  if (content.is_null()) return "";
  if (content.is_string()) return content;
  if (!content.is_array()) refuse(where, "content must be a string, null or a list of text parts");
  std::string joined;
  for (std::size_t i = 0; i < content.size(); ++i) {
    joined += part_text(content[i], where + "[" + std::to_string(i) + "]");
  }
  return form == ContentForm::kParts ? content : Json(joined);
}

void parse_arguments(Json& call) {
  if (!call.is_object()) return;
  Json& function =
      call.contains("function") && call["function"].is_object() ? call["function"] : call;
  if (!function.contains("arguments") || !function["arguments"].is_string()) return;
  const Json parsed =
      Json::parse(function["arguments"].get_ref<const std::string&>(), nullptr, false);
  if (parsed.is_object()) function["arguments"] = parsed;
}

// The reasoning under the first name that has it, then under both names that templates read.
Json with_reasoning(Json message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!message.contains(name)) continue;
    const Json reasoning = message[name];
    Json made = Json::object();
    made["thinking"] = reasoning;
    for (const auto& [key, value] : message.items()) made[key] = value;
    made["reasoning_content"] = reasoning;
    return made;
  }
  return message;
}

Json convert_message(const Json& message, const std::string& where, ContentForm form) {
  if (!message.is_object()) refuse(where, "a message must be an object");
  if (!message.contains("role") || !message["role"].is_string())
    refuse(where, "a message must have a string 'role'");
  Json made = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (key == "content") {
      made[key] = convert_content(value, where + ".content", form);
    } else if (!value.is_null()) {
      made[key] = value;
    }
  }
  if (made.contains("tool_calls") && made["tool_calls"].is_array()) {
    for (Json& call : made["tool_calls"]) parse_arguments(call);
  }
  return with_reasoning(std::move(made));
}

Json convert_objects(const Json& list, const std::string& name) {
  if (list.is_null()) return list;
  if (!list.is_array()) refuse(name, "must be a list of objects or null");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) refuse(name + "[" + std::to_string(i) + "]", "must be an object");
  }
  return list;
}

}  // namespace

ContentForm detect_content_form(std::string_view template_source, const std::string& name) {
  jinja::Tree tree;
  try {
    tree = jinja::parse(template_source);
  } catch (const jinja::SyntaxError& error) {
    throw std::invalid_argument(name + ":" + std::to_string(error.line) + ": " + error.what());
  }
  Names aliases{"content"};
  for (std::size_t known = 0; known != aliases.size();) {
    known = aliases.size();
    collect_aliases(tree.body, aliases);
  }
  bool walks = false;
  jinja::visit_statements(tree.body, [&](const jinja::Stmt& stmt) {
    if (stmt.kind != jinja::StmtKind::kFor) return;
    walks = walks || is_content(static_cast<const jinja::ForStmt&>(stmt).iterable.get(), aliases);
  });
  return walks ? ContentForm::kParts : ContentForm::kText;
}

Json chat_context(const ChatRequest& request, const SpecialTexts& special, ContentForm form) {
  if (!request.messages.is_array() || request.messages.empty()) {
    refuse("messages", "must be a list of at least one message");
  }
  if (!request.template_kwargs.is_object()) refuse("chat_template_kwargs", "must be an object");
  Json context = Json::object();
  Json& messages = context["messages"] = Json::array();
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    messages.push_back(
        convert_message(request.messages[i], "messages[" + std::to_string(i) + "]", form));
  }
  context["tools"] = convert_objects(request.tools, "tools");
  context["documents"] = convert_objects(request.documents, "documents");
  context["add_generation_prompt"] = request.add_generation_prompt;
  const std::array<std::pair<const char*, const std::optional<std::string>*>, 4> texts{
      {{"bos_token", &special.bos},
       {"eos_token", &special.eos},
       {"unk_token", &special.unk},
       {"pad_token", &special.pad}}};
  for (const auto& [name, text] : texts) {
    if (*text) context[name] = **text;
  }
  for (const auto& [key, value] : request.template_kwargs.items()) {
    if (key == "messages" || key == "tools" || key == "documents" ||
        key == "add_generation_prompt") {
      refuse("chat_template_kwargs." + key, "is a part of the request itself");
    }
    context[key] = value;
  }
  return context;
}

}  // namespace headrace
