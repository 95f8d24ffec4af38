// Expressions and assignment targets of a template: jinja2's grammar below its statements.
#pragma once

#include <string_view>

#include "model/chat/ast.h"
#include "model/chat/token_stream.h"

namespace headrace::jinja {

struct TargetForm {
  bool namespaces = false;  // ns.name is a target
};

struct TupleForm {
  bool conditional = true;   // `a if b else c` is taken
  bool parentheses = false;  // stands in brackets, where nothing is the empty tuple
};

/// One expression, or a tuple where commas follow.
ExprPtr parse_tuple(TokenStream& tokens, TupleForm form = {});
ExprPtr parse_expression(TokenStream& tokens);
/// A filter's name and arguments, behind the "|"; operand may be null.
ExprPtr parse_filter(TokenStream& tokens, ExprPtr operand);
/// What a set, for or with assigns to.
ExprPtr parse_target(TokenStream& tokens, TargetForm form = {});
/// A single name that is assigned to.
std::unique_ptr<NameExpr> parse_name(TokenStream& tokens, NameUse use);
/// Marks every name of a target.
void use_names(Expr& target, NameUse use);

}  // namespace headrace::jinja
