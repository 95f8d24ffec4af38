// Statements, macros and loops. Expressions: expressions.cpp; operators and lookups:
// operations.cpp.
#include "model/chat/interpreter.h"

#include <algorithm>

#include "model/chat/arguments.h"
#include "model/chat/depth.h"
#include "model/chat/globals.h"
#include "model/chat/python_text.h"

namespace headrace::jinja {

// Sends what is written into a text of its own for the life of the object.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), outer_(interpreter.out_) {
    interpreter.out_ = &text_;
  }
  ~Capture() { interpreter_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::string take() { return std::move(text_); }

 private:
  Interpreter& interpreter_;
  std::string* outer_;
  std::string text_;
};

/// The items of a loop with a condition, in the order and at the time the loop asks for them.
class TestedItems : public IteratorObject {
 public:
  TestedItems(Interpreter& interpreter, const ForStmt& loop, const Value& source, Frame& outer)
      : interpreter_(interpreter), loop_(loop), cursor_(interpreter, source) {
    frame_.parent = &outer;
    frame_.slots.resize(static_cast<std::size_t>(loop.test_function.num_slots));
  }

  bool next(Value& value) override {
    if (!entered_) interpreter_.enter(loop_.test_scope, frame_);
    entered_ = true;
    Value item;
    while (cursor_.next(item)) {
      interpreter_.assign(*loop_.test_target, std::move(item), frame_);
      if (!truthy(interpreter_.evaluate(*loop_.test, frame_))) continue;
      value = read(*loop_.test_target);
      return true;
    }
    return false;
  }

 private:
  // The item again, as the target's variables hold it: what jinja2's generated function yields.
  Value read(const Expr& target) {
    if (target.kind == ExprKind::kName) {
      return interpreter_.slot(static_cast<const NameExpr&>(target).slot, frame_);
    }
    Values items;
    for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items)
      items.push_back(read(*item));
    return interpreter_.tuple(std::move(items));
  }

  Interpreter& interpreter_;
  const ForStmt& loop_;
  Cursor cursor_;
  Frame frame_;
  bool entered_ = false;
};

Interpreter::Interpreter(const Tree& tree, const Value& context, std::int64_t now_s, Budget budget)
    : tree_(tree), now_s_(now_s), budget_(budget), steps_left_(budget.steps) {
  context_values_.reserve(tree.context_names.size());
  for (const std::string& name : tree.context_names) {
    const Value* found = context.dict().find(std::string_view(name));
    context_values_.push_back(found != nullptr ? *found : find_global(name));
  }
}

Interpreter::~Interpreter() {
  for (Value& space : namespaces_) space.as<NamespaceObject>().attributes.clear();
}

std::string Interpreter::run() {
  Capture capture(*this);
  Frame local;
  Frame& frame = push_frame(tree_.function, nullptr, local);
  enter(tree_.scope, frame);
  run(tree_.body, frame);
  return capture.take();
}

void Interpreter::charge(std::size_t steps) {
  if (steps > steps_left_) {
    throw RenderError("the template takes more than " + std::to_string(budget_.steps) + " steps");
  }
  steps_left_ -= steps;
}

void Interpreter::check_text(std::size_t bytes) const {
  if (bytes > budget_.output_bytes) {
    throw RenderError("the template makes a text longer than " +
                      std::to_string(budget_.output_bytes) + " bytes");
  }
}

// A frame that something made inside may refer to lives as long as the render.
Frame& Interpreter::push_frame(const Function& function, Frame* parent, Frame& local) {
  Frame& frame = function.outlives_call ? lasting_.emplace_back() : local;
  frame.parent = parent;
  frame.slots.resize(static_cast<std::size_t>(function.num_slots));
  charge(1 + frame.slots.size());
  return frame;
}

Value& Interpreter::slot(Slot at, Frame& frame) {
  Frame* owner = &frame;
  for (int i = 0; i < at.hops; ++i) owner = owner->parent;
  return owner->slots[static_cast<std::size_t>(at.index)];
}

void Interpreter::enter(const Scope& scope, Frame& frame) {
  charge(scope.loads.size());
  for (const SlotLoad& load : scope.loads) {
    Value& variable = frame.slots[static_cast<std::size_t>(load.index)];
    switch (load.action) {
      case SlotLoad::Action::kClear:
        variable = Value();
        break;
      case SlotLoad::Action::kContext:
        variable = context_values_[static_cast<std::size_t>(load.context)];
        break;
      case SlotLoad::Action::kAlias:
        variable = slot(load.source, frame);
        break;
    }
  }
}

