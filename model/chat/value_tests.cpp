#include "model/chat/value_tests.h"

#include <array>

#include "model/chat/arguments.h"
#include "model/chat/filters.h"
#include "model/chat/method_names.h"
#include "model/chat/methods.h"
#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

using Predicate = bool (*)(const Value&);

// A test of the operand alone.
template <Predicate predicate>
bool plain(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  return predicate(value);
}

bool is_defined(const Value& value) {
  return !value.is(Kind::kUndefined);
}
bool is_undefined(const Value& value) {
  return value.is(Kind::kUndefined);
}
bool is_none(const Value& value) {
  return value.is(Kind::kNone);
}
bool is_boolean(const Value& value) {
  return value.is(Kind::kBool);
}
bool is_true(const Value& value) {
  return value.is(Kind::kBool) && value.bool_value();
}
bool is_false(const Value& value) {
  return value.is(Kind::kBool) && !value.bool_value();
}
bool is_whole(const Value& value) {
  return value.is(Kind::kInt) || value.is(Kind::kBigInt);
}
bool is_float(const Value& value) {
  return value.is(Kind::kFloat);
}
bool is_any_number(const Value& value) {
  return value.is_number();
}
bool is_string(const Value& value) {
  return value.is(Kind::kString);
}
bool is_mapping(const Value& value) {
  return value.is(Kind::kDict);
}
bool is_escaped(const Value& value) {
  return value.markup();
}

// Has a length and items by index.
bool is_sequence(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      return true;
    default:
      return false;
  }
}

bool is_iterable(const Value& value) {
  return Cursor::iterable(value) || value.is(Kind::kLoop);
}

bool is_callable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kJoiner:
      return true;
    default:
      return false;
  }
}

bool test_remainder(Interpreter& interpreter, const Value& value, const Value& divisor,
                    std::int64_t wanted) {
  return equal(interpreter.binary(BinaryOperator::kModulo, value, divisor), Value::integer(wanted));
}

bool test_odd(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("odd", arguments, {});
  return test_remainder(interpreter, value, Value::integer(2), 1);
}

bool test_even(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("even", arguments, {});
  return test_remainder(interpreter, value, Value::integer(2), 0);
}

bool test_divisibleby(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"});
  return test_remainder(interpreter, value, bound.required(0), 0);
}

// lower and upper look at str(value).
template <Method method>
bool test_case(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  interpreter.charge_walk(value);
  const Value text = interpreter.text(to_text(value));
  return truthy(interpreter.call(interpreter.method(text, method), {}));
}

bool test_sameas(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"});
  return same(value, bound.required(0));
}

bool test_in(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("in", arguments, {"seq"});
  return interpreter.contains(bound.required(0), value);
}

bool test_filter(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("filter", arguments, {});
  return value.is(Kind::kString) && find_filter(value.text()) != nullptr;
}

bool test_test(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  return value.is(Kind::kString) && find_test(value.text()) != nullptr;
}

template <bool wanted>
bool test_equal(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("eq", arguments, {"b"});
  interpreter.charge_walk(value);
  return equal(value, bound.required(0)) == wanted;
}

template <Order order>
bool test_order(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("comparison", arguments, {"b"});
  interpreter.charge_walk(value);
  return ordered(value, bound.required(0), order);
}

constexpr std::array<std::pair<std::string_view, Test>, 39> kTests{{
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<is_whole>},
    {"float", plain<is_float>},
    {"number", plain<is_any_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisibleby},
    {"lower", test_case<Method::kIsLower>},
    {"upper", test_case<Method::kIsUpper>},
    {"sameas", test_sameas},
    {"in", test_in},
    {"filter", test_filter},
    {"test", test_test},
    {"==", test_equal<true>},
    {"eq", test_equal<true>},
    {"equalto", test_equal<true>},
    {"!=", test_equal<false>},
    {"ne", test_equal<false>},
    {">", test_order<Order::kGreater>},
    {"gt", test_order<Order::kGreater>},
    {"greaterthan", test_order<Order::kGreater>},
    {">=", test_order<Order::kGreaterEqual>},
    {"ge", test_order<Order::kGreaterEqual>},
    {"<", test_order<Order::kLess>},
    {"lt", test_order<Order::kLess>},
    {"lessthan", test_order<Order::kLess>},
    {"<=", test_order<Order::kLessEqual>},
    {"le", test_order<Order::kLessEqual>},
}};

}  // namespace

Test find_test(std::string_view name) {
  for (const auto& [known, test] : kTests) {
    if (known == name) return test;
  }
  return nullptr;
}

}  // namespace headrace::jinja
