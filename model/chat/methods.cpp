#include "model/chat/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/chat/arguments.h"
#include "model/chat/python_text.h"
#include "model/chat/text_methods.h"

namespace headrace::jinja {
namespace {

// Which types have a method, as bits.
enum Owner : unsigned {
  kStr = 1,
  kMarkup = 2,
  kDictionary = 4,
  kListType = 8,
  kTupleType = 16,
  kView = 32,
  kRangeType = 64,
  kIntType = 128,
  kFloatType = 256,
  kGenerator = 512,
  kLoopType = 1024,
  kCyclerType = 2048,
};

struct MethodEntry {
  Method method;
  std::string_view name;
  unsigned owners;
};

constexpr unsigned kText = kStr | kMarkup;
constexpr unsigned kNumber = kIntType | kFloatType;
constexpr unsigned kSequenceType = kListType | kTupleType | kRangeType;

constexpr std::array<MethodEntry, 84> kMethods{{
    {Method::kCapitalize, "capitalize", kText},
    {Method::kCasefold, "casefold", kText},
    {Method::kCenter, "center", kText},
    {Method::kCount, "count", kText | kSequenceType},
    {Method::kEncode, "encode", kText},
    {Method::kEndsWith, "endswith", kText},
    {Method::kExpandTabs, "expandtabs", kText},
    {Method::kFind, "find", kText},
    {Method::kFormat, "format", kText},
    {Method::kFormatMap, "format_map", kText},
    {Method::kIndex, "index", kText | kSequenceType},
    {Method::kIsAlnum, "isalnum", kText},
    {Method::kIsAlpha, "isalpha", kText},
    {Method::kIsAscii, "isascii", kText},
    {Method::kIsDecimal, "isdecimal", kText},
    {Method::kIsDigit, "isdigit", kText},
    {Method::kIsIdentifier, "isidentifier", kText},
    {Method::kIsLower, "islower", kText},
    {Method::kIsNumeric, "isnumeric", kText},
    {Method::kIsPrintable, "isprintable", kText},
    {Method::kIsSpace, "isspace", kText},
    {Method::kIsTitle, "istitle", kText},
    {Method::kIsUpper, "isupper", kText},
    {Method::kJoin, "join", kText},
    {Method::kLjust, "ljust", kText},
    {Method::kLower, "lower", kText},
    {Method::kLstrip, "lstrip", kText},
    {Method::kMakeTrans, "maketrans", kText},
    {Method::kPartition, "partition", kText},
    {Method::kRemovePrefix, "removeprefix", kText},
    {Method::kRemoveSuffix, "removesuffix", kText},
    {Method::kReplace, "replace", kText},
    {Method::kRfind, "rfind", kText},
    {Method::kRindex, "rindex", kText},
    {Method::kRjust, "rjust", kText},
    {Method::kRpartition, "rpartition", kText},
    {Method::kRsplit, "rsplit", kText},
    {Method::kRstrip, "rstrip", kText},
    {Method::kSplit, "split", kText},
    {Method::kSplitLines, "splitlines", kText},
    {Method::kStartsWith, "startswith", kText},
    {Method::kStrip, "strip", kText},
    {Method::kSwapCase, "swapcase", kText},
    {Method::kTitle, "title", kText},
    {Method::kTranslate, "translate", kText},
    {Method::kUpper, "upper", kText},
    {Method::kZfill, "zfill", kText},
    {Method::kEscape, "escape", kMarkup},
    {Method::kStripTags, "striptags", kMarkup},
    {Method::kUnescape, "unescape", kMarkup},
    {Method::kClear, "clear", kDictionary | kListType},
    {Method::kCopy, "copy", kDictionary | kListType},
    {Method::kFromKeys, "fromkeys", kDictionary},
    {Method::kGet, "get", kDictionary},
    {Method::kItems, "items", kDictionary},
    {Method::kKeys, "keys", kDictionary},
    {Method::kPop, "pop", kDictionary | kListType},
    {Method::kPopItem, "popitem", kDictionary},
    {Method::kSetDefault, "setdefault", kDictionary},
    {Method::kUpdate, "update", kDictionary},
    {Method::kValues, "values", kDictionary},
    {Method::kAppend, "append", kListType},
    {Method::kExtend, "extend", kListType},
    {Method::kInsert, "insert", kListType},
    {Method::kRemove, "remove", kListType},
    {Method::kReverse, "reverse", kListType},
    {Method::kSort, "sort", kListType},
    {Method::kIsDisjoint, "isdisjoint", kView},
    {Method::kAsIntegerRatio, "as_integer_ratio", kNumber},
    {Method::kBitCount, "bit_count", kIntType},
    {Method::kBitLength, "bit_length", kIntType},
    {Method::kConjugate, "conjugate", kNumber},
    {Method::kFromBytes, "from_bytes", kIntType},
    {Method::kFromHex, "fromhex", kFloatType},
    {Method::kHex, "hex", kFloatType},
    {Method::kIsInteger, "is_integer", kFloatType},
    {Method::kToBytes, "to_bytes", kIntType},
    {Method::kClose, "close", kGenerator},
    {Method::kSend, "send", kGenerator},
    {Method::kThrow, "throw", kGenerator},
    {Method::kCycle, "cycle", kLoopType},
    {Method::kChanged, "changed", kLoopType},
    {Method::kNext, "next", kCyclerType},
    {Method::kReset, "reset", kCyclerType},
}};

const MethodEntry* find_entry(Method method) {
  // The table has the order of the enumeration, which begins with kNone.
  const auto index = static_cast<std::size_t>(method);
  return index == 0 ? nullptr : &kMethods[index - 1];
}

constexpr bool in_order() {
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    if (static_cast<std::size_t>(kMethods[i].method) != i + 1) return false;
  }
  return true;
}
static_assert(in_order(), "kMethods must follow the order of Method");

unsigned owner_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return value.markup() ? kMarkup : kStr;
    case Kind::kDict:
      return kDictionary;
    case Kind::kList:
      return kListType;
    case Kind::kTuple:
      return kTupleType;
    case Kind::kDictView:
      return kView;
    case Kind::kRange:
      return kRangeType;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
      return kIntType;
    case Kind::kFloat:
      return kFloatType;
    case Kind::kIterator:
      return kGenerator;
    case Kind::kLoop:
      return kLoopType;
    case Kind::kCycler:
      return kCyclerType;
    default:
      return 0;
  }
}

