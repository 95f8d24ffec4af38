// What the interpreter does with values: making, looking up, calling and walking. Operators:
// operators.cpp.
#include <algorithm>

#include "model/chat/arguments.h"
#include "model/chat/interpreter.h"
#include "model/chat/methods.h"
#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

// Steps that making an object costs, so that the number of steps bounds the memory too.
constexpr std::size_t kObjectSteps = 4;

}  // namespace

// ---- making values

Value Interpreter::text(std::string text, bool markup) {
  check_text(text.size());
  charge(kObjectSteps + text.size() / kBytesPerWeight);
  return Value::string(std::move(text), markup);
}

Value Interpreter::sequence(Kind kind, Values items) {
  charge(kObjectSteps + items.size());
  auto* made = new SequenceObject;
  Value value = Value::object(kind, made);
  for (const Value& item : items) contain(*made, item);
  made->items = std::move(items);
  return value;
}

Value Interpreter::dict(const std::vector<std::pair<Value, Value>>& entries) {
  charge(kObjectSteps * (1 + entries.size()));
  auto* made = new DictObject;
  Value value = Value::object(Kind::kDict, made);
  for (const auto& [key, item] : entries) {
    contain(*made, key);
    contain(*made, item);
    charge_walk(key);
    made->set(key, item);
  }
  return value;
}

Value Interpreter::view(const Value& dict, DictViewObject::Part part) {
  charge(kObjectSteps);
  auto* made = new DictViewObject;
  Value value = Value::object(Kind::kDictView, made);
  made->owner = dict;
  made->part = part;
  contain(*made, dict);
  return value;
}

Value Interpreter::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  charge(kObjectSteps);
  if (step == 0) throw RenderError("range() arg 3 must not be zero");
  auto* made = new RangeObject;
  Value value = Value::object(Kind::kRange, made);
  made->start = start;
  made->stop = stop;
  made->step = step;
  constexpr std::int64_t kMaxRange = 100'000;  // jinja2's sandbox
  const Int128 span = step > 0 ? Int128{stop} - start : Int128{start} - stop;
  const Int128 stride = step > 0 ? Int128{step} : -Int128{step};
  if (span > stride * kMaxRange) {
    throw RenderError("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  return value;
}

Value Interpreter::iterator(IteratorObject* made, const Value& source) {
  Value value = Value::object(Kind::kIterator, made);
  charge(kObjectSteps);
  contain(*made, source);
  return value;
}

Value Interpreter::name_space(const std::vector<std::pair<Value, Value>>& attributes) {
  charge(kObjectSteps * (2 + attributes.size()));
  auto* made = new NamespaceObject;
  Value value = Value::object(Kind::kNamespace, made);
  namespaces_.push_back(value);
  for (const auto& [name, item] : attributes) {
    if (name.is(Kind::kString)) {
      set_attribute(value, name.text(), item);
    } else {
      made->attributes.set(name, item);
    }
  }
  return value;
}

Value Interpreter::method(const Value& self, Method method) {
  charge(kObjectSteps);
  auto* made = new MethodObject;
  Value value = Value::object(Kind::kMethod, made);
  made->self = self;
  made->method = method;
  contain(*made, self);
  return value;
}

Value Interpreter::function(FunctionObject::Body body) {
  auto* made = new FunctionObject;
  made->body = body;
  return Value::object(Kind::kFunction, made);
}

// ---- walking

bool Cursor::iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

Cursor::Cursor(Interpreter& interpreter, Value source)
    : interpreter_(interpreter), source_(std::move(source)) {
  if (!iterable(source_))
    throw RenderError(std::string("'") + type_name(source_) + "' object is not iterable");
}

std::optional<std::int64_t> Cursor::source_size() const {
  if (source_.is(Kind::kIterator)) return std::nullopt;
  return interpreter_.length(source_);
}

bool Cursor::next(Value& value) {
  interpreter_.charge(1);
  switch (source_.kind()) {
    case Kind::kString: {
      const StringObject& text = string_object(source_);
      if (at_ >= text.text.size()) return false;
      const std::size_t begin = at_;
      next_code_point(text.text, at_);
      value = interpreter_.text(text.text.substr(begin, at_ - begin), text.markup);
      return true;
    }
    case Kind::kList:
    case Kind::kTuple:
      if (at_ >= source_.items().size()) return false;
      value = source_.items()[at_++];
      return true;
    case Kind::kDict:
      if (at_ >= source_.dict().entries.size()) return false;
      value = source_.dict().entries[at_++].first;
      return true;
    case Kind::kDictView: {
      const auto& view = source_.as<DictViewObject>();
      if (at_ >= view.owner.dict().entries.size()) return false;
      const auto& [key, item] = view.owner.dict().entries[at_++];
      switch (view.part) {
        case DictViewObject::Part::kKeys:
          value = key;
          break;
        case DictViewObject::Part::kValues:
          value = item;
          break;
        case DictViewObject::Part::kItems:
          value = interpreter_.tuple({key, item});
          break;
      }
      return true;
    }
    case Kind::kRange: {
      const auto& range = source_.as<RangeObject>();
      if (static_cast<std::int64_t>(at_) >= range.size()) return false;
      value = Value::integer(range.start + static_cast<std::int64_t>(at_++) * range.step);
      return true;
    }
    case Kind::kIterator:
      return source_.as<IteratorObject>().next(value);
    default:
      return false;
  }
}

Values Interpreter::collect(const Value& iterable) {
  Cursor cursor(*this, iterable);
  Values items;
  Value item;
  while (cursor.next(item)) items.push_back(std::move(item));
  return items;
}

std::int64_t Interpreter::length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return string_object(value).length;
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<std::int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<std::int64_t>(value.dict().entries.size());
    case Kind::kDictView:
      return static_cast<std::int64_t>(value.as<DictViewObject>().owner.dict().entries.size());
    case Kind::kRange:
      return value.as<RangeObject>().size();
    case Kind::kLoop:
      return value.as<LoopObject>().length(*this);
    default:
      throw RenderError(std::string("object of type '") + type_name(value) + "' has no len()");
  }
}

