// Walks over a parsed template.
#pragma once

#include <functional>

#include "model/chat/ast.h"

namespace headrace::jinja {

/// Calls `each` for the direct children of an expression; some may be null.
template <typename Each>
void for_children(const Expr& expr, Each each) {
  const auto arguments = [&](const CallArguments& call) {
    for (const ExprPtr& argument : call.positional) each(argument.get());
    for (const auto& [name, value] : call.keyword) each(value.get());
    each(call.star.get());
    each(call.double_star.get());
  };
  switch (expr.kind) {
    case ExprKind::kConstant:
    case ExprKind::kName:
    case ExprKind::kNamespaceTarget:
      break;
    case ExprKind::kTuple:
    case ExprKind::kList:
    case ExprKind::kDict:
    case ExprKind::kConcat:
      for (const ExprPtr& item : static_cast<const ItemsExpr&>(expr).items) each(item.get());
      break;
    case ExprKind::kUnary:
    case ExprKind::kNot:
      each(static_cast<const UnaryExpr&>(expr).operand.get());
      break;
    case ExprKind::kBinary:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      each(static_cast<const BinaryExpr&>(expr).left.get());
      each(static_cast<const BinaryExpr&>(expr).right.get());
      break;
    case ExprKind::kCompare:
      each(static_cast<const CompareExpr&>(expr).first.get());
      for (const auto& [op, operand] : static_cast<const CompareExpr&>(expr).rest)
        each(operand.get());
      break;
    case ExprKind::kConditional: {
      const auto& node = static_cast<const ConditionalExpr&>(expr);
      each(node.test.get());
      each(node.then.get());
      each(node.otherwise.get());
      break;
    }
    case ExprKind::kAttribute:
      each(static_cast<const AttributeExpr&>(expr).object.get());
      break;
    case ExprKind::kItem:
      each(static_cast<const ItemExpr&>(expr).object.get());
      each(static_cast<const ItemExpr&>(expr).index.get());
      break;
    case ExprKind::kSlice: {
      const auto& node = static_cast<const SliceExpr&>(expr);
      each(node.start.get());
      each(node.stop.get());
      each(node.step.get());
      break;
    }
    case ExprKind::kCall:
      each(static_cast<const CallExpr&>(expr).callee.get());
      arguments(static_cast<const CallExpr&>(expr).arguments);
      break;
    case ExprKind::kFilter:
    case ExprKind::kTest:
      each(static_cast<const ApplyExpr&>(expr).operand.get());
      arguments(static_cast<const ApplyExpr&>(expr).arguments);
      break;
  }
}

using NameVisitor = std::function<void(const NameExpr&)>;
using ExprVisitor = std::function<void(const Expr&)>;
using StmtVisitor = std::function<void(const Stmt&)>;

/// Every name, in the order of jinja2's node fields.
void visit_names(const Expr* expr, const NameVisitor& visit);
void visit_names(const Stmt& stmt, const NameVisitor& visit);
void visit_names(const Stmts& body, const NameVisitor& visit);

/// Every statement, the outer before the inner.
void visit_statements(const Stmts& body, const StmtVisitor& visit);
/// An expression and every expression inside it.
void visit_expressions(const Expr* expr, const ExprVisitor& visit);
/// The expressions that belong to a statement itself, not to the statements inside it.
void for_own_expressions(const Stmt& stmt, const ExprVisitor& visit);

}  // namespace headrace::jinja
