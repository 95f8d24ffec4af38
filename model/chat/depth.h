// Guards of the interpreter's own stack.
#pragma once

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// Statements and expressions inside each other while running. A level takes well under 1 KiB of
/// stack, so the deepest template stays below 3 MiB.
class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : depth_(interpreter.depth_) {
    constexpr int kMaxDepth = 2500;
    if (++depth_ > kMaxDepth) {
      --depth_;
      throw RenderError("maximum recursion depth exceeded");
    }
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

/// Macros and recursive loops inside each other. Python's own limit lets jinja2 come to about 190.
class Interpreter::Call {
 public:
  explicit Call(Interpreter& interpreter) : calls_(interpreter.calls_) {
    constexpr int kMaxCalls = 200;
    if (++calls_ > kMaxCalls) {
      --calls_;
      throw RenderError("maximum recursion depth exceeded");
    }
  }
  ~Call() { --calls_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  int& calls_;
};

}  // namespace headrace::jinja
