#include "model/chat/context_value.h"

#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

// Everything else relies on text being UTF-8.
Value convert_text(const std::string& text) {
  if (const auto bad = find_invalid_utf8(text)) {
    throw RenderError("the request holds invalid UTF-8 at byte " + std::to_string(*bad) +
                      " of a text");
  }
  return Value::string(text);
}

Value convert(const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > kMaxValueDepth) {
    throw RenderError("the request is nested deeper than " + std::to_string(kMaxValueDepth) +
                      " levels");
  }
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>());
    case Type::number_integer:
      return Value::integer(json.get<std::int64_t>());
    case Type::number_unsigned:
      return Value::big_integer(json.get<std::uint64_t>());
    case Type::number_float:
      return Value::real(json.get<double>());
    case Type::string:
      return convert_text(json.get_ref<const std::string&>());
    case Type::array: {
      auto* made = new SequenceObject;
      Value value = Value::object(Kind::kList, made);
      made->items.reserve(json.size());
      for (const auto& item : json) {
        made->items.push_back(convert(item, depth + 1));
        contain(*made, made->items.back());
      }
      return value;
    }
    case Type::object: {
      auto* made = new DictObject;
      Value value = Value::object(Kind::kDict, made);
      made->entries.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        Value converted = convert(item, depth + 1);
        contain(*made, converted);
        made->set(convert_text(key), std::move(converted));
      }
      return value;
    }
    default:
      return Value::none();
  }
}

}  // namespace

Value to_value(const nlohmann::ordered_json& json) {
  return convert(json, 0);
}

}  // namespace headrace::jinja
