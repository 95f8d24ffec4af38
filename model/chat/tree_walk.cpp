#include "model/chat/tree_walk.h"

namespace headrace::jinja {
namespace {

void visit_names(const Exprs& exprs, const NameVisitor& visit) {
  for (const ExprPtr& expr : exprs) visit_names(expr.get(), visit);
}

}  // namespace

void visit_names(const Expr* expr, const NameVisitor& visit) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::kName) visit(static_cast<const NameExpr&>(*expr));
  for_children(*expr, [&](const Expr* child) { visit_names(child, visit); });
}

void visit_names(const Stmt& stmt, const NameVisitor& visit) {
  switch (stmt.kind) {
    case StmtKind::kOutput:
      visit_names(static_cast<const OutputStmt&>(stmt).parts, visit);
      break;
    case StmtKind::kFor: {
      const auto& node = static_cast<const ForStmt&>(stmt);
      visit_names(node.target.get(), visit);
      visit_names(node.iterable.get(), visit);
      visit_names(node.body, visit);
      visit_names(node.otherwise, visit);
      visit_names(node.test.get(), visit);
      break;
    }
    case StmtKind::kIf: {
      const auto& node = static_cast<const IfStmt&>(stmt);
      for (const IfBranch& branch : node.branches) {
        visit_names(branch.test.get(), visit);
        visit_names(branch.body, visit);
      }
      visit_names(node.otherwise, visit);
      break;
    }
    case StmtKind::kSet: {
      const auto& node = static_cast<const SetStmt&>(stmt);
      visit_names(node.target.get(), visit);
      visit_names(node.value.get(), visit);
      break;
    }
    case StmtKind::kSetBlock: {
      const auto& node = static_cast<const SetBlockStmt&>(stmt);
      visit_names(node.target.get(), visit);
      visit_names(node.filter.get(), visit);
      visit_names(node.body, visit);
      break;
    }
    case StmtKind::kMacro: {
      const auto& node = static_cast<const MacroStmt&>(stmt);
      visit_names(node.macro.parameters, visit);
      visit_names(node.macro.defaults, visit);
      visit_names(node.macro.body, visit);
      break;
    }
    case StmtKind::kCallBlock:
    case StmtKind::kGeneration: {
      const auto& node = static_cast<const CallBlockStmt&>(stmt);
      visit_names(node.call.get(), visit);
      visit_names(node.macro.parameters, visit);
      visit_names(node.macro.defaults, visit);
      visit_names(node.macro.body, visit);
      break;
    }
    case StmtKind::kFilterBlock: {
      const auto& node = static_cast<const FilterBlockStmt&>(stmt);
      visit_names(node.body, visit);
      visit_names(node.filter.get(), visit);
      break;
    }
    case StmtKind::kWith: {
      const auto& node = static_cast<const WithStmt&>(stmt);
      visit_names(node.targets, visit);
      visit_names(node.values, visit);
      visit_names(node.body, visit);
      break;
    }
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      break;
  }
}

void visit_names(const Stmts& body, const NameVisitor& visit) {
  for (const StmtPtr& stmt : body) visit_names(*stmt, visit);
}

void visit_statements(const Stmts& body, const StmtVisitor& visit) {
  for (const StmtPtr& stmt : body) {
    visit(*stmt);
    switch (stmt->kind) {
      case StmtKind::kFor:
        visit_statements(static_cast<const ForStmt&>(*stmt).body, visit);
        visit_statements(static_cast<const ForStmt&>(*stmt).otherwise, visit);
        break;
      case StmtKind::kIf:
        for (const IfBranch& branch : static_cast<const IfStmt&>(*stmt).branches) {
          visit_statements(branch.body, visit);
        }
        visit_statements(static_cast<const IfStmt&>(*stmt).otherwise, visit);
        break;
      case StmtKind::kSetBlock:
        visit_statements(static_cast<const SetBlockStmt&>(*stmt).body, visit);
        break;
      case StmtKind::kMacro:
        visit_statements(static_cast<const MacroStmt&>(*stmt).macro.body, visit);
        break;
      case StmtKind::kCallBlock:
      case StmtKind::kGeneration:
        visit_statements(static_cast<const CallBlockStmt&>(*stmt).macro.body, visit);
        break;
      case StmtKind::kFilterBlock:
        visit_statements(static_cast<const FilterBlockStmt&>(*stmt).body, visit);
        break;
      case StmtKind::kWith:
        visit_statements(static_cast<const WithStmt&>(*stmt).body, visit);
        break;
      case StmtKind::kOutput:
      case StmtKind::kSet:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        break;
    }
  }
}

void visit_expressions(const Expr* expr, const ExprVisitor& visit) {
  if (expr == nullptr) return;
  visit(*expr);
  for_children(*expr, [&](const Expr* child) { visit_expressions(child, visit); });
}

void for_own_expressions(const Stmt& stmt, const ExprVisitor& visit) {
  const auto one = [&](const ExprPtr& expr) {
    if (expr) visit(*expr);
  };
  switch (stmt.kind) {
    case StmtKind::kOutput:
      for (const ExprPtr& part : static_cast<const OutputStmt&>(stmt).parts) one(part);
      break;
    case StmtKind::kFor:
      one(static_cast<const ForStmt&>(stmt).iterable);
      one(static_cast<const ForStmt&>(stmt).test);
      break;
    case StmtKind::kIf:
      for (const IfBranch& branch : static_cast<const IfStmt&>(stmt).branches) one(branch.test);
      break;
    case StmtKind::kSet:
      one(static_cast<const SetStmt&>(stmt).value);
      break;
    case StmtKind::kSetBlock:
      one(static_cast<const SetBlockStmt&>(stmt).filter);
      break;
    case StmtKind::kCallBlock:
      one(static_cast<const CallBlockStmt&>(stmt).call);
      break;
    case StmtKind::kFilterBlock:
      one(static_cast<const FilterBlockStmt&>(stmt).filter);
      break;
    case StmtKind::kWith:
      for (const ExprPtr& value : static_cast<const WithStmt&>(stmt).values) one(value);
      break;
    case StmtKind::kMacro:
    case StmtKind::kGeneration:
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      break;
  }
}

}  // namespace headrace::jinja