[[noreturn]] void throw_unsupported(const MethodObject& method) {
  throw RenderError(std::string("the method ") + type_name(method.self) + "." +
                    std::string(method_name(method.method)) +
                    " is not supported in chat templates");
}

Value call_dict(Interpreter& interpreter, const MethodObject& method, const Arguments& arguments) {
  const Value& self = method.self;
  const auto view = [&](const char* name, DictViewObject::Part part) {
    const Bound bound(name, arguments, {});
    return interpreter.view(self, part);
  };
  switch (method.method) {
    case Method::kGet: {
      const Bound bound("get", arguments, {"key", "default"});
      interpreter.charge_walk(bound.required(0));
      const Value* found = self.dict().find(bound.required(0));
      return found != nullptr ? *found : bound.value(1, Value::none());
    }
    case Method::kItems:
      return view("items", DictViewObject::Part::kItems);
    case Method::kKeys:
      return view("keys", DictViewObject::Part::kKeys);
    case Method::kValues:
      return view("values", DictViewObject::Part::kValues);
    case Method::kCopy: {
      const Bound bound("copy", arguments, {});
      return interpreter.dict(self.dict().entries);
    }
    default:
      throw_unsupported(method);
  }
}

Value call_sequence(Interpreter& interpreter, const MethodObject& method,
                    const Arguments& arguments) {
  const Value& self = method.self;
  if (method.method == Method::kCopy) {
    const Bound bound("copy", arguments, {});
    return interpreter.list(self.items());
  }
  const Bound bound(method_name(method.method), arguments, {"value", "start", "stop"});
  const Value& wanted = bound.required(0);
  const std::int64_t size = interpreter.length(self);
  const auto place = [&](std::size_t index, std::int64_t otherwise) {
    const std::int64_t at = bound.integer(index, otherwise);
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t begin = place(1, 0);
  const std::int64_t end = place(2, size);
  std::int64_t count = 0;
  Cursor cursor(interpreter, self);
  Value item;
  for (std::int64_t i = 0; i < end && cursor.next(item); ++i) {
    interpreter.charge(static_cast<std::size_t>(std::min(item.weight(), wanted.weight())));
    if (i < begin || !equal(item, wanted)) continue;
    if (method.method == Method::kIndex) return Value::integer(i);
    ++count;
  }
  if (method.method == Method::kCount) return Value::integer(count);
  interpreter.charge_walk(wanted);
  throw RenderError(to_repr(wanted) + " is not in " + type_name(self));
}

Value call_number(const MethodObject& method, const Arguments& arguments) {
  const Bound bound(method_name(method.method), arguments, {});
  switch (method.method) {
    case Method::kIsInteger:
      return Value::boolean(std::trunc(method.self.float_value()) == method.self.float_value());
    case Method::kConjugate:
      return method.self;
    case Method::kBitLength: {
      Int128 number = integer_of(method.self);
      std::int64_t bits = 0;
      for (; number != 0; number /= 2) ++bits;
      return Value::integer(bits);
    }
    default:
      throw_unsupported(method);
  }
}

Value call_loop_method(Interpreter& interpreter, const MethodObject& method,
                       const Arguments& arguments) {
  auto& loop = method.self.as<LoopObject>();
  if (!arguments.keyword.empty()) {
    throw RenderError(std::string(method_name(method.method)) + "() takes no keyword arguments");
  }
  if (method.method == Method::kCycle) {
    if (arguments.positional.empty()) throw RenderError("no items for cycling given");
    return arguments
        .positional[static_cast<std::size_t>(loop.index0) % arguments.positional.size()];
  }
  const Value given = interpreter.tuple(arguments.positional);
  interpreter.charge_walk(given);
  if (!loop.last_changed.is(Kind::kMissing) && equal(loop.last_changed, given))
    return Value::boolean(false);
  loop.last_changed = given;
  return Value::boolean(true);
}

Value call_cycler(const MethodObject& method, const Arguments& arguments) {
  const Bound bound(method_name(method.method), arguments, {});
  auto& cycler = method.self.as<CyclerObject>();
  if (method.method == Method::kReset) {
    cycler.position = 0;
    return Value::none();
  }
  Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}

}  // namespace

