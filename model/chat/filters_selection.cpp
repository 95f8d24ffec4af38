// Filters that map or pick the items of a sequence, one at a time.
#include <array>
#include <memory>

#include "model/chat/attribute_path.h"
#include "model/chat/filter_tables.h"
#include "model/chat/lazy.h"
#include "model/chat/python_text.h"

namespace headrace::jinja {
namespace {

using ItemFunction = std::function<Value(const Value&)>;

Values held_values(const Value& value, const Arguments& arguments) {
  Values held = arguments.positional;
  held.push_back(value);
  for (const auto& [name, argument] : arguments.keyword) held.push_back(argument);
  return held;
}

const std::string& name_argument(const Value& value) {
  if (value.is(Kind::kString)) return value.text();
  throw RenderError(std::string("a filter or test is named by a str, not ") + type_name(value));
}

Arguments arguments_from(const Arguments& arguments, std::size_t first) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(first),
                         arguments.positional.end());
  rest.keyword = arguments.keyword;
  return rest;
}

// map(attribute=..., default=...) or map("filter", arguments...).
ItemFunction map_function(Interpreter& interpreter, const Arguments& arguments) {
  const auto named = [&](std::string_view wanted) {
    for (const auto& [name, value] : arguments.keyword) {
      if (name.text() == wanted) return value;
    }
    return Value();
  };
  if (arguments.positional.empty()) {
    const Value attribute = named("attribute");
    if (attribute.is(Kind::kMissing)) throw RenderError("map requires a filter argument");
    for (const auto& [name, value] : arguments.keyword) {
      if (name.text() != "attribute" && name.text() != "default") {
        throw RenderError("Unexpected keyword argument " + quote_text(name.text()));
      }
    }
    return [path = AttributePath(interpreter, attribute),
            otherwise = named("default")](const Value& item) { return path.get(item, otherwise); };
  }
  return [&interpreter, name = name_argument(arguments.positional[0]),
          rest = arguments_from(arguments, 1)](const Value& item) {
    return interpreter.call_filter(name, item, rest);
  };
}

Value filter_map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto cursor = std::make_shared<std::optional<Cursor>>();
  const auto function = std::make_shared<ItemFunction>();
  // Like jinja2's generator, nothing is looked at before the first item is asked for.
  const auto next = [&interpreter, value, arguments, cursor, function](Value& item) {
    if (!*cursor) {
      if (!truthy(value)) return false;
      *function = map_function(interpreter, arguments);
      cursor->emplace(interpreter, value);
    }
    if (!(*cursor)->next(item)) return false;
    item = (*function)(item);
    return true;
  };
  return make_lazy(interpreter, next, held_values(value, arguments));
}

enum class Pick { kSelect, kReject };

// What is asked of each item: a test, or its truth; of the item or of one of its attributes.
ItemFunction pick_function(Interpreter& interpreter, const Arguments& arguments,
                           bool by_attribute) {
  const std::size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first)
    throw RenderError("Missing parameter for attribute name");
  const AttributePath path(interpreter, by_attribute ? arguments.positional[0] : Value::none());
  if (arguments.positional.size() == first) {
    return [path](const Value& item) { return Value::boolean(truthy(path.get(item))); };
  }
  return [&interpreter, path, name = name_argument(arguments.positional[first]),
          rest = arguments_from(arguments, first + 1)](const Value& item) {
    return Value::boolean(interpreter.call_test(name, path.get(item), rest));
  };
}

template <Pick pick, bool by_attribute>
Value filter_pick(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto cursor = std::make_shared<std::optional<Cursor>>();
  const auto function = std::make_shared<ItemFunction>();
  const auto next = [&interpreter, value, arguments, cursor, function](Value& item) {
    if (!*cursor) {
      if (!truthy(value)) return false;
      *function = pick_function(interpreter, arguments, by_attribute);
      cursor->emplace(interpreter, value);
    }
    while ((*cursor)->next(item)) {
      if (truthy((*function)(item)) == (pick == Pick::kSelect)) return true;
    }
    return false;
  };
  return make_lazy(interpreter, next, held_values(value, arguments));
}

constexpr std::array<NamedFilter, 5> kFilters{{
    {"map", filter_map},
    {"select", filter_pick<Pick::kSelect, false>},
    {"reject", filter_pick<Pick::kReject, false>},
    {"selectattr", filter_pick<Pick::kSelect, true>},
    {"rejectattr", filter_pick<Pick::kReject, true>},
}};

}  // namespace

std::span<const NamedFilter> selection_filters() {
  return kFilters;
}

}  // namespace headrace::jinja
