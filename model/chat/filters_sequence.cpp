// Filters on sequences as a whole. Those that pick or map items: filters_selection.cpp.
#include <algorithm>
#include <array>

#include "model/chat/arguments.h"
#include "model/chat/attribute_path.h"
#include "model/chat/filter_tables.h"
#include "model/chat/lazy.h"
#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

Value filter_length(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  return Value::integer(interpreter.length(value));
}

Value filter_list(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return interpreter.list(interpreter.collect(value));
}

Value filter_first(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  Cursor cursor(interpreter, value);
  Value item;
  return cursor.next(item) ? item : undefined_hint("No first item, sequence was empty.");
}

Value filter_last(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  const Value backwards = make_reversed(interpreter, value);
  if (backwards.is(Kind::kMissing)) {
    throw RenderError(std::string("'") + type_name(value) + "' object is not reversible");
  }
  Value item;
  return Cursor(interpreter, backwards).next(item)
             ? item
             : undefined_hint("No last item, sequence was empty.");
}

Value filter_reverse(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  if (value.is(Kind::kString)) {
    interpreter.charge(value.text().size());
    std::string out;
    for (std::size_t end = value.text().size(); end > 0;) {
      append_code_point(out, previous_code_point(value.text(), end));
    }
    return interpreter.text(std::move(out), value.markup());
  }
  if (Value backwards = make_reversed(interpreter, value); !backwards.is(Kind::kMissing))
    return backwards;
  if (!Cursor::iterable(value)) throw RenderError("argument must be iterable");
  Values items = interpreter.collect(value);
  std::reverse(items.begin(), items.end());
  return interpreter.list(std::move(items));
}

Value filter_join(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const Value separator_value = bound.value(0, Value());
  interpreter.charge_walk(separator_value);
  const std::string separator = to_text(separator_value);
  const AttributePath path(interpreter, bound.given(1) ? bound.required(1) : Value::none());
  Cursor cursor(interpreter, value);
  std::string out;
  Value item;
  for (bool first = true; cursor.next(item); first = false) {
    if (!first) out += separator;
    item = path.get(std::move(item));
    interpreter.charge_walk(item);
    out += item.is(Kind::kString) ? item.text() : to_text(item);
    interpreter.check_text(out.size());
  }
  return interpreter.text(std::move(out));
}

// ---- order

struct Keyed {
  Value key;
  Value value;
};

// Stable, as Python's sorted(); `reverse` keeps the order of equals too.
void sort_keyed(Interpreter& interpreter, std::vector<Keyed>& items, bool reverse) {
  const auto less = [&](const Value& a, const Value& b) {
    interpreter.charge(static_cast<std::size_t>(std::min(a.weight(), b.weight())));
    return ordered(a, b, Order::kLess);
  };
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(b.key, a.key) : less(a.key, b.key);
  });
}

Values values_of(std::vector<Keyed> keyed) {
  Values values;
  values.reserve(keyed.size());
  for (Keyed& item : keyed) values.push_back(std::move(item.value));
  return values;
}

Value sort_key(Interpreter& interpreter, Value value, bool case_sensitive) {
  return case_sensitive ? value : ignoring_case(interpreter, std::move(value));
}

// The attribute argument of sort: several paths separated by commas.
std::vector<AttributePath> attribute_paths(Interpreter& interpreter, const Value& attribute) {
  std::vector<AttributePath> paths;
  if (!attribute.is(Kind::kString)) {
    paths.emplace_back(interpreter, attribute);
    return paths;
  }
  const std::string& text = attribute.text();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    paths.emplace_back(interpreter, interpreter.text(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return paths;
}

Value filter_sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.flag(1, false);
  const auto paths =
      attribute_paths(interpreter, bound.given(2) ? bound.required(2) : Value::none());
  std::vector<Keyed> items;
  Cursor cursor(interpreter, value);
  Value item;
  while (cursor.next(item)) {
    Values keys;
    for (const AttributePath& path : paths)
      keys.push_back(sort_key(interpreter, path.get(item), case_sensitive));
    // Always as a list: lists whose items are equal compare without asking for the items' order,
    // which undefined ones do not have.
    items.push_back({interpreter.list(std::move(keys)), std::move(item)});
  }
  sort_keyed(interpreter, items, bound.flag(0, false));
  return interpreter.list(values_of(std::move(items)));
}

Value filter_dictsort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.string(1, "key");
  if (by != "key" && by != "value")
    throw RenderError("You can only sort by either \"key\" or \"value\"");
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  if (!value.is(Kind::kDict))
    throw RenderError(std::string("'") + type_name(value) + "' object has no attribute 'items'");
  std::vector<Keyed> items;
  for (const auto& [key, item] : value.dict().entries) {
    items.push_back({sort_key(interpreter, by == "key" ? key : item, bound.flag(0, false)),
                     interpreter.tuple({key, item})});
  }
  sort_keyed(interpreter, items, bound.flag(2, false));
  return interpreter.list(values_of(std::move(items)));
}

