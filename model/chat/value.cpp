#include "model/chat/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

constexpr std::size_t kIndexFrom = 12;  // entries; below, comparing keys one by one is faster

std::size_t mix(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

std::size_t hash_number(const Value& value) {
  // Equal numbers of different types are equal keys, so an integral float hashes as its integer.
  if (value.is(Kind::kFloat)) {
    const double real = value.float_value();
    constexpr double kLimit = 9.0e18;
    if (std::floor(real) == real && std::fabs(real) < kLimit) {
      return std::hash<std::int64_t>{}(static_cast<std::int64_t>(real));
    }
    return std::hash<double>{}(real);
  }
  const Int128 whole = integer_of(value);
  if (whole >= std::numeric_limits<std::int64_t>::min() &&
      whole <= std::numeric_limits<std::int64_t>::max()) {
    return std::hash<std::int64_t>{}(static_cast<std::int64_t>(whole));
  }
  return std::hash<double>{}(static_cast<double>(whole));
}

bool equal_numbers(const Value& a, const Value& b) {
  if (!a.is(Kind::kFloat) && !b.is(Kind::kFloat)) return integer_of(a) == integer_of(b);
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.float_value() == b.float_value();
  const double real = a.is(Kind::kFloat) ? a.float_value() : b.float_value();
  const Int128 whole = integer_of(a.is(Kind::kFloat) ? b : a);
  constexpr double kLimit = 1.7e38;  // of Int128
  return std::fabs(real) < kLimit && std::floor(real) == real && static_cast<Int128>(real) == whole;
}

bool equal_sequences(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.start == b.start && (a.size() == 1 || a.step == b.step);
}

template <typename T>
bool apply(const T& a, const T& b, Order order) {
  switch (order) {
    case Order::kLess:
      return a < b;
    case Order::kLessEqual:
      return a <= b;
    case Order::kGreater:
      return a > b;
    case Order::kGreaterEqual:
      return a >= b;
  }
  return false;
}

const char* order_text(Order order) {
  switch (order) {
    case Order::kLess:
      return "<";
    case Order::kLessEqual:
      return "<=";
    case Order::kGreater:
      return ">";
    case Order::kGreaterEqual:
      return ">=";
  }
  return "";
}

bool ordered_sequences(const Values& a, const Values& b, Order order) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!equal(a[i], b[i])) return ordered(a[i], b[i], order);
  }
  return apply(a.size(), b.size(), order);
}

}  // namespace

Value Value::object(Kind kind, Object* object) {
  Value value;
  value.kind_ = kind;
  value.object_ = object;
  object->retain();
  return value;
}

Value Value::real(double number) {
  Value value(Kind::kFloat, 0);
  value.real_ = number;
  return value;
}

Value Value::big_integer(Int128 number) {
  if (number >= std::numeric_limits<std::int64_t>::min() &&
      number <= std::numeric_limits<std::int64_t>::max()) {
    return integer(static_cast<std::int64_t>(number));
  }
  if (number > kMaxInteger || number < -kMaxInteger)
    throw RenderError("an integer has more than 126 bits");
  // The analyser does not see that the count in the object frees it.
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
  Value made = object(Kind::kBigInt, new BigIntObject);
  made.as<BigIntObject>().value = number;
  return made;
}

Value Value::string(std::string text, bool markup) {
  auto* made = new StringObject;
  made->length = count_code_points(text);
  made->text = std::move(text);
  made->markup = markup;
  made->weight = 1 + static_cast<std::int64_t>(made->text.size() / kBytesPerWeight);
  return object(Kind::kString, made);
}

const std::string& Value::text() const {
  return static_cast<const StringObject*>(object_)->text;
}
bool Value::markup() const {
  return kind_ == Kind::kString && static_cast<const StringObject*>(object_)->markup;
}
const SequenceObject& Value::sequence() const {
  return *static_cast<const SequenceObject*>(object_);
}
const Values& Value::items() const {
  return sequence().items;
}
const DictObject& Value::dict() const {
  return *static_cast<const DictObject*>(object_);
}

