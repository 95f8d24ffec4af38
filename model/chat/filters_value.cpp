// Filters on single values: numbers, defaults, attributes.
#include <array>
#include <cmath>
#include <cstdio>

#include "model/chat/arguments.h"
#include "model/chat/filter_tables.h"
#include "model/chat/methods.h"
#include "model/chat/numbers.h"
#include "model/chat/python_text.h"

namespace headrace::jinja {
namespace {

Value filter_abs(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  if (!value.is_number())
    throw RenderError(std::string("bad operand type for abs(): '") + type_name(value) + "'");
  if (value.is(Kind::kFloat)) return Value::real(std::fabs(value.float_value()));
  const Int128 number = integer_of(value);
  return Value::big_integer(number < 0 ? -number : number);
}

Value filter_default(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool absent = value.is(Kind::kUndefined) || (bound.flag(1, false) && !truthy(value));
  if (!absent) return value;
  return bound.has(0) ? bound.required(0) : interpreter.text("");
}

Value filter_int(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  Value otherwise = bound.value(0, Value::integer(0));
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  if (value.is_integer()) return Value::big_integer(integer_of(value));
  std::optional<double> real;
  if (value.is(Kind::kFloat)) {
    if (std::isinf(value.float_value()))
      throw RenderError("cannot convert float infinity to integer");
    real = value.float_value();
  } else if (value.is(Kind::kString)) {
    // A base that is no integer is the TypeError that jinja2 takes for text that is no integer.
    const Value base = bound.value(1, Value::integer(10));
    if (base.is(Kind::kInt) || base.is(Kind::kBool)) {
      const auto whole = parse_integer(value.text(), base.int_value());
      if (whole) return Value::big_integer(*whole);
    }
    real = parse_float(value.text());
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  return truncate_to_integer(*real);
}

Value filter_float(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  if (value.is_number()) return Value::real(number_of(value));
  if (value.is(Kind::kString)) {
    if (const auto real = parse_float(value.text())) return Value::real(*real);
  }
  return bound.value(0, Value::real(0));
}

Value filter_round(Interpreter& /*interpreter*/, const Value& value, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::string_view method = bound.string(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    throw RenderError("method must be common, ceil or floor");
  }
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  if (!value.is_number()) {
    throw RenderError(std::string("type ") + type_name(value) + " doesn't define __round__ method");
  }
  const std::int64_t precision = bound.integer(0, 0);
  if (method == "common") return round_number(value, precision);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = number_of(value) * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value filter_attr(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"});
  const std::string& name = bound.string(0);
  // A dict's items are no attributes; everything else has no items that a name finds.
  if (value.is(Kind::kDict) && !has_method(value, find_method(name)))
    return undefined_attribute(value, name);
  return interpreter.attribute(value, name);
}

Value filter_filesizeformat(Interpreter& interpreter, const Value& value,
                            const Arguments& arguments) {
  const Bound bound("filesizeformat", arguments, {"binary"});
  const bool binary = bound.flag(0, false);
  std::optional<double> bytes;
  if (value.is_number()) bytes = number_of(value);
  if (value.is(Kind::kString)) bytes = parse_float(value.text());
  if (!bytes || !std::isfinite(*bytes)) throw RenderError("filesizeformat needs a finite number");
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return interpreter.text("1 Byte");
  if (*bytes < base) return interpreter.text(to_text(truncate_to_integer(*bytes)) + " Bytes");
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (std::size_t i = 0;; ++i) {
    unit *= base;
    if (*bytes >= unit && i + 1 < kPrefixes.size()) continue;
    char number[400];
    std::snprintf(number, sizeof number, "%.1f", base * *bytes / unit);
    const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
    return interpreter.text(std::string(number) + " " + prefix + (binary ? "iB" : "B"));
  }
}

constexpr std::array<NamedFilter, 8> kFilters{{
    {"abs", filter_abs},
    {"d", filter_default},
    {"default", filter_default},
    {"int", filter_int},
    {"float", filter_float},
    {"round", filter_round},
    {"attr", filter_attr},
    {"filesizeformat", filter_filesizeformat},
}};

}  // namespace

std::span<const NamedFilter> value_filters() {
  return kFilters;
}

}  // namespace headrace::jinja