Value extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments,
              Order better) {
  const Bound bound("filter", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(interpreter, bound.given(1) ? bound.required(1) : Value::none());
  Value best;
  Value best_key;
  Cursor cursor(interpreter, value);
  Value item;
  while (cursor.next(item)) {
    Value key = sort_key(interpreter, path.get(item), bound.flag(0, false));
    interpreter.charge_walk(key);
    if (!best.is(Kind::kMissing) && !ordered(key, best_key, better)) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best.is(Kind::kMissing) ? undefined_hint("No aggregated item, sequence was empty.") : best;
}

Value filter_min(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return extreme(interpreter, value, arguments, Order::kLess);
}

Value filter_max(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return extreme(interpreter, value, arguments, Order::kGreater);
}

Value filter_sum(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const AttributePath path(interpreter, bound.given(0) ? bound.required(0) : Value::none());
  Value total = bound.value(1, Value::integer(0));
  if (total.is(Kind::kString))
    throw RenderError("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(interpreter, value);
  Value item;
  while (cursor.next(item))
    total = interpreter.binary(BinaryOperator::kAdd, total, path.get(std::move(item)));
  return total;
}

// ---- groups

Value make_group(Interpreter& interpreter, Value key, Values members) {
  Value group = interpreter.tuple({std::move(key), interpreter.list(std::move(members))});
  group.as<SequenceObject>().group = true;
  return group;
}

Value filter_groupby(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"});
  const AttributePath path(interpreter, bound.required(0));
  const Value otherwise = bound.value(1, Value::none());
  std::vector<Keyed> items;
  Cursor cursor(interpreter, value);
  Value item;
  while (cursor.next(item)) {
    Value key = sort_key(interpreter, path.get(item, otherwise), bound.flag(2, false));
    items.push_back({std::move(key), std::move(item)});
  }
  sort_keyed(interpreter, items, false);
  Values groups;
  for (std::size_t begin = 0; begin < items.size();) {
    std::size_t end = begin;
    Values members;
    while (end < items.size() && equal(items[begin].key, items[end].key)) {
      interpreter.charge_walk(items[end].key);
      members.push_back(items[end++].value);
    }
    if (end == begin) members.push_back(items[end++].value);  // a key that is not itself: nan
    Value key =
        path.get(members[0], otherwise);  // with the case it has, not the one it is sorted by
    groups.push_back(make_group(interpreter, std::move(key), std::move(members)));
    begin = end;
  }
  return interpreter.list(std::move(groups));
}

Value filter_batch(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"});
  const std::int64_t size = bound.integer(0);
  const Value fill = bound.value(1, Value::none());
  auto cursor = std::make_shared<std::optional<Cursor>>();
  Value pending;
  const auto next = [&interpreter, value, size, fill, cursor, pending](Value& batch) mutable {
    if (!*cursor) cursor->emplace(interpreter, value);
    Values items;
    if (!pending.is(Kind::kMissing)) items.push_back(std::exchange(pending, Value()));
    Value item;
    while ((*cursor)->next(item)) {
      if (static_cast<std::int64_t>(items.size()) == size) {
        pending = std::move(item);
        batch = interpreter.list(std::move(items));
        return true;
      }
      items.push_back(std::move(item));
    }
    if (items.empty()) return false;
    while (!fill.is(Kind::kNone) && static_cast<std::int64_t>(items.size()) < size) {
      interpreter.charge(1);
      items.push_back(fill);
    }
    batch = interpreter.list(std::move(items));
    return true;
  };
  return make_lazy(interpreter, next, {value, fill});
}

Value filter_slice(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"});
  const std::int64_t slices = bound.integer(0);
  const Value fill = bound.value(1, Value::none());
  std::optional<Values> items;
  std::int64_t number = 0;
  std::size_t at = 0;
  const auto next = [&interpreter, value, slices, fill, items, number, at](Value& slice) mutable {
    if (!items) items = interpreter.collect(value);
    if (slices == 0) throw RenderError("integer division or modulo by zero");
    if (number >= slices) return false;
    const auto total = static_cast<std::int64_t>(items->size());
    const bool longer = number < total % slices;
    const auto size = static_cast<std::size_t>(total / slices + (longer ? 1 : 0));
    const auto begin = items->begin() + static_cast<std::ptrdiff_t>(at);
    Values part(begin, begin + static_cast<std::ptrdiff_t>(size));
    if (!longer && !fill.is(Kind::kNone)) part.push_back(fill);
    at += size;
    ++number;
    slice = interpreter.list(std::move(part));
    return true;
  };
  return make_lazy(interpreter, next, {value, fill});
}

Value filter_unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.flag(0, false);
  const AttributePath path(interpreter, bound.given(1) ? bound.required(1) : Value::none());
  const auto seen = std::make_shared<DictObject>();
  const auto cursor = std::make_shared<std::optional<Cursor>>();
  const auto next = [&interpreter, value, case_sensitive, path, seen, cursor](Value& item) {
    if (!*cursor) cursor->emplace(interpreter, value);
    while ((*cursor)->next(item)) {
      const Value key = sort_key(interpreter, path.get(item), case_sensitive);
      interpreter.charge_walk(key);
      if (seen->find(key) != nullptr) continue;
      seen->set(key, Value::none());
      return true;
    }
    return false;
  };
  return make_lazy(interpreter, next, {value});
}

Value filter_items(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  const auto cursor = std::make_shared<std::optional<Cursor>>();
  const auto next = [&interpreter, value, cursor](Value& item) {
    if (value.is(Kind::kUndefined)) return false;
    if (!value.is(Kind::kDict)) throw RenderError("Can only get item pairs from a mapping.");
    if (!*cursor)
      cursor->emplace(interpreter, interpreter.view(value, DictViewObject::Part::kItems));
    return (*cursor)->next(item);
  };
  return make_lazy(interpreter, next, {value});
}

constexpr std::array<NamedFilter, 17> kFilters{{
    {"length", filter_length},
    {"count", filter_length},
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
    {"reverse", filter_reverse},
    {"join", filter_join},
    {"sort", filter_sort},
    {"dictsort", filter_dictsort},
    {"min", filter_min},
    {"max", filter_max},
    {"sum", filter_sum},
    {"groupby", filter_groupby},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"unique", filter_unique},
    {"items", filter_items},
}};

}  // namespace

std::span<const NamedFilter> sequence_filters() {
  return kFilters;
}

}  // namespace headrace::jinja
