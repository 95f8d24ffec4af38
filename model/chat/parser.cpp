#include "model/chat/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "model/chat/expression_parser.h"
#include "model/chat/scopes.h"
#include "model/chat/token_stream.h"

namespace headrace::jinja {
namespace {

constexpr std::array<std::string_view, 8> kUnsupportedTags{
    "include", "import", "from", "extends", "block", "autoescape", "do", "trans"};

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(source) {}

  Tree run() {
    Tree tree;
    tree.body = parse_body({});
    return tree;
  }

 private:
  // ---- statements

  // Statements up to a tag of `ends`, whose name is then the current token. Without ends: to the
  // end.
  Stmts parse_body(std::initializer_list<std::string_view> ends) {
    const TokenStream::Nesting nesting(tokens_);
    Stmts body;
    std::unique_ptr<OutputStmt> output;
    const auto flush = [&] {
      if (output) body.push_back(std::move(output));
    };
    const auto add = [&](int line, ExprPtr part) {
      if (!output) output = std::make_unique<OutputStmt>(StmtKind::kOutput, line);
      output->parts.push_back(std::move(part));
    };
    while (true) {
      const Token& token = tokens_.current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) fail_unclosed(ends);
        flush();
        return body;
      }
      tokens_.advance();
      if (token.kind == TokenKind::kData) {
        add(token.line, std::make_unique<ConstantExpr>(token.line, Value::string(token.text)));
      } else if (token.kind == TokenKind::kVariableBegin) {
        add(token.line, parse_tuple(tokens_));
        tokens_.expect(TokenKind::kVariableEnd, "'end of print statement'");
      } else {
        flush();
        if (std::any_of(ends.begin(), ends.end(),
                        [&](std::string_view end) { return tokens_.at_name(end); })) {
          return body;
        }
        body.push_back(parse_statement(ends));
        tokens_.expect(TokenKind::kBlockEnd, "'end of statement block'");
      }
    }
  }

  [[noreturn]] void fail_unclosed(std::initializer_list<std::string_view> ends) const {
    std::string wanted;
    for (const std::string_view end : ends)
      wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
    tokens_.fail("Unexpected end of template. Jinja was looking for the following tags: " + wanted +
                 ".");
  }

  // The rest of a tag, its body up to a tag of `ends`.
  Stmts parse_block(std::initializer_list<std::string_view> ends) {
    tokens_.skip_operator(":");
    tokens_.expect(TokenKind::kBlockEnd, "'end of statement block'");
    return parse_body(ends);
  }
  // ... and the end tag's name is consumed.
  Stmts parse_whole_block(std::string_view end) {
    Stmts body = parse_block({end});
    tokens_.advance();
    return body;
  }

  StmtPtr parse_statement(std::initializer_list<std::string_view> ends) {
    if (tokens_.current().kind != TokenKind::kName) tokens_.fail("tag name expected");
    const std::string& tag = tokens_.current().text;
    if (tag == "for") return parse_for();
    if (tag == "if") return parse_if();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "print") return parse_print();
    if (tag == "generation") return parse_generation();
    if (tag == "break") return std::make_unique<Stmt>(StmtKind::kBreak, tokens_.advance().line);
    if (tag == "continue")
      return std::make_unique<Stmt>(StmtKind::kContinue, tokens_.advance().line);
    if (std::find(kUnsupportedTags.begin(), kUnsupportedTags.end(), tag) !=
        kUnsupportedTags.end()) {
      tokens_.fail("the tag '" + tag + "' is not supported in chat templates");
    }
    std::string message = "Encountered unknown tag '" + tag + "'.";
    if (ends.size() > 0) {
      message += " Jinja was looking for the following tags:";
      for (const std::string_view end : ends) message += " '" + std::string(end) + "'";
      message += ".";
    }
    tokens_.fail(message);
  }

  StmtPtr parse_for() {
    auto node = std::make_unique<ForStmt>(StmtKind::kFor, tokens_.advance().line);
    node->target = parse_target(tokens_);
    tokens_.expect_name("in");
    node->iterable = parse_tuple(tokens_, {.conditional = false});
    if (tokens_.skip_name("if")) {
      node->test = parse_expression(tokens_);
      node->test_target = copy_target(*node->target);
    }
    node->recursive = tokens_.skip_name("recursive");
    node->body = parse_block({"endfor", "else"});
    if (tokens_.advance().text == "else") node->otherwise = parse_whole_block("endfor");
    return node;
  }

  static ExprPtr copy_target(const Expr& target) {
    if (target.kind == ExprKind::kName) {
      auto name =
          std::make_unique<NameExpr>(target.line, static_cast<const NameExpr&>(target).name);
      name->use = NameUse::kStore;
      return name;
    }
    auto tuple = std::make_unique<ItemsExpr>(ExprKind::kTuple, target.line);
    for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) {
      tuple->items.push_back(copy_target(*item));
    }
    return tuple;
  }

  StmtPtr parse_if() {
    auto node = std::make_unique<IfStmt>(StmtKind::kIf, tokens_.current().line);
    do {
      IfBranch branch;
      branch.line = tokens_.advance().line;
      branch.test = parse_tuple(tokens_, {.conditional = false});
      branch.body = parse_block({"elif", "else", "endif"});
      node->branches.push_back(std::move(branch));
    } while (tokens_.at_name("elif"));
    if (tokens_.advance().text == "else") node->otherwise = parse_whole_block("endif");
    return node;
  }

  StmtPtr parse_set() {
    const int line = tokens_.advance().line;
    ExprPtr target = parse_target(tokens_, {.namespaces = true});
    if (tokens_.skip_operator("=")) {
      auto node = std::make_unique<SetStmt>(StmtKind::kSet, line);
      node->target = std::move(target);
      node->value = parse_tuple(tokens_);
      return node;
    }
    auto node = std::make_unique<SetBlockStmt>(StmtKind::kSetBlock, line);
    node->target = std::move(target);
    while (tokens_.skip_operator("|"))
      node->filter = parse_filter(tokens_, std::move(node->filter));
    node->body = parse_whole_block("endset");
    return node;
  }

  StmtPtr parse_macro() {
    auto node = std::make_unique<MacroStmt>(StmtKind::kMacro, tokens_.advance().line);
    node->macro.name = parse_name(tokens_, NameUse::kStore)->name;
    parse_signature(node->macro);
    node->macro.body = parse_whole_block("endmacro");
    return node;
  }

  void parse_signature(MacroBody& macro) {
    tokens_.expect_operator("(");
    while (!tokens_.at_operator(")")) {
      if (!macro.parameters.empty()) tokens_.expect_operator(",");
      auto parameter = parse_name(tokens_, NameUse::kParameter);
      for (const ExprPtr& other : macro.parameters) {
        if (static_cast<const NameExpr&>(*other).name == parameter->name) {
          tokens_.fail("duplicate argument '" + parameter->name + "' in macro definition");
        }
      }
      if (tokens_.skip_operator("=")) {
        macro.defaults.push_back(parse_expression(tokens_));
      } else if (!macro.defaults.empty()) {
        tokens_.fail("non-default argument follows default argument");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    tokens_.expect_operator(")");
  }

  StmtPtr parse_call_block() {
    auto node = std::make_unique<CallBlockStmt>(StmtKind::kCallBlock, tokens_.advance().line);
    if (tokens_.at_operator("(")) parse_signature(node->macro);
    node->call = parse_expression(tokens_);
    if (node->call->kind != ExprKind::kCall) throw SyntaxError(node->line, "expected call");
    node->macro.body = parse_whole_block("endcall");
    return node;
  }

  StmtPtr parse_generation() {
    auto node = std::make_unique<CallBlockStmt>(StmtKind::kGeneration, tokens_.advance().line);
    node->macro.body = parse_whole_block("endgeneration");
    return node;
  }

  StmtPtr parse_filter_block() {
    auto node = std::make_unique<FilterBlockStmt>(StmtKind::kFilterBlock, tokens_.advance().line);
    do {
      node->filter = parse_filter(tokens_, std::move(node->filter));
    } while (tokens_.skip_operator("|"));
    node->body = parse_whole_block("endfilter");
    return node;
  }

  StmtPtr parse_with() {
    auto node = std::make_unique<WithStmt>(StmtKind::kWith, tokens_.advance().line);
    while (tokens_.current().kind != TokenKind::kBlockEnd) {
      if (!node->targets.empty()) tokens_.expect_operator(",");
      ExprPtr target = parse_target(tokens_);
      use_names(*target, NameUse::kParameter);
      node->targets.push_back(std::move(target));
      tokens_.expect_operator("=");
      node->values.push_back(parse_expression(tokens_));
    }
    node->body = parse_whole_block("endwith");
    return node;
  }

  StmtPtr parse_print() {
    auto node = std::make_unique<OutputStmt>(StmtKind::kOutput, tokens_.advance().line);
    while (tokens_.current().kind != TokenKind::kBlockEnd) {
      if (!node->parts.empty()) tokens_.expect_operator(",");
      node->parts.push_back(parse_expression(tokens_));
    }
    return node;
  }

  TokenStream tokens_;
};

}  // namespace

Tree parse(std::string_view source) {
  Tree tree = Parser(source).run();
  resolve_names(tree);
  return tree;
}

}  // namespace headrace::jinja
