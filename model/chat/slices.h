// object[start:stop:step].
#pragma once

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// Each an integer or None.
struct SliceBounds {
  Value start;
  Value stop;
  Value step;
};

/// Of a str, list, tuple or range. Throws RenderError.
Value take_slice(Interpreter& interpreter, const Value& object, const SliceBounds& bounds);

}  // namespace headrace::jinja
