#include "model/chat/arguments.h"

#include <algorithm>

namespace headrace::jinja {

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size()) {
  if (arguments.positional.size() > names_.size()) {
    throw RenderError(std::string(function_) + "() takes at most " + std::to_string(names_.size()) +
                      " arguments (" + std::to_string(arguments.positional.size()) + " given)");
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [name, value] : arguments.keyword) {
    const auto at = std::find(names_.begin(), names_.end(), name.text());
    if (at == names_.end()) {
      throw RenderError(std::string(function_) + "() got an unexpected keyword argument '" +
                        name.text() + "'");
    }
    Value& bound = values_[static_cast<std::size_t>(at - names_.begin())];
    if (!bound.is(Kind::kMissing)) {
      throw RenderError(std::string(function_) + "() got multiple values for argument '" +
                        name.text() + "'");
    }
    bound = value;
  }
}

const Value& Bound::required(std::size_t index) const {
  if (!has(index)) {
    throw RenderError(std::string(function_) + "() missing 1 required positional argument: '" +
                      std::string(names_[index]) + "'");
  }
  return values_[index];
}

Value Bound::value(std::size_t index, const Value& otherwise) const {
  return has(index) ? values_[index] : otherwise;
}

bool Bound::flag(std::size_t index, bool otherwise) const {
  return has(index) ? truthy(values_[index]) : otherwise;
}

std::int64_t Bound::integer(std::size_t index, std::int64_t otherwise) const {
  return has(index) ? integer_argument(values_[index]) : otherwise;
}

std::int64_t Bound::integer(std::size_t index) const {
  return integer_argument(required(index));
}

const std::string& Bound::string(std::size_t index) const {
  const Value& value = required(index);
  if (value.is(Kind::kString)) return value.text();
  throw RenderError(std::string(function_) + "() argument '" + std::string(names_[index]) +
                    "' must be str, not " + type_name(value));
}

std::string_view Bound::string(std::size_t index, std::string_view otherwise) const {
  return has(index) ? std::string_view(string(index)) : otherwise;
}

std::int64_t integer_argument(const Value& value) {
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  if (value.is(Kind::kInt) || value.is(Kind::kBool)) return value.int_value();
  if (value.is(Kind::kBigInt)) throw RenderError("Python int too large to convert to C ssize_t");
  throw RenderError(std::string("'") + type_name(value) +
                    "' object cannot be interpreted as an integer");
}

}  // namespace headrace::jinja