bool Interpreter::contains(const Value& container, const Value& value) {
  switch (container.kind()) {
    case Kind::kString:
      if (!value.is(Kind::kString)) {
        throw RenderError(std::string("'in <string>' requires string as left operand, not ") +
                          type_name(value));
      }
      charge_walk(container);
      return container.text().find(value.text()) != std::string::npos;
    case Kind::kDict:
      charge_walk(value);
      return container.dict().find(value) != nullptr;
    case Kind::kDictView:
      if (container.as<DictViewObject>().part == DictViewObject::Part::kKeys) {
        charge_walk(value);
        return container.as<DictViewObject>().owner.dict().find(value) != nullptr;
      }
      break;
    default:
      break;
  }
  if (!Cursor::iterable(container)) {
    throw RenderError(std::string("argument of type '") + type_name(container) +
                      "' is not iterable");
  }
  Cursor cursor(*this, container);
  Value item;
  while (cursor.next(item)) {
    charge(static_cast<std::size_t>(std::min(item.weight(), value.weight())));
    if (equal(item, value)) return true;
  }
  return false;
}

// ---- lookups

Value Interpreter::attribute(const Value& object, const std::string& name) {
  return attribute(object, name, find_method(name));
}

// object.name: Python's attribute first, then the item of that name.
Value Interpreter::attribute(const Value& object, const std::string& name, Method method) {
  if (object.is(Kind::kUndefined)) throw_undefined(object);
  if (Value found = object_attribute(object, name, method); !found.is(Kind::kMissing)) return found;
  if (object.is(Kind::kDict)) {
    if (const Value* found = object.dict().find(std::string_view(name))) return *found;
  }
  return undefined_attribute(object, name);
}

// object[index]: the item first, then Python's attribute of that name.
Value Interpreter::item(const Value& object, const Value& index) {
  if (object.is(Kind::kUndefined)) throw_undefined(object);
  if (std::optional<Value> found = element(object, index)) return *std::move(found);
  if (index.is(Kind::kString)) {
    const std::string& name = index.text();
    if (Value found = object_attribute(object, name, find_method(name)); !found.is(Kind::kMissing))
      return found;
  }
  return undefined_lookup(object, index);
}

