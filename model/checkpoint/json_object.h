// A JSON object whose fields are read by name and kind. Whatever is missing, of another kind or out
// of range ends in one line that names file, key, value and what would be accepted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

/// Integers from least to most.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// A view of one object that keeps the whole text's tree alive. A field that is null counts as
/// absent.
class JsonObject {
 public:
  /// Reads and parses a file of at most max_bytes. Throws std::invalid_argument for text that is no
  /// JSON object or nests deeper than 64.
  static JsonObject read(const std::filesystem::path& path, std::uint64_t max_bytes);
  /// The same for text; source stands for it in messages.
  static JsonObject parse(std::string_view text, std::string source);

  bool has(std::string_view key) const;
  bool is_null(std::string_view key) const;
  bool is_object(std::string_view key) const;
  std::vector<std::string> keys() const;

  /// Look-ups of a field: nullopt where it is absent, std::invalid_argument for another kind or
  /// range.
  std::optional<std::int64_t> integer(std::string_view key, IntegerRange range) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<JsonObject> object(std::string_view key) const;
  /// A list of texts.
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// A list of finite numbers.
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  /// An integer or a list of integers.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key, IntegerRange range) const;

  /// The same where the field must be there.
  std::int64_t required_integer(std::string_view key, IntegerRange range) const;
  double required_number(std::string_view key) const;

  /// Throws std::invalid_argument: "FILE: KEY is VALUE; ACCEPTED". Absent values read "absent".
  [[noreturn]] void refuse(std::string_view key, std::string_view accepted) const;

  const std::string& source() const { return source_; }

 private:
  JsonObject(std::shared_ptr<const nlohmann::json> root, const nlohmann::json& value,
             std::string source, std::string prefix);
  const nlohmann::json* find(std::string_view key) const;
  std::int64_t to_integer(std::string_view key, const nlohmann::json& value,
                          IntegerRange range) const;

  std::shared_ptr<const nlohmann::json> root_;
  const nlohmann::json* value_;
  std::string source_;
  std::string prefix_;  // "rope_scaling." inside that object
};

}  // namespace headrace
