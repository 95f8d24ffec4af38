#include "model/chat/lazy.h"

#include <algorithm>

namespace headrace::jinja {
namespace {

struct LazyItems : IteratorObject {
  LazyItems(NextItem its_next, const char* its_type) : step(std::move(its_next)), type(its_type) {}
  bool next(Value& value) override {
    if (finished) return false;
    finished = !step(value);
    return !finished;
  }
  const char* type_name() const override { return type; }

  NextItem step;
  const char* type;
  bool finished = false;
};

}  // namespace

Value make_lazy(Interpreter& interpreter, NextItem next, const Values& holds,
                const char* type_name) {
  auto* made = new LazyItems(std::move(next), type_name);
  Value value = interpreter.iterator(made, Value::none());
  for (const Value& held : holds) contain(*made, held);
  return value;
}

Value make_lazy(Interpreter& interpreter, NextItem next, const Values& holds) {
  return make_lazy(interpreter, std::move(next), holds, "generator");
}

Value make_reversed(Interpreter& interpreter, const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple: {
      auto at = static_cast<std::size_t>(interpreter.length(value));
      const auto next = [value, at](Value& item) mutable {
        if (at == 0) return false;
        item = value.items()[--at];
        return true;
      };
      return make_lazy(interpreter, next, {value},
                       value.is(Kind::kList) ? "list_reverseiterator" : "reversed");
    }
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange: {
      Values items = interpreter.collect(value);
      const auto next = [items = std::move(items)](Value& item) mutable {
        if (items.empty()) return false;
        item = std::move(items.back());
        items.pop_back();
        return true;
      };
      return make_lazy(interpreter, next, {value}, "reversed");
    }
    default:
      return {};
  }
}

}  // namespace headrace::jinja
