// Evaluation of expressions.
#include "model/chat/arguments.h"
#include "model/chat/depth.h"
#include "model/chat/filters.h"
#include "model/chat/interpreter.h"
#include "model/chat/python_text.h"
#include "model/chat/slices.h"
#include "model/chat/value_tests.h"

namespace headrace::jinja {

Value Interpreter::evaluate(const Expr& expr, Frame& frame) {
  const Depth depth(*this);
  charge(1);
  switch (expr.kind) {
    case ExprKind::kConstant:
      return static_cast<const ConstantExpr&>(expr).value();
    case ExprKind::kName:
      return evaluate_name(static_cast<const NameExpr&>(expr), frame);
    case ExprKind::kTuple:
    case ExprKind::kList:
      return evaluate_items(static_cast<const ItemsExpr&>(expr), frame);
    case ExprKind::kDict:
      return evaluate_dict(static_cast<const ItemsExpr&>(expr), frame);
    case ExprKind::kUnary:
      return evaluate_unary(static_cast<const UnaryExpr&>(expr), frame);
    case ExprKind::kBinary: {
      const auto& node = static_cast<const BinaryExpr&>(expr);
      const Value left = evaluate(*node.left, frame);
      const Value right = evaluate(*node.right, frame);
      line_ = node.line;
      return binary(node.op, left, right);
    }
    case ExprKind::kAnd: {
      const auto& node = static_cast<const BinaryExpr&>(expr);
      Value left = evaluate(*node.left, frame);
      return truthy(left) ? evaluate(*node.right, frame) : left;
    }
    case ExprKind::kOr: {
      const auto& node = static_cast<const BinaryExpr&>(expr);
      Value left = evaluate(*node.left, frame);
      return truthy(left) ? left : evaluate(*node.right, frame);
    }
    case ExprKind::kNot:
      return Value::boolean(!truthy(evaluate(*static_cast<const UnaryExpr&>(expr).operand, frame)));
    case ExprKind::kCompare:
      return evaluate_compare(static_cast<const CompareExpr&>(expr), frame);
    case ExprKind::kConcat:
      return evaluate_concat(static_cast<const ItemsExpr&>(expr), frame);
    case ExprKind::kConditional:
      return evaluate_conditional(static_cast<const ConditionalExpr&>(expr), frame);
    case ExprKind::kAttribute: {
      const auto& node = static_cast<const AttributeExpr&>(expr);
      const Value object = evaluate(*node.object, frame);
      line_ = node.line;
      return attribute(object, node.name, node.method);
    }
    case ExprKind::kItem:
      return evaluate_item(static_cast<const ItemExpr&>(expr), frame);
    case ExprKind::kCall:
      return evaluate_call(static_cast<const CallExpr&>(expr), frame, nullptr);
    case ExprKind::kFilter:
      return evaluate_filter(static_cast<const ApplyExpr&>(expr), frame, nullptr);
    case ExprKind::kTest:
      return Value::boolean(evaluate_test(static_cast<const ApplyExpr&>(expr), frame));
    case ExprKind::kSlice:
    case ExprKind::kNamespaceTarget:
      break;  // parts of other nodes
  }
  throw RenderError("an expression that cannot stand alone");
}

Value Interpreter::evaluate_name(const NameExpr& expr, Frame& frame) {
  const Value& value = slot(expr.slot, frame);
  return value.is(Kind::kMissing) ? undefined_variable(expr.name) : value;
}

Value Interpreter::evaluate_items(const ItemsExpr& expr, Frame& frame) {
  Values items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(evaluate(*item, frame));
  return sequence(expr.kind == ExprKind::kTuple ? Kind::kTuple : Kind::kList, std::move(items));
}

Value Interpreter::evaluate_dict(const ItemsExpr& expr, Frame& frame) {
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(expr.items.size() / 2);
  for (std::size_t i = 0; i < expr.items.size(); i += 2) {
    Value key = evaluate(*expr.items[i], frame);
    entries.emplace_back(std::move(key), evaluate(*expr.items[i + 1], frame));
  }
  return dict(entries);
}

Value Interpreter::evaluate_unary(const UnaryExpr& expr, Frame& frame) {
  const Value value = evaluate(*expr.operand, frame);
  line_ = expr.line;
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  const bool negate = expr.op == UnaryOperator::kNegate;
  if (!value.is_number()) {
    throw RenderError(std::string("bad operand type for unary ") + (negate ? "-" : "+") + ": '" +
                      type_name(value) + "'");
  }
  if (value.is(Kind::kFloat))
    return Value::real(negate ? -value.float_value() : value.float_value());
  return Value::big_integer(negate ? -integer_of(value) : integer_of(value));
}

bool Interpreter::compare(Comparison op, const Value& left, const Value& right) {
  charge(static_cast<std::size_t>(std::min(left.weight(), right.weight())));
  switch (op) {
    case Comparison::kEqual:
      return equal(left, right);
    case Comparison::kNotEqual:
      return !equal(left, right);
    case Comparison::kLess:
      return ordered(left, right, Order::kLess);
    case Comparison::kLessEqual:
      return ordered(left, right, Order::kLessEqual);
    case Comparison::kGreater:
      return ordered(left, right, Order::kGreater);
    case Comparison::kGreaterEqual:
      return ordered(left, right, Order::kGreaterEqual);
    case Comparison::kIn:
      return contains(right, left);
    case Comparison::kNotIn:
      return !contains(right, left);
  }
  return false;
}

// a < b < c is a < b and b < c, each operand evaluated once.
Value Interpreter::evaluate_compare(const CompareExpr& expr, Frame& frame) {
  Value left = evaluate(*expr.first, frame);
  for (const auto& [op, operand] : expr.rest) {
    Value right = evaluate(*operand, frame);
    line_ = expr.line;
    if (!compare(op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const ItemsExpr& expr, Frame& frame) {
  std::string out;
  for (const ExprPtr& item : expr.items) {
    const Value value = evaluate(*item, frame);
    charge_walk(value);
    if (value.is(Kind::kString)) {
      out += value.text();
    } else {
      out += to_text(value);
    }
    check_text(out.size());
  }
  return text(std::move(out));
}

Value Interpreter::evaluate_conditional(const ConditionalExpr& expr, Frame& frame) {
  if (truthy(evaluate(*expr.test, frame))) return evaluate(*expr.then, frame);
  if (expr.otherwise) return evaluate(*expr.otherwise, frame);
  return undefined_hint("the inline if-expression on line " + std::to_string(expr.line) +
                        " evaluated to false and no else section was defined.");
}

Value Interpreter::evaluate_item(const ItemExpr& expr, Frame& frame) {
  const Value object = evaluate(*expr.object, frame);
  if (expr.index->kind == ExprKind::kSlice) {
    return evaluate_slice(object, static_cast<const SliceExpr&>(*expr.index), frame);
  }
  const Value index = evaluate(*expr.index, frame);
  line_ = expr.line;
  return item(object, index);
}

Value Interpreter::evaluate_slice(const Value& object, const SliceExpr& slice, Frame& frame) {
  const auto part = [&](const ExprPtr& expr) -> Value {
    return expr ? evaluate(*expr, frame) : Value::none();
  };
  const Value start = part(slice.start);
  const Value stop = part(slice.stop);
  const Value step = part(slice.step);
  line_ = slice.line;
  return take_slice(*this, object, {start, stop, step});
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments, Frame& frame) {
  Arguments made;
  made.positional.reserve(arguments.positional.size());
  for (const ExprPtr& argument : arguments.positional)
    made.positional.push_back(evaluate(*argument, frame));
  if (arguments.star) {
    for (Value& item : collect(evaluate(*arguments.star, frame)))
      made.positional.push_back(std::move(item));
  }
  for (const auto& [name, argument] : arguments.keyword) {
    made.keyword.emplace_back(name.value(), evaluate(*argument, frame));
  }
  if (!arguments.double_star) return made;
  const Value more = evaluate(*arguments.double_star, frame);
  if (!more.is(Kind::kDict)) {
    throw RenderError(std::string("argument after ** must be a mapping, not ") + type_name(more));
  }
  for (const auto& [name, value] : more.dict().entries) {
    if (!name.is(Kind::kString)) throw RenderError("keywords must be strings");
    for (const auto& [other, ignored] : made.keyword) {
      charge(1);
      if (equal(other, name)) {
        throw RenderError("got multiple values for keyword argument " + quote_text(name.text()));
      }
    }
    made.keyword.emplace_back(name, value);
  }
  return made;
}

// `caller`: the body of a call block, which the macro gets by that name.
Value Interpreter::evaluate_call(const CallExpr& expr, Frame& frame, const Value* caller) {
  const Value callee = evaluate(*expr.callee, frame);
  Arguments arguments = evaluate_arguments(expr.arguments, frame);
  if (caller != nullptr) arguments.keyword.emplace_back(text("caller"), *caller);
  line_ = expr.line;
  return call(callee, arguments);
}

Value Interpreter::evaluate_filter(const ApplyExpr& expr, Frame& frame, const Value* captured) {
  Value operand;
  if (!expr.operand) {
    if (captured == nullptr) throw RenderError("a filter without anything to filter");
    operand = *captured;
  } else if (captured != nullptr && expr.operand->kind == ExprKind::kFilter) {
    operand = evaluate_filter(static_cast<const ApplyExpr&>(*expr.operand), frame, captured);
  } else {
    operand = evaluate(*expr.operand, frame);
  }
  const Arguments arguments = evaluate_arguments(expr.arguments, frame);
  line_ = expr.line;
  if (expr.filter == nullptr) throw RenderError(missing_filter(expr.name));
  return expr.filter(*this, operand, arguments);
}

bool Interpreter::evaluate_test(const ApplyExpr& expr, Frame& frame) {
  const Value operand = evaluate(*expr.operand, frame);
  const Arguments arguments = evaluate_arguments(expr.arguments, frame);
  line_ = expr.line;
  if (expr.test == nullptr) throw RenderError("No test named " + quote_text(expr.name) + ".");
  return expr.test(*this, operand, arguments);
}

Value Interpreter::call_filter(const std::string& name, const Value& operand,
                               const Arguments& arguments) {
  const Depth depth(*this);
  charge(1);
  const Filter filter = find_filter(name);
  if (filter == nullptr) throw RenderError(missing_filter(name));
  return filter(*this, operand, arguments);
}

bool Interpreter::call_test(const std::string& name, const Value& operand,
                            const Arguments& arguments) {
  const Depth depth(*this);
  charge(1);
  const Test test = find_test(name);
  if (test == nullptr) throw RenderError("No test named " + quote_text(name) + ".");
  return test(*this, operand, arguments);
}

}  // namespace headrace::jinja