void contain(Object& whole, const Value& part) {
  whole.depth = std::max(whole.depth, part.depth() + 1);
  whole.weight += part.weight();
  if (whole.depth > kMaxValueDepth) {
    throw RenderError("a value is nested deeper than " + std::to_string(kMaxValueDepth) +
                      " levels");
  }
  if (whole.weight > kMaxValueWeight) {
    throw RenderError("a value holds more than " + std::to_string(kMaxValueWeight) + " values");
  }
}

const StringObject& string_object(const Value& value) {
  return value.as<const StringObject>();
}

std::int64_t RangeObject::size() const {
  const Int128 distance = step > 0 ? Int128{stop} - start : Int128{start} - stop;
  const Int128 stride = step > 0 ? Int128{step} : -Int128{step};
  return distance > 0 ? static_cast<std::int64_t>((distance - 1) / stride + 1) : 0;
}

std::string UndefinedObject::message() const {
  if (!hint.empty()) return hint;
  if (owner == nullptr) return quote_text(name) + " is undefined";
  if (is_element) return std::string(owner) + " has no element " + name;
  return quote_text(owner) + " has no attribute " + quote_text(name);
}

const Value* DictObject::find(std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [name, value] : entries) {
      if (name.is(Kind::kString) && name.text() == key) return &value;
    }
    return nullptr;
  }
  const auto [begin, end] = index_.equal_range(std::hash<std::string_view>{}(key));
  for (auto at = begin; at != end; ++at) {
    const auto& [name, value] = entries[at->second];
    if (name.is(Kind::kString) && name.text() == key) return &value;
  }
  return nullptr;
}

std::ptrdiff_t DictObject::position(const Value& key, std::size_t hash) const {
  if (index_.empty()) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (equal(entries[i].first, key)) return static_cast<std::ptrdiff_t>(i);
    }
    return -1;
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (equal(entries[at->second].first, key)) return static_cast<std::ptrdiff_t>(at->second);
  }
  return -1;
}

const Value* DictObject::find(const Value& key) const {
  if (key.is(Kind::kString)) return find(std::string_view(key.text()));
  const std::ptrdiff_t at = position(key, hash_of(key));
  return at < 0 ? nullptr : &entries[static_cast<std::size_t>(at)].second;
}

void DictObject::set(Value key, Value value) {
  const std::size_t hash = hash_of(key);
  const std::ptrdiff_t at = position(key, hash);
  if (at >= 0) {
    entries[static_cast<std::size_t>(at)].second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (!index_.empty()) {
    index_.emplace(hash, entries.size() - 1);
  } else if (entries.size() > kIndexFrom) {
    for (std::size_t i = 0; i < entries.size(); ++i) index_.emplace(hash_of(entries[i].first), i);
  }
}

void DictObject::clear() {
  entries.clear();
  index_.clear();
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      switch (value.as<DictViewObject>().part) {
        case DictViewObject::Part::kKeys:
          return "dict_keys";
        case DictViewObject::Part::kValues:
          return "dict_values";
        case DictViewObject::Part::kItems:
          return "dict_items";
      }
      return "dict_items";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return value.as<IteratorObject>().type_name();
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kMacro:
      return "Macro";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

const char* owner_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool object";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int object";
    case Kind::kFloat:
      return "float object";
    case Kind::kString:
      return value.markup() ? "markupsafe.Markup object" : "str object";
    case Kind::kList:
      return "list object";
    case Kind::kTuple:
      return "tuple object";
    case Kind::kDict:
      return "dict object";
    case Kind::kRange:
      return "range object";
    case Kind::kNamespace:
      return "namespace object";
    case Kind::kMacro:
      return "jinja2.runtime.Macro object";
    case Kind::kLoop:
      return "jinja2.runtime.LoopContext object";
    case Kind::kCycler:
      return "jinja2.utils.Cycler object";
    case Kind::kJoiner:
      return "jinja2.utils.Joiner object";
    case Kind::kIterator:
      return "generator object";
    case Kind::kDictView:
      return "dict view object";
    default:
      return "function object";
  }
}

namespace {

Value make_undefined(UndefinedObject* made) {
  return Value::object(Kind::kUndefined, made);
}

}  // namespace

Value undefined_variable(std::string_view name) {
  auto* made = new UndefinedObject;
  made->name = name;
  return make_undefined(made);
}

