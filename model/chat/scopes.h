// Which variable a name means. jinja2 compiles a template to Python functions and decides at
// compile time, from where a name is first read and written, whether it is a local, an outer
// scope's variable or the context's; this reproduces that analysis.
#pragma once

#include "model/chat/ast.h"

namespace headrace::jinja {

/// Fills the slots, scopes and functions of the tree. Throws SyntaxError.
void resolve_names(Tree& tree);

}  // namespace headrace::jinja
