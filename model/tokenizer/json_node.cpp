#include "model/tokenizer/json_node.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "model/tokenizer/shown_text.h"

namespace headrace {
namespace {

// A value as a message shows it.
std::string excerpt(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) reject("an object");
  const auto member = value_->find(key);
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return JsonNode(*member, file_,
                  path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

JsonNode JsonNode::at(std::string_view key) const {
  auto member = find(key);
  if (!member) {
    throw std::invalid_argument(fmt::format("{}: {} has no key {}", file_,
                                            path_.empty() ? "the file" : path_, shown_text(key)));
  }
  return *std::move(member);
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) reject("a list");
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (const nlohmann::json& element : *value_) {
    nodes.emplace_back(element, file_, fmt::format("{}[{}]", path_, nodes.size()));
  }
  return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (!value_->is_object()) reject("an object");
  std::vector<std::pair<std::string, JsonNode>> nodes;
  for (const auto& [key, member] : value_->items()) {
    nodes.emplace_back(key, JsonNode(member, file_, fmt::format("{}.{}", path_, shown_key(key))));
  }
  return nodes;
}

bool JsonNode::is_string() const {
  return value_->is_string();
}
bool JsonNode::is_object() const {
  return value_->is_object();
}
bool JsonNode::is_array() const {
  return value_->is_array();
}

std::string JsonNode::string() const {
  if (!value_->is_string()) reject("a string");
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) reject("true or false");
  return value_->get<bool>();
}

std::int64_t JsonNode::integer() const {
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX) {
    reject("a smaller integer");
  }
  if (!value_->is_number_integer()) reject("an integer");
  return value_->get<std::int64_t>();
}

double JsonNode::number() const {
  if (!value_->is_number()) reject("a number");
  return value_->get<double>();
}

bool JsonNode::boolean_or(std::string_view key, bool otherwise) const {
  const auto member = find(key);
  return member ? member->boolean() : otherwise;
}

std::string JsonNode::string_or(std::string_view key, std::string otherwise) const {
  const auto member = find(key);
  return member ? member->string() : std::move(otherwise);
}

void JsonNode::reject(std::string_view accepted) const {
  throw std::invalid_argument(fmt::format("{}: {} is {}; accepted: {}", file_,
                                          path_.empty() ? "the file" : path_, excerpt(*value_),
                                          accepted));
}

}  // namespace headrace