std::optional<Value> Interpreter::element(const Value& object, const Value& index) {
  if (object.is(Kind::kDict)) {
    charge_walk(index);
    if (!hashable(index)) return std::nullopt;
    const Value* found = object.dict().find(index);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!index.is(Kind::kInt) && !index.is(Kind::kBool)) return std::nullopt;
  const bool indexed = object.is(Kind::kString) || object.is(Kind::kList) ||
                       object.is(Kind::kTuple) || object.is(Kind::kRange);
  if (!indexed) return std::nullopt;
  const std::int64_t size = length(object);
  const std::int64_t given = index.int_value();
  if (given < -size || given >= size) return std::nullopt;
  const std::int64_t at = given < 0 ? given + size : given;
  if (object.is(Kind::kRange)) {
    const auto& range = object.as<RangeObject>();
    return Value::integer(range.start + at * range.step);
  }
  if (!object.is(Kind::kString)) return object.items()[static_cast<std::size_t>(at)];
  const StringObject& source = string_object(object);
  if (!source.ascii()) charge(source.text.size() / kBytesPerWeight);
  std::size_t begin = source.ascii() ? static_cast<std::size_t>(at) : byte_offset(source.text, at);
  std::size_t end = begin;
  next_code_point(source.text, end);
  return text(source.text.substr(begin, end - begin), source.markup);
}

// Python's getattr; kMissing where there is no such attribute.
Value Interpreter::object_attribute(const Value& object, const std::string& name,
                                    Method its_method) {
  const auto unsafe = [&] {
    return undefined_hint("access to attribute " + quote_text(name) + " of '" + type_name(object) +
                          "' object is unsafe.");
  };
  if (object.is(Kind::kNamespace)) {
    const Value* found = object.as<NamespaceObject>().attributes.find(std::string_view(name));
    return found == nullptr ? Value() : *found;
  }
  if (name.size() > 4 && name.compare(0, 2, "__") == 0 &&
      name.compare(name.size() - 2, 2, "__") == 0) {
    return unsafe();
  }
  switch (object.kind()) {
    case Kind::kLoop:
      return loop_attribute(object, name);
    case Kind::kRange: {
      const auto& range = object.as<RangeObject>();
      if (name == "start") return Value::integer(range.start);
      if (name == "stop") return Value::integer(range.stop);
      if (name == "step") return Value::integer(range.step);
      break;
    }
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
      if (name == "real" || name == "numerator") return Value::big_integer(integer_of(object));
      if (name == "imag") return Value::integer(0);
      if (name == "denominator") return Value::integer(1);
      break;
    case Kind::kFloat:
      if (name == "real") return object;
      if (name == "imag") return Value::real(0);
      break;
    case Kind::kCycler: {
      const auto& cycler = object.as<CyclerObject>();
      if (name == "current") return cycler.items[cycler.position];
      if (name == "pos") return Value::integer(static_cast<std::int64_t>(cycler.position));
      break;
    }
    case Kind::kTuple:
      if (object.sequence().group && name == "grouper") return object.items()[0];
      if (object.sequence().group && name == "list") return object.items()[1];
      break;
    case Kind::kMacro:
      if (name == "name") return text(object.as<MacroObject>().body->name);
      break;
    default:
      break;
  }
  if (!has_method(object, its_method)) return {};
  return changes_owner(object, its_method) ? unsafe() : method(object, its_method);
}

Value Interpreter::loop_attribute(const Value& value, const std::string& name) {
  auto& loop = value.as<LoopObject>();
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(!loop.peek());
  if (name == "length") return Value::integer(loop.length(*this));
  if (name == "revindex") return Value::integer(loop.length(*this) - loop.index0);
  if (name == "revindex0") return Value::integer(loop.length(*this) - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem")
    return loop.index0 == 0 ? undefined_hint("there is no previous item") : loop.before;
  if (name == "nextitem") {
    return loop.peek() ? loop.buffered[loop.buffered_at] : undefined_hint("there is no next item");
  }
  const Method its_method = find_method(name);
  return has_method(value, its_method) ? method(value, its_method) : Value();
}

// ---- calls

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  charge(1);
  switch (callee.kind()) {
    case Kind::kUndefined:
      throw_undefined(callee);
    case Kind::kMacro:
      return call_macro(callee.as<MacroObject>(), arguments);
    case Kind::kFunction:
      return callee.as<FunctionObject>().body(*this, arguments);
    case Kind::kMethod:
      return call_method(*this, callee.as<MethodObject>(), arguments);
    case Kind::kLoop:
      return call_loop(callee.as<LoopObject>(), arguments);
    case Kind::kJoiner: {
      auto& joiner = callee.as<JoinerObject>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return text("");
    }
    default:
      throw RenderError(std::string("'") + type_name(callee) + "' object is not callable");
  }
}

}  // namespace headrace::jinja
