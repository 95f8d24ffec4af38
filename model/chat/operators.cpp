// The arithmetic operators, with Python's rules.
#include <algorithm>
#include <cmath>
#include <limits>

#include "model/chat/arguments.h"
#include "model/chat/interpreter.h"
#include "model/chat/python_format.h"

namespace headrace::jinja {
namespace {

const char* operator_text(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      return "** or pow()";
  }
  return "";
}

[[noreturn]] void throw_unsupported(BinaryOperator op, const Value& left, const Value& right) {
  throw RenderError(std::string("unsupported operand type(s) for ") + operator_text(op) + ": '" +
                    type_name(left) + "' and '" + type_name(right) + "'");
}

// Python rounds quotients down and gives the remainder the divisor's sign.
double floor_modulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) remainder += b;
  } else {
    remainder = std::copysign(0.0, b);
  }
  return remainder;
}

double floor_divide(double a, double b) {
  const double quotient = (a - floor_modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Int128 floor_divide(Int128 a, Int128 b) {
  const Int128 quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_power(Int128 base, Int128 exponent) {
  Int128 result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      throw RenderError("an integer has more than 126 bits");
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      throw RenderError("an integer has more than 126 bits");
    }
  }
  return Value::big_integer(result);
}

Value power(const Value& left, const Value& right) {
  if (!left.is(Kind::kFloat) && !right.is(Kind::kFloat) && integer_of(right) >= 0) {
    return integer_power(integer_of(left), integer_of(right));
  }
  const double base = number_of(left);
  const double exponent = number_of(right);
  if (base == 0 && exponent < 0) throw RenderError("0.0 cannot be raised to a negative power");
  if (base < 0 && std::floor(exponent) != exponent) {
    throw RenderError("a power of a negative number is complex, which is not supported");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && !std::isinf(base) && !std::isinf(exponent)) {
    throw RenderError("(34, 'Numerical result out of range')");
  }
  return Value::real(result);
}

Value float_arithmetic(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::real(a + b);
    case BinaryOperator::kSubtract:
      return Value::real(a - b);
    case BinaryOperator::kMultiply:
      return Value::real(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) throw RenderError("float division by zero");
      return Value::real(a / b);
    case BinaryOperator::kFloorDivide:
      if (b == 0) throw RenderError("float floor division by zero");
      return Value::real(floor_divide(a, b));
    default:
      if (b == 0) throw RenderError("float modulo");
      return Value::real(floor_modulo(a, b));
  }
}

Value integer_arithmetic(BinaryOperator op, Int128 a, Int128 b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::big_integer(a + b);
    case BinaryOperator::kSubtract:
      return Value::big_integer(a - b);
    case BinaryOperator::kMultiply: {
      Int128 product = 0;
      if (__builtin_mul_overflow(a, b, &product))
        throw RenderError("an integer has more than 126 bits");
      return Value::big_integer(product);
    }
    case BinaryOperator::kDivide:
      if (b == 0) throw RenderError("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      if (b == 0) throw RenderError("integer division or modulo by zero");
      return Value::big_integer(floor_divide(a, b));
    default:
      if (b == 0) throw RenderError("integer modulo by zero");
      return Value::big_integer(a - floor_divide(a, b) * b);
  }
}

}  // namespace

Value Interpreter::arithmetic(BinaryOperator op, const Value& left, const Value& right) {
  if (op == BinaryOperator::kPower) return power(left, right);
  if (left.is(Kind::kFloat) || right.is(Kind::kFloat)) {
    return float_arithmetic(op, number_of(left), number_of(right));
  }
  return integer_arithmetic(op, integer_of(left), integer_of(right));
}

Value Interpreter::add(const Value& left, const Value& right) {
  if (left.is(Kind::kString) && right.is(Kind::kString)) {
    // Markup escapes what is joined to it.
    const bool markup = left.markup() || right.markup();
    check_text(left.text().size() + right.text().size());
    if (!markup) return text(left.text() + right.text());
    return text(escape_value(left) + escape_value(right), true);
  }
  if (left.kind() == right.kind() && (left.is(Kind::kList) || left.is(Kind::kTuple))) {
    Values items = left.items();
    items.insert(items.end(), right.items().begin(), right.items().end());
    return sequence(left.kind(), std::move(items));
  }
  if (left.is(Kind::kString) || left.is(Kind::kList) || left.is(Kind::kTuple)) {
    throw RenderError(std::string("can only concatenate ") + type_name(left) + " (not \"" +
                      type_name(right) + "\") to " + type_name(left));
  }
  throw_unsupported(BinaryOperator::kAdd, left, right);
}

Value Interpreter::repeat(const Value& source, const Value& count) {
  const std::int64_t times = std::max<std::int64_t>(integer_argument(count), 0);
  const bool is_text = source.is(Kind::kString);
  const std::size_t size = is_text ? source.text().size() : source.items().size();
  std::size_t total = 0;
  if (__builtin_mul_overflow(size, static_cast<std::size_t>(times), &total)) {
    total = std::numeric_limits<std::size_t>::max();
  }
  if (!is_text) {
    charge(total);
    Values items;
    items.reserve(total);
    for (std::int64_t i = 0; total > 0 && i < times; ++i) {
      items.insert(items.end(), source.items().begin(), source.items().end());
    }
    return sequence(source.kind(), std::move(items));
  }
  check_text(total);
  std::string out;
  out.reserve(total);
  for (std::int64_t i = 0; total > 0 && i < times; ++i) out += source.text();
  return text(std::move(out), source.markup());
}

Value Interpreter::multiply(const Value& left, const Value& right) {
  const auto repeatable = [](const Value& value) {
    return value.is(Kind::kString) || value.is(Kind::kList) || value.is(Kind::kTuple);
  };
  const Value& source = repeatable(left) ? left : right;
  const Value& count = repeatable(left) ? right : left;
  if (!repeatable(source)) throw_unsupported(BinaryOperator::kMultiply, left, right);
  if (!count.is_integer()) {
    throw RenderError(std::string("can't multiply sequence by non-int of type '") +
                      type_name(count) + "'");
  }
  return repeat(source, count);
}

Value Interpreter::binary(BinaryOperator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return arithmetic(op, left, right);
  if (left.is(Kind::kUndefined)) throw_undefined(left);
  if (op == BinaryOperator::kModulo && left.is(Kind::kString)) {
    return text(percent_format(*this, {left.text(), left.markup()}, right), left.markup());
  }
  if (right.is(Kind::kUndefined)) throw_undefined(right);
  if (op == BinaryOperator::kAdd) return add(left, right);
  if (op == BinaryOperator::kMultiply) return multiply(left, right);
  throw_unsupported(op, left, right);
}

}  // namespace headrace::jinja
