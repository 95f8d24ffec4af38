// Runs a parsed template. One Interpreter is one render: it owns the budget and everything made on
// the way, and what filters, tests and methods need they ask of it.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/chat/ast.h"
#include "model/chat/value.h"

namespace headrace::jinja {

/// raise_exception's message, which the caller of render sees as it is.
class RaisedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Budget {
  std::size_t output_bytes;
  std::size_t steps;
};

/// What a call, a filter or a test is given beside its operand.
struct Arguments {
  Values positional;
  std::vector<std::pair<Value, Value>> keyword;
};

/// The variables of one running function.
struct Frame {
  Frame* parent = nullptr;
  Values slots;
};

struct MacroObject : Object {
  const MacroBody* body = nullptr;
  Frame* frame = nullptr;  // where it was defined
};

/// A global function, by what it does.
struct FunctionObject : Object {
  using Body = Value (*)(Interpreter&, const Arguments&);
  Body body = nullptr;
};

struct MethodObject : Object {
  Value self;
  Method method{};
};

/// Walks over any iterable value, as Python's iter() and next().
class Cursor {
 public:
  /// Throws RenderError "'int' object is not iterable".
  Cursor(Interpreter& interpreter, Value source);
  bool next(Value& value);
  static bool iterable(const Value& value);
  /// Items left to come, where Python's len() of the source would work.
  std::optional<std::int64_t> source_size() const;

 private:
  Interpreter& interpreter_;
  Value source_;
  std::size_t at_ = 0;
};

/// The variable `loop`.
struct LoopObject : Object {
  LoopObject(Interpreter& interpreter, Value source) : cursor(interpreter, std::move(source)) {}
  bool next(Value& value);
  bool peek();
  std::int64_t length(Interpreter& interpreter);

  Cursor cursor;
  Values buffered;  // read ahead of the loop, from buffered_at on
  std::size_t buffered_at = 0;
  Value before;
  Value current;
  Value last_changed;
  std::int64_t index0 = -1;
  std::optional<std::int64_t> known_length;
  int depth0 = 0;
  const ForStmt* recursive = nullptr;
  Frame* outer = nullptr;  // of the function around the loop
};

class Interpreter {
 public:
  Interpreter(const Tree& tree, const Value& context, std::int64_t now_s, Budget budget);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string run();
  int line() const { return line_; }  // of what ran last
  std::int64_t now_s() const { return now_s_; }

  // ---- the budget; both throw RenderError
  void charge(std::size_t steps);
  void check_text(std::size_t bytes) const;
  void charge_walk(const Value& value) { charge(static_cast<std::size_t>(value.weight())); }

  // ---- making values
  Value text(std::string text, bool markup = false);
  Value list(Values items) { return sequence(Kind::kList, std::move(items)); }
  Value tuple(Values items) { return sequence(Kind::kTuple, std::move(items)); }
  /// From entries whose keys are checked here.
  Value dict(const std::vector<std::pair<Value, Value>>& entries);
  Value view(const Value& dict, DictViewObject::Part part);
  Value range(std::int64_t start, std::int64_t stop, std::int64_t step);
  /// Takes ownership; `source` is what it reads from.
  Value iterator(IteratorObject* made, const Value& source);
  Value name_space(const std::vector<std::pair<Value, Value>>& attributes);
  Value method(const Value& self, Method method);
  static Value function(FunctionObject::Body body);

  // ---- operations of the language
  Values collect(const Value& iterable);  // list(iterable)
  std::int64_t length(const Value& value);
  Value attribute(const Value& object, const std::string& name, Method method);
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& index);
  Value call(const Value& callee, const Arguments& arguments);
  Value call_filter(const std::string& name, const Value& operand, const Arguments& arguments);
  bool call_test(const std::string& name, const Value& operand, const Arguments& arguments);
  bool contains(const Value& container, const Value& value);
  Value binary(BinaryOperator op, const Value& left, const Value& right);
  void set_attribute(const Value& object, const std::string& name, Value value);