void Interpreter::write(std::string_view text) {
  check_text(out_->size() + text.size());
  charge(text.size() / kBytesPerWeight);
  out_->append(text);
}

void Interpreter::write(const Value& value) {
  if (value.is(Kind::kString)) {
    write(std::string_view(value.text()));
    return;
  }
  charge_walk(value);
  write(std::string_view(to_text(value)));
}

// ---- statements

Interpreter::Flow Interpreter::run(const Stmts& body, Frame& frame) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = run(*stmt, frame);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Stmt& stmt, Frame& frame) {
  const Depth depth(*this);
  charge(1);
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kOutput:
      run_output(static_cast<const OutputStmt&>(stmt), frame);
      break;
    case StmtKind::kFor:
      return run_for(static_cast<const ForStmt&>(stmt), frame);
    case StmtKind::kIf:
      return run_if(static_cast<const IfStmt&>(stmt), frame);
    case StmtKind::kSet: {
      const auto& node = static_cast<const SetStmt&>(stmt);
      check_namespaces(*node.target, frame);
      assign(*node.target, evaluate(*node.value, frame), frame);
      break;
    }
    case StmtKind::kSetBlock:
      return run_set_block(static_cast<const SetBlockStmt&>(stmt), frame);
    case StmtKind::kMacro: {
      const auto& node = static_cast<const MacroStmt&>(stmt);
      slot(node.slot, frame) = make_macro(node.macro, frame);
      break;
    }
    case StmtKind::kCallBlock:
      run_call_block(static_cast<const CallBlockStmt&>(stmt), frame);
      break;
    case StmtKind::kGeneration:
      run_generation(static_cast<const CallBlockStmt&>(stmt), frame);
      break;
    case StmtKind::kFilterBlock:
      return run_filter_block(static_cast<const FilterBlockStmt&>(stmt), frame);
    case StmtKind::kWith:
      return run_with(static_cast<const WithStmt&>(stmt), frame);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Interpreter::run_output(const OutputStmt& stmt, Frame& frame) {
  for (const ExprPtr& part : stmt.parts) {
    if (part->kind == ExprKind::kConstant) {
      write(static_cast<const ConstantExpr&>(*part).value());
    } else {
      write(evaluate(*part, frame));
    }
  }
}

Interpreter::Flow Interpreter::run_if(const IfStmt& stmt, Frame& frame) {
  for (const IfBranch& branch : stmt.branches) {
    line_ = branch.line;
    if (truthy(evaluate(*branch.test, frame))) return run(branch.body, frame);
  }
  return run(stmt.otherwise, frame);
}

Interpreter::Flow Interpreter::run_for(const ForStmt& stmt, Frame& frame) {
  Value source = evaluate(*stmt.iterable, frame);
  if (!stmt.recursive) return run_loop(stmt, std::move(source), frame, frame, 0);
  write(std::string_view(run_recursive(stmt, std::move(source), frame, 0)));
  return Flow::kNormal;
}

std::string Interpreter::run_recursive(const ForStmt& stmt, Value source, Frame& outer,
                                       int depth0) {
  const Call call(*this);
  Capture capture(*this);
  Frame local;
  Frame& frame = push_frame(stmt.function, &outer, local);
  run_loop(stmt, std::move(source), outer, frame, depth0);
  return capture.take();
}

// `outer` is the frame around the loop, `frame` the one its body runs in (the same unless
// recursive).
Interpreter::Flow Interpreter::run_loop(const ForStmt& stmt, Value source, Frame& outer,
                                        Frame& frame, int depth0) {
  if (stmt.test) source = iterator(new TestedItems(*this, stmt, source, outer), source);
  Value loop_value;
  LoopObject* loop = nullptr;
  if (stmt.extended) {
    loop = new LoopObject(*this, source);
    loop_value = Value::object(Kind::kLoop, loop);
    contain(*loop, source);
    loop->depth0 = depth0;
    loop->recursive = stmt.recursive ? &stmt : nullptr;
    loop->outer = &outer;
  }
  Cursor plain(*this, loop == nullptr ? source : tuple({}));
  // As in the Python that jinja2 writes, a pass that ends with break or continue does not count.
  bool passed = false;
  Value item;
  while (loop != nullptr ? loop->next(item) : plain.next(item)) {
    charge(1);
    line_ = stmt.line;
    assign(*stmt.target, std::move(item), frame);
    if (loop != nullptr) frame.slots[static_cast<std::size_t>(stmt.loop_slot)] = loop_value;
    enter(stmt.body_scope, frame);
    const Flow flow = run(stmt.body, frame);
    if (flow == Flow::kBreak) break;
    passed |= flow == Flow::kNormal;
  }
  if (passed || stmt.otherwise.empty()) return Flow::kNormal;
  enter(stmt.otherwise_scope, frame);
  return run(stmt.otherwise, frame);
}

Interpreter::Flow Interpreter::run_set_block(const SetBlockStmt& stmt, Frame& frame) {
  enter(stmt.scope, frame);
  Value made;
  {
    Capture capture(*this);
    const Flow flow = run(stmt.body, frame);
    if (flow != Flow::kNormal) return flow;
    made = text(capture.take());
  }
  if (stmt.filter)
    made = evaluate_filter(static_cast<const ApplyExpr&>(*stmt.filter), frame, &made);
  assign(*stmt.target, std::move(made), frame);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_filter_block(const FilterBlockStmt& stmt, Frame& frame) {
  enter(stmt.scope, frame);
  Value body;
  {
    Capture capture(*this);
    const Flow flow = run(stmt.body, frame);
    if (flow != Flow::kNormal) return flow;
    body = text(capture.take());
  }
  write(evaluate_filter(static_cast<const ApplyExpr&>(*stmt.filter), frame, &body));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_with(const WithStmt& stmt, Frame& frame) {
  enter(stmt.scope, frame);
  for (std::size_t i = 0; i < stmt.targets.size(); ++i) {
    assign(*stmt.targets[i], evaluate(*stmt.values[i], frame), frame);
  }
  return run(stmt.body, frame);
}

void Interpreter::run_call_block(const CallBlockStmt& stmt, Frame& frame) {
  const Value caller = make_macro(stmt.macro, frame);
  write(evaluate_call(static_cast<const CallExpr&>(*stmt.call), frame, &caller));
}

void Interpreter::run_generation(const CallBlockStmt& stmt, Frame& frame) {
  const Value body = make_macro(stmt.macro, frame);
  write(call_macro(body.as<MacroObject>(), {}));
}

void Interpreter::check_namespaces(const Expr& target, Frame& frame) {
  if (target.kind == ExprKind::kNamespaceTarget) {
    if (!slot(static_cast<const NamespaceTargetExpr&>(target).slot, frame).is(Kind::kNamespace)) {
      throw RenderError("cannot assign attribute on non-namespace object");
    }
  } else if (target.kind == ExprKind::kTuple) {
    for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items)
      check_namespaces(*item, frame);
  }
}

void Interpreter::assign(const Expr& target, Value value, Frame& frame) {
  switch (target.kind) {
    case ExprKind::kName:
      slot(static_cast<const NameExpr&>(target).slot, frame) = std::move(value);
      return;
    case ExprKind::kNamespaceTarget: {
      const auto& node = static_cast<const NamespaceTargetExpr&>(target);
      set_attribute(slot(node.slot, frame), node.attribute, std::move(value));
      return;
    }
    default:
      break;
  }
  const Exprs& targets = static_cast<const ItemsExpr&>(target).items;
  if (!Cursor::iterable(value)) {
    throw RenderError(std::string("cannot unpack non-iterable ") + type_name(value) + " object");
  }
  Cursor cursor(*this, value);
  Values items;
  Value item;
  while (items.size() <= targets.size() && cursor.next(item)) items.push_back(std::move(item));
  if (items.size() > targets.size()) {
    throw RenderError("too many values to unpack (expected " + std::to_string(targets.size()) +
                      ")");
  }
  if (items.size() < targets.size()) {
    throw RenderError("not enough values to unpack (expected " + std::to_string(targets.size()) +
                      ", got " + std::to_string(items.size()) + ")");
  }
  for (std::size_t i = 0; i < targets.size(); ++i) assign(*targets[i], std::move(items[i]), frame);
}

void Interpreter::set_attribute(const Value& object, const std::string& name, Value value) {
  // Not every way here has checked it: in `set ns, ns.a = 1, 2` the first target replaces the
  // namespace.
  if (!object.is(Kind::kNamespace)) {
    throw RenderError(std::string("'") + type_name(object) +
                      "' object does not support item assignment");
  }
  if (!name.empty() && name[0] == '_') {
    throw RenderError(
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
        quote_text(name) + ". Please rename the attribute.");
  }
  object.as<NamespaceObject>().attributes.set(text(name), std::move(value));
}

// ---- macros and loops as callables

Value Interpreter::make_macro(const MacroBody& body, Frame& frame) {
  charge(1);
  auto* made = new MacroObject;
  made->body = &body;
  made->frame = &frame;
  return Value::object(Kind::kMacro, made);
}

Value Interpreter::call_macro(const MacroObject& macro, const Arguments& arguments) {
  const Call call(*this);
  const MacroBody& body = *macro.body;
  Frame local;
  Frame& frame = push_frame(body.function, macro.frame, local);
  std::vector<std::pair<Value, Value>> rest = arguments.keyword;
  const auto take = [&](std::string_view name) {
    const auto at = std::find_if(rest.begin(), rest.end(),
                                 [&](const auto& entry) { return entry.first.text() == name; });
    if (at == rest.end()) return Value();
    Value value = std::move(at->second);
    rest.erase(at);
    return value;
  };
  const std::string quoted = quote_text(body.name);
  const std::size_t given = std::min(arguments.positional.size(), body.parameters.size());
  enter(body.scope, frame);
  for (std::size_t i = 0; i < body.parameters.size(); ++i) {
    const auto& name = static_cast<const NameExpr&>(*body.parameters[i]);
    slot(name.slot, frame) = i < given ? arguments.positional[i] : take(name.name);
  }
  if (body.takes_caller && !body.names_caller) {
    Value caller = take("caller");
    if (caller.is(Kind::kMissing) || caller.is(Kind::kNone))
      caller = undefined_hint("No caller defined");
    frame.slots[static_cast<std::size_t>(body.caller_slot)] = std::move(caller);
  }
  if (body.takes_kwargs) {
    frame.slots[static_cast<std::size_t>(body.kwargs_slot)] = dict(rest);
  } else if (!rest.empty()) {
    if (std::any_of(rest.begin(), rest.end(),
                    [](const auto& entry) { return entry.first.text() == "caller"; })) {
      throw RenderError("macro " + quoted +
                        " was invoked with two values for the special caller argument. This is "
                        "most likely a bug.");
    }
    throw RenderError("macro " + quoted + " takes no keyword argument " +
                      quote_text(rest[0].first.text()));
  }
  if (body.takes_varargs) {
    const auto first = arguments.positional.begin() + static_cast<std::ptrdiff_t>(given);
    frame.slots[static_cast<std::size_t>(body.varargs_slot)] =
        tuple(Values(first, arguments.positional.end()));
  } else if (arguments.positional.size() > body.parameters.size()) {
    throw RenderError("macro " + quoted + " takes not more than " +
                      std::to_string(body.parameters.size()) + " argument(s)");
  }
  return text(run_macro(body, frame));
}

std::string Interpreter::run_macro(const MacroBody& body, Frame& frame) {
  Capture capture(*this);
  const std::size_t without_default = body.parameters.size() - body.defaults.size();
  for (std::size_t i = 0; i < body.parameters.size(); ++i) {
    const auto& name = static_cast<const NameExpr&>(*body.parameters[i]);
    if (!slot(name.slot, frame).is(Kind::kMissing)) continue;
    Value value = i >= without_default
                      ? evaluate(*body.defaults[i - without_default], frame)
                      : undefined_hint("parameter " + quote_text(name.name) + " was not provided");
    slot(name.slot, frame) = std::move(value);
  }
  run(body.body, frame);
  return capture.take();
}

Value Interpreter::call_loop(LoopObject& loop, const Arguments& arguments) {
  if (loop.recursive == nullptr) {
    throw RenderError("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound("loop", arguments, {"iterable"});
  return text(run_recursive(*loop.recursive, bound.required(0), *loop.outer, loop.depth0 + 1));
}

bool LoopObject::peek() {
  if (buffered_at < buffered.size()) return true;
  Value value;
  if (!cursor.next(value)) return false;
  buffered.clear();
  buffered_at = 0;
  buffered.push_back(std::move(value));
  return true;
}

bool LoopObject::next(Value& value) {
  if (buffered_at < buffered.size()) {
    value = std::move(buffered[buffered_at++]);
  } else if (!cursor.next(value)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = value;
  return true;
}

std::int64_t LoopObject::length(Interpreter& interpreter) {
  if (known_length) return *known_length;
  if (const auto size = cursor.source_size()) return *(known_length = size);
  Values rest(buffered.begin() + static_cast<std::ptrdiff_t>(buffered_at), buffered.end());
  Value value;
  while (cursor.next(value)) {
    interpreter.charge(1);
    rest.push_back(std::move(value));
  }
  buffered = std::move(rest);
  buffered_at = 0;
  known_length = static_cast<std::int64_t>(buffered.size()) + index0 + 1;
  return *known_length;
}

}  // namespace headrace::jinja
