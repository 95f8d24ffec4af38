// The attribute argument of filters: "name", "a.b.0", or an index.
#pragma once

#include "model/chat/interpreter.h"

namespace headrace::jinja {

class AttributePath {
 public:
  /// None: the item itself.
  AttributePath(Interpreter& interpreter, const Value& attribute);
  /// A missing part becomes `otherwise`, unless that is None or missing.
  Value get(Value item, const Value& otherwise = Value()) const;

 private:
  Interpreter& interpreter_;
  Values parts_;
};

/// Strings in lower case, everything else as it is: the keys of filters that ignore case.
Value ignoring_case(Interpreter& interpreter, Value value);

}  // namespace headrace::jinja
