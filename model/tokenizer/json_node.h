// A value of a JSON file that knows where it stands, so that every complaint names file and key.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  /// The member with this key; absent and null are the same. The node must be an object.
  std::optional<JsonNode> find(std::string_view key) const;
  /// A member that must be there.
  JsonNode at(std::string_view key) const;
  std::vector<JsonNode> elements() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;

  bool is_string() const;
  bool is_object() const;
  bool is_array() const;
  std::string string() const;
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;

  /// Members with a value for when they are absent or null.
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string string_or(std::string_view key, std::string otherwise) const;

  /// Throws std::invalid_argument: file, path, the value, and what would be accepted.
  [[noreturn]] void reject(std::string_view accepted) const;

 private:
  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace headrace
