// From tokens to a tree: jinja2's grammar with the tags of transformers' environment.
#pragma once

#include <string_view>

#include "model/chat/ast.h"
#include "model/chat/lexer.h"

namespace headrace::jinja {

/// The tree with its names resolved. Throws SyntaxError for what jinja2 refuses to compile and for
/// constructs that are not supported, by name.
Tree parse(std::string_view source);

}  // namespace headrace::jinja