Value undefined_hint(std::string hint) {
  auto* made = new UndefinedObject;
  made->hint = std::move(hint);
  return make_undefined(made);
}

Value undefined_attribute(const Value& owner, std::string_view name) {
  auto* made = new UndefinedObject;
  made->owner = owner_name(owner);
  made->name = name;
  return make_undefined(made);
}

Value undefined_lookup(const Value& owner, const Value& name) {
  if (name.is(Kind::kString)) return undefined_attribute(owner, name.text());
  auto* made = new UndefinedObject;
  made->owner = owner_name(owner);
  made->is_element = true;
  made->name = name.is_number() ? to_text(name) : std::string(type_name(name));
  return make_undefined(made);
}

void throw_undefined(const Value& value) {
  throw RenderError(value.as<UndefinedObject>().message());
}

Int128 integer_of(const Value& value) {
  return value.is(Kind::kBigInt) ? value.as<BigIntObject>().value : Int128{value.int_value()};
}

double number_of(const Value& value) {
  return value.is(Kind::kFloat) ? value.float_value() : static_cast<double>(integer_of(value));
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.int_value() != 0;
    case Kind::kFloat:
      return value.float_value() != 0.0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kDictView:
      return !value.as<DictViewObject>().owner.dict().entries.empty();
    case Kind::kRange:
      return value.as<RangeObject>().size() != 0;
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return a.identity() == b.identity() || equal_sequences(a.items(), b.items());
    case Kind::kDict:
      return a.identity() == b.identity() || equal_dicts(a.dict(), b.dict());
    case Kind::kRange:
      return equal_ranges(a.as<RangeObject>(), b.as<RangeObject>());
    case Kind::kDictView: {
      const auto& left = a.as<DictViewObject>();
      const auto& right = b.as<DictViewObject>();
      if (left.part != right.part || left.part == DictViewObject::Part::kValues) {
        return a.identity() == b.identity();
      }
      if (left.part == DictViewObject::Part::kItems) {
        return equal_dicts(left.owner.dict(), right.owner.dict());
      }
      if (left.owner.dict().entries.size() != right.owner.dict().entries.size()) return false;
      for (const auto& entry : left.owner.dict().entries) {
        if (right.owner.dict().find(entry.first) == nullptr) return false;
      }
      return true;
    }
    default:
      return a.identity() == b.identity();
  }
}

bool same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_number() || a.is(Kind::kNone) || a.is(Kind::kString)) return equal(a, b);
  return a.identity() == b.identity();
}

bool hashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
      return false;
    case Kind::kTuple:
      for (const Value& item : value.items()) {
        if (!hashable(item)) return false;
      }
      return true;
    default:
      return true;
  }
}

std::size_t hash_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return 0x5bd1e995U + static_cast<std::size_t>(value.kind());
    case Kind::kString:
      return std::hash<std::string_view>{}(value.text());
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
      throw RenderError(std::string("unhashable type: '") + type_name(value) + "'");
    case Kind::kTuple: {
      std::size_t seed = value.items().size();
      for (const Value& item : value.items()) seed = mix(seed, hash_of(item));
      return seed;
    }
    case Kind::kRange:
      return static_cast<std::size_t>(value.as<RangeObject>().size());
    default:
      return value.is_number() ? hash_number(value) : std::hash<const Object*>{}(value.identity());
  }
}

bool ordered(const Value& a, const Value& b, Order order) {
  if (a.is(Kind::kUndefined)) throw_undefined(a);
  if (b.is(Kind::kUndefined)) throw_undefined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return apply(number_of(a), number_of(b), order);
    return apply(integer_of(a), integer_of(b), order);
  }
  // UTF-8 sorts by bytes as Python sorts by code points.
  if (a.is(Kind::kString) && b.is(Kind::kString)) return apply(a.text(), b.text(), order);
  if (a.kind() == b.kind() && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    return ordered_sequences(a.items(), b.items(), order);
  }
  throw RenderError(std::string("'") + order_text(order) +
                    "' not supported between instances of '" + type_name(a) + "' and '" +
                    type_name(b) + "'");
}

}  // namespace headrace::jinja