 private:
  friend class TestedItems;
  enum class Flow : std::uint8_t { kNormal, kBreak, kContinue };
  class Depth;
  class Call;
  class Capture;

  Value sequence(Kind kind, Values items);
  Frame& push_frame(const Function& function, Frame* parent, Frame& local);
  Value& slot(Slot at, Frame& frame);
  void enter(const Scope& scope, Frame& frame);

  // statements
  Flow run(const Stmts& body, Frame& frame);
  Flow run(const Stmt& stmt, Frame& frame);
  void run_output(const OutputStmt& stmt, Frame& frame);
  Flow run_for(const ForStmt& stmt, Frame& frame);
  Flow run_loop(const ForStmt& stmt, Value source, Frame& outer, Frame& frame, int depth0);
  std::string run_recursive(const ForStmt& stmt, Value source, Frame& outer, int depth0);
  Flow run_if(const IfStmt& stmt, Frame& frame);
  Flow run_set_block(const SetBlockStmt& stmt, Frame& frame);
  Flow run_filter_block(const FilterBlockStmt& stmt, Frame& frame);
  Flow run_with(const WithStmt& stmt, Frame& frame);
  void run_call_block(const CallBlockStmt& stmt, Frame& frame);
  void run_generation(const CallBlockStmt& stmt, Frame& frame);
  void assign(const Expr& target, Value value, Frame& frame);
  void check_namespaces(const Expr& target, Frame& frame);
  void write(std::string_view text);
  void write(const Value& value);

  // expressions
  Value evaluate(const Expr& expr, Frame& frame);
  Value evaluate_name(const NameExpr& expr, Frame& frame);
  Value evaluate_dict(const ItemsExpr& expr, Frame& frame);
  Value evaluate_items(const ItemsExpr& expr, Frame& frame);
  Value evaluate_unary(const UnaryExpr& expr, Frame& frame);
  Value evaluate_compare(const CompareExpr& expr, Frame& frame);
  Value evaluate_concat(const ItemsExpr& expr, Frame& frame);
  Value evaluate_conditional(const ConditionalExpr& expr, Frame& frame);
  Value evaluate_item(const ItemExpr& expr, Frame& frame);
  Value evaluate_slice(const Value& object, const SliceExpr& slice, Frame& frame);
  Value evaluate_call(const CallExpr& expr, Frame& frame, const Value* caller);
  Value evaluate_filter(const ApplyExpr& expr, Frame& frame, const Value* captured);
  bool evaluate_test(const ApplyExpr& expr, Frame& frame);
  Arguments evaluate_arguments(const CallArguments& arguments, Frame& frame);
  bool compare(Comparison op, const Value& left, const Value& right);

  // calls
  Value make_macro(const MacroBody& body, Frame& frame);
  Value call_macro(const MacroObject& macro, const Arguments& arguments);
  std::string run_macro(const MacroBody& body, Frame& frame);
  Value call_loop(LoopObject& loop, const Arguments& arguments);
  Value loop_attribute(const Value& loop, const std::string& name);
  Value object_attribute(const Value& object, const std::string& name, Method method);

  // operators
  Value add(const Value& left, const Value& right);
  Value multiply(const Value& left, const Value& right);
  Value repeat(const Value& sequence, const Value& count);
  Value arithmetic(BinaryOperator op, const Value& left, const Value& right);
  std::optional<Value> element(const Value& object, const Value& index);

  const Tree& tree_;
  const std::int64_t now_s_;
  const Budget budget_;
  std::size_t steps_left_;
  int line_ = 1;
  int depth_ = 0;
  int calls_ = 0;
  std::string* out_ = nullptr;
  Values context_values_;          // of Tree::context_names
  std::deque<Frame> lasting_;      // frames that something may still refer to
  std::vector<Value> namespaces_;  // to break circles at the end
};

}  // namespace headrace::jinja
