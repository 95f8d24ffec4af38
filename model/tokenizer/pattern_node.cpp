#include "model/tokenizer/pattern_node.h"

#include <fmt/format.h>

#include <stdexcept>

namespace headrace {

std::unique_ptr<Pattern> parse_pattern(const JsonNode& node) {
  const auto members = node.members();
  if (members.size() == 1 && members[0].first == "String") {
    return literal_pattern(members[0].second.string());
  }
  if (members.size() != 1 || members[0].first != "Regex") {
    node.reject("{\"String\": text} or {\"Regex\": expression}");
  }
  const std::string expression = members[0].second.string();
  try {
    return regex_pattern(expression);
  } catch (const std::invalid_argument& error) {
    members[0].second.reject(fmt::format("an expression that PCRE2 can run ({})", error.what()));
  }
}

}  // namespace headrace