Method find_method(std::string_view name) {
  for (const MethodEntry& entry : kMethods) {
    if (entry.name == name) return entry.method;
  }
  return Method::kNone;
}

std::string_view method_name(Method method) {
  const MethodEntry* entry = find_entry(method);
  return entry == nullptr ? std::string_view() : entry->name;
}

bool has_method(const Value& value, Method method) {
  const MethodEntry* entry = find_entry(method);
  return entry != nullptr && (entry->owners & owner_of(value)) != 0;
}

bool changes_owner(const Value& value, Method method) {
  switch (method) {
    case Method::kClear:
    case Method::kPop:
    case Method::kPopItem:
    case Method::kSetDefault:
    case Method::kUpdate:
    case Method::kAppend:
    case Method::kExtend:
    case Method::kInsert:
    case Method::kRemove:
    case Method::kReverse:
    case Method::kSort:
      return value.is(Kind::kDict) || value.is(Kind::kList);
    default:
      return false;
  }
}

Value call_method(Interpreter& interpreter, const MethodObject& method,
                  const Arguments& arguments) {
  switch (method.self.kind()) {
    case Kind::kString:
      return call_text_method(interpreter, method, arguments);
    case Kind::kDict:
      return call_dict(interpreter, method, arguments);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return call_sequence(interpreter, method, arguments);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
    case Kind::kFloat:
      return call_number(method, arguments);
    case Kind::kLoop:
      return call_loop_method(interpreter, method, arguments);
    case Kind::kCycler:
      return call_cycler(method, arguments);
    default:
      throw_unsupported(method);
  }
}

}  // namespace headrace::jinja
