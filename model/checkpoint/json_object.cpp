#include "model/checkpoint/json_object.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/input_file.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

json parse_bounded(std::string_view text, const std::string& source) {
  const auto refuse_depth = [&](int depth, json::parse_event_t /*event*/, json& /*value*/) {
    if (depth > kMaxDepth) {
      throw std::invalid_argument(
          fmt::format("{}: nests deeper than {} levels", source, kMaxDepth));
    }
    return true;
  };
  // The parser would take a NUL for the end and not look at what follows.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    throw std::invalid_argument(fmt::format("{}: is not valid JSON at byte {}", source, nul + 1));
  }
  try {
    return json::parse(text, refuse_depth);
  } catch (const json::parse_error& error) {
    throw std::invalid_argument(
        fmt::format("{}: is not valid JSON at byte {}", source, error.byte));
  } catch (const json::exception&) {
    throw std::invalid_argument(fmt::format("{}: holds a number that is out of range", source));
  }
}

// A value as it may stand in a message.
std::string shown(const json* value) {
  if (value == nullptr) return "absent";
  if (value->is_string()) return in_quotes(value->get_ref<const std::string&>());
  if (value->is_object()) return "an object";
  if (value->is_array() && value->size() > 8) return fmt::format("a list of {}", value->size());
  const std::string text = value->dump(-1, ' ', true);
  return text.size() > 80 ? text.substr(0, 80) + "..." : text;
}

}  // namespace

JsonObject::JsonObject(std::shared_ptr<const json> root, const json& value, std::string source,
                       std::string prefix)
    : root_(std::move(root)),
      value_(&value),
      source_(std::move(source)),
      prefix_(std::move(prefix)) {}

JsonObject JsonObject::read(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const std::string text = read_text(path, max_bytes);
  const std::string what = appearance(InputFile(path));
  if (!text.starts_with('{') && !what.empty() && what != kJsonAppearance) {
    throw std::invalid_argument(
        fmt::format("{}: is not JSON; it looks like {}", path.string(), what));
  }
  return parse(text, path.string());
}

JsonObject JsonObject::parse(std::string_view text, std::string source) {
  auto root = std::make_shared<const json>(parse_bounded(text, source));
  if (!root->is_object()) {
    throw std::invalid_argument(fmt::format("{}: is not a JSON object", source));
  }
  const json& value = *root;
  return {std::move(root), value, std::move(source), {}};
}

const json* JsonObject::find(std::string_view key) const {
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::has(std::string_view key) const {
  return find(key) != nullptr;
}

bool JsonObject::is_null(std::string_view key) const {
  const auto found = value_->find(key);
  return found != value_->end() && found->is_null();
}

bool JsonObject::is_object(std::string_view key) const {
  const json* value = find(key);
  return value != nullptr && value->is_object();
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : value_->items()) keys.push_back(item.key());
  return keys;
}

void JsonObject::refuse(std::string_view key, std::string_view accepted) const {
  throw std::invalid_argument(
      fmt::format("{}: {}{} is {}; {}", source_, prefix_, key, shown(find(key)), accepted));
}

std::int64_t JsonObject::to_integer(std::string_view key, const json& value,
                                    IntegerRange range) const {
  const auto accepted = [&] {
    return fmt::format("an integer from {} to {} is accepted", range.least, range.most);
  };
  // 8192.0 is an integer too: writers differ.
  double number = 0;
  if (!value.is_number() || (number = value.get<double>(), std::trunc(number) != number) ||
      !(number >= static_cast<double>(range.least) && number <= static_cast<double>(range.most))) {
    refuse(key, accepted());
  }
  return value.get<std::int64_t>();
}

std::optional<std::int64_t> JsonObject::integer(std::string_view key, IntegerRange range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_integer(key, *value, range);
}

std::optional<double> JsonObject::number(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse(key, "a finite number is accepted");
  }
  return value->get<double>();
}

std::optional<bool> JsonObject::boolean(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true and false are accepted");
  return value->get<bool>();
}

std::optional<std::string> JsonObject::text(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "a text is accepted");
  return value->get<std::string>();
}

std::optional<JsonObject> JsonObject::object(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object is accepted");
  return JsonObject(root_, *value, source_, fmt::format("{}{}.", prefix_, key));
}

std::optional<std::vector<std::string>> JsonObject::texts(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  if (!value->is_array()) refuse(key, "a list of texts is accepted");
  for (const json& element : *value) {
    if (!element.is_string()) refuse(key, "a list of texts is accepted");
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

std::optional<std::vector<double>> JsonObject::numbers(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::vector<double> numbers;
  if (!value->is_array()) refuse(key, "a list of numbers is accepted");
  for (const json& element : *value) {
    if (!element.is_number() || !std::isfinite(element.get<double>())) {
      refuse(key, "a list of finite numbers is accepted");
    }
    numbers.push_back(element.get<double>());
  }
  return numbers;
}

std::optional<std::vector<std::int64_t>> JsonObject::integers(std::string_view key,
                                                              IntegerRange range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return {{to_integer(key, *value, range)}};
  std::vector<std::int64_t> numbers;
  for (const json& element : *value) numbers.push_back(to_integer(key, element, range));
  return numbers;
}

std::int64_t JsonObject::required_integer(std::string_view key, IntegerRange range) const {
  const std::optional<std::int64_t> value = integer(key, range);
  if (!value)
    refuse(key, fmt::format("an integer from {} to {} is needed", range.least, range.most));
  return *value;
}

double JsonObject::required_number(std::string_view key) const {
  const std::optional<double> value = number(key);
  if (!value) refuse(key, "a number is needed");
  return *value;
}

}  // namespace headrace
