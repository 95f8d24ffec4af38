// Binding of arguments to the parameters of built-in functions, as Python binds them.
#pragma once

#include <initializer_list>
#include <string_view>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// The arguments of one call of `function`, which takes `names` by position or by name.
class Bound {
 public:
  /// Throws RenderError for an argument too many, an unknown name or a name given twice.
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> names);

  bool has(std::size_t index) const { return !values_[index].is(Kind::kMissing); }
  bool given(std::size_t index) const { return has(index) && !values_[index].is(Kind::kNone); }
  /// Throws RenderError where it is missing.
  const Value& required(std::size_t index) const;
  Value value(std::size_t index, const Value& otherwise) const;
  bool flag(std::size_t index, bool otherwise) const;  // by truth
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  std::int64_t integer(std::size_t index) const;
  const std::string& string(std::size_t index) const;  // must be a str
  std::string_view string(std::size_t index, std::string_view otherwise) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  Values values_;
};

/// An int argument (bools count); RenderError naming the type otherwise.
std::int64_t integer_argument(const Value& value);

}  // namespace headrace::jinja
