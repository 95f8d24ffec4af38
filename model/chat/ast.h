// A parsed template. The parser builds the tree, resolve_names (scopes.h) then gives every name its
// slot, and the interpreter walks it. Immutable afterwards and shared between threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/chat/value.h"

namespace headrace::jinja {

class Interpreter;
struct Arguments;

using Filter = Value (*)(Interpreter&, const Value&, const Arguments&);
using Test = bool (*)(Interpreter&, const Value&, const Arguments&);

/// Names of Python methods and attributes; one namespace for all types (methods.h).
enum class Method : std::uint8_t;

enum class ExprKind : std::uint8_t {
  kConstant,
  kName,
  kTuple,
  kList,
  kDict,
  kUnary,
  kBinary,
  kAnd,
  kOr,
  kNot,
  kCompare,
  kConcat,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNamespaceTarget,
};

struct Expr {
  Expr(ExprKind its_kind, int at_line) : kind(its_kind), line(at_line) {}
  virtual ~Expr() = default;
  ExprKind kind;
  int line;
  int depth = 1;  // of the tree below, this node included
};
using ExprPtr = std::unique_ptr<Expr>;
using Exprs = std::vector<ExprPtr>;

/// A variable: `hops` functions outwards, then that function's slot.
struct Slot {
  int hops = 0;
  int index = 0;
};

enum class NameUse : std::uint8_t { kLoad, kStore, kParameter };

/// A value that lives as long as the program and that renders in any thread may share meanwhile.
class Constant {
 public:
  /// Nothing else may hold the value's text.
  explicit Constant(Value value) : value_(std::move(value)) { value_.make_immortal(); }
  Constant(Constant&&) noexcept = default;
  Constant& operator=(Constant&&) = delete;
  Constant(const Constant&) = delete;
  Constant& operator=(const Constant&) = delete;
  ~Constant() { value_.free_immortal(); }

  const Value& value() const { return value_; }

 private:
  Value value_;
};

struct ConstantExpr : Expr {
  ConstantExpr(int at_line, Value its_value)
      : Expr(ExprKind::kConstant, at_line), constant(std::move(its_value)) {}
  const Value& value() const { return constant.value(); }
  Constant constant;
};

struct NameExpr : Expr {
  NameExpr(int at_line, std::string its_name)
      : Expr(ExprKind::kName, at_line), name(std::move(its_name)) {}
  std::string name;
  NameUse use = NameUse::kLoad;
  Slot slot;
};

/// kTuple, kList (items), kDict (keys and values in turn), kConcat (operands).
struct ItemsExpr : Expr {
  using Expr::Expr;
  Exprs items;
};

enum class UnaryOperator : std::uint8_t { kNegate, kPlus };

/// kUnary, kNot.
struct UnaryExpr : Expr {
  using Expr::Expr;
  UnaryOperator op = UnaryOperator::kNegate;
  ExprPtr operand;
};

enum class BinaryOperator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};

/// kBinary, kAnd, kOr.
struct BinaryExpr : Expr {
  using Expr::Expr;
  BinaryOperator op = BinaryOperator::kAdd;
  ExprPtr left;
  ExprPtr right;
};

enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct CompareExpr : Expr {
  using Expr::Expr;
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};

struct ConditionalExpr : Expr {
  using Expr::Expr;
  ExprPtr test;
  ExprPtr then;
  ExprPtr otherwise;  // may be null
};

struct AttributeExpr : Expr {
  using Expr::Expr;
  ExprPtr object;
  std::string name;
  Method method{};  // the Python attribute of that name, if any type has one
};

struct ItemExpr : Expr {
  using Expr::Expr;
  ExprPtr object;
  ExprPtr index;
};

struct SliceExpr : Expr {
  using Expr::Expr;
  ExprPtr start;  // each may be null
  ExprPtr stop;
  ExprPtr step;
};

struct CallArguments {
  Exprs positional;
  std::vector<std::pair<Constant, ExprPtr>> keyword;  // by name
  ExprPtr star;                                       // *args, may be null
  ExprPtr double_star;                                // **kwargs, may be null
};

struct CallExpr : Expr {
  using Expr::Expr;
  ExprPtr callee;
  CallArguments arguments;
};

/// kFilter, kTest.
struct ApplyExpr : Expr {
  using Expr::Expr;
  ExprPtr operand;  // null: the captured text of a filter block or set block
  std::string name;
  Filter filter = nullptr;  // null: unknown, an error when it is reached
  Test test = nullptr;
  CallArguments arguments;
};

/// `namespace.attribute` as the target of a set.
struct NamespaceTargetExpr : Expr {
  using Expr::Expr;
  std::string name;
  std::string attribute;
  Slot slot;
};

enum class StmtKind : std::uint8_t {
  kOutput,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kGeneration,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
};

struct Stmt {
  Stmt(StmtKind its_kind, int at_line) : kind(its_kind), line(at_line) {}
  virtual ~Stmt() = default;
  StmtKind kind;
  int line;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Stmts = std::vector<StmtPtr>;

/// What happens to a slot when its scope is entered.
struct SlotLoad {
  enum class Action : std::uint8_t { kClear, kContext, kAlias };
  int index = 0;  // in the function that runs
  Action action = Action::kClear;
  int context = 0;  // kContext: which of Program::context_names
  Slot source;      // kAlias
};

struct Scope {
  std::vector<SlotLoad> loads;
};

/// A unit with its own frame of slots: the template, a macro, a call block's body, a recursive
/// loop.
struct Function {
  int num_slots = 0;
  bool outlives_call = false;  // something made inside refers to its frame
};

struct OutputStmt : Stmt {
  using Stmt::Stmt;
  Exprs parts;
};

struct ForStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr target;
  ExprPtr iterable;
  ExprPtr test;  // may be null
  Stmts body;
  Stmts otherwise;
  bool recursive = false;
  bool extended = false;  // has the variable `loop`
  int loop_slot = 0;
  Scope body_scope;
  Scope test_scope;
  Function
      test_function;    // the condition has a frame of its own: it runs interleaved with the body
  ExprPtr test_target;  // the target again, in that frame
  Scope otherwise_scope;
  Function function;  // recursive
};

struct IfBranch {
  ExprPtr test;
  Stmts body;
  int line = 0;
};

struct IfStmt : Stmt {
  using Stmt::Stmt;
  std::vector<IfBranch> branches;  // if, elif, ...
  Stmts otherwise;
};

struct SetStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr target;
  ExprPtr value;
};

struct SetBlockStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr target;
  ExprPtr filter;  // may be null; innermost operand is null
  Stmts body;
  Scope scope;
};

/// What a macro and the body of a call block have in common.
struct MacroBody {
  std::string name;  // empty: anonymous
  Exprs parameters;  // names
  Exprs defaults;    // of the last parameters
  Stmts body;
  bool takes_caller = false;
  bool takes_varargs = false;
  bool takes_kwargs = false;
  bool names_caller = false;  // "caller" is an explicit parameter
  int caller_slot = 0;
  int varargs_slot = 0;
  int kwargs_slot = 0;
  Scope scope;
  Function function;
};

struct MacroStmt : Stmt {
  using Stmt::Stmt;
  MacroBody macro;
  Slot slot;
};

/// kCallBlock, kGeneration (without call: the body's text is written).
struct CallBlockStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr call;
  MacroBody macro;
};

struct FilterBlockStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr filter;
  Stmts body;
  Scope scope;
};

struct WithStmt : Stmt {
  using Stmt::Stmt;
  Exprs targets;
  Exprs values;
  Stmts body;
  Scope scope;
};

/// A template ready to run.
struct Tree {
  Stmts body;
  Scope scope;
  Function function;
  std::vector<std::string> context_names;  // looked up in the context, then among the globals
};

}  // namespace headrace::jinja
