#include "model/chat/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "model/chat/filters.h"
#include "model/chat/methods.h"
#include "model/chat/scopes.h"
#include "model/chat/value_tests.h"

namespace headrace::jinja {
namespace {

constexpr int kMaxTreeDepth = 500;  // of one expression: what the interpreter's stack is sized for
constexpr int kMaxNesting = 100;    // of brackets and of statements

constexpr std::array<std::string_view, 8> kUnsupportedTags{
    "include", "import", "from", "extends", "block", "autoescape", "do", "trans"};

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Tree run() {
    Tree tree;
    tree.body = parse_body({});
    return tree;
  }

 private:
  // Counts how deep the parser is inside itself.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : depth_(parser.nesting_) {
      if (++depth_ > kMaxNesting) {
        throw SyntaxError(parser.current().line,
                          "nested deeper than " + std::to_string(kMaxNesting) + " levels");
      }
    }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    int& depth_;
  };

  // ---- tokens

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& advance() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at_name(std::string_view name) const { return is_name(current(), name); }
  bool at_operator(std::string_view text) const { return is_operator(current(), text); }
  static bool is_name(const Token& token, std::string_view name) {
    return token.kind == TokenKind::kName && token.text == name;
  }
  static bool is_operator(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kOperator && token.text == text;
  }
  bool skip_name(std::string_view name) {
    if (!at_name(name)) return false;
    advance();
    return true;
  }
  bool skip_operator(std::string_view text) {
    if (!at_operator(text)) return false;
    advance();
    return true;
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) fail_expected("'" + std::string(text) + "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected("'" + std::string(name) + "'");
  }
  const Token& expect(TokenKind kind, const char* what) {
    if (current().kind != kind) fail_expected(what);
    return advance();
  }
  [[noreturn]] void fail(const std::string& message) const { throw SyntaxError(current().line, message); }
  [[noreturn]] void fail_expected(const std::string& what) const {
    fail("expected " + what + ", got '" + describe(current()) + "'");
  }

  // ---- statements

  // Statements up to a tag of `ends`, whose name is then the current token. Without ends: to the end.
  Stmts parse_body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
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
      const Token& token = current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) fail_unclosed(ends);
        flush();
        return body;
      }
      advance();
      if (token.kind == TokenKind::kData) {
        add(token.line, std::make_unique<ConstantExpr>(token.line, Value::string(token.text)));
      } else if (token.kind == TokenKind::kVariableBegin) {
        add(token.line, parse_tuple({}));
        expect(TokenKind::kVariableEnd, "'end of print statement'");
      } else {
        flush();
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return at_name(end); })) {
          return body;
        }
        body.push_back(parse_statement(ends));
        expect(TokenKind::kBlockEnd, "'end of statement block'");
      }
    }
  }

  [[noreturn]] void fail_unclosed(std::initializer_list<std::string_view> ends) const {
    std::string wanted;
    for (const std::string_view end : ends) wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
    fail("Unexpected end of template. Jinja was looking for the following tags: " + wanted + ".");
  }

  // The rest of a tag, its body up to a tag of `ends`.
  Stmts parse_block(std::initializer_list<std::string_view> ends) {
    skip_operator(":");
    expect(TokenKind::kBlockEnd, "'end of statement block'");
    return parse_body(ends);
  }
  // ... and the end tag's name is consumed.
  Stmts parse_whole_block(std::string_view end) {
    Stmts body = parse_block({end});
    advance();
    return body;
  }

  StmtPtr parse_statement(std::initializer_list<std::string_view> ends) {
    if (current().kind != TokenKind::kName) fail("tag name expected");
    const std::string& tag = current().text;
    if (tag == "for") return parse_for();
    if (tag == "if") return parse_if();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "print") return parse_print();
    if (tag == "generation") return parse_generation();
    if (tag == "break") return std::make_unique<Stmt>(StmtKind::kBreak, advance().line);
    if (tag == "continue") return std::make_unique<Stmt>(StmtKind::kContinue, advance().line);
    if (std::find(kUnsupportedTags.begin(), kUnsupportedTags.end(), tag) != kUnsupportedTags.end()) {
      fail("the tag '" + tag + "' is not supported in chat templates");
    }
    std::string message = "Encountered unknown tag '" + tag + "'.";
    if (ends.size() > 0) {
      message += " Jinja was looking for the following tags:";
      for (const std::string_view end : ends) message += " '" + std::string(end) + "'";
      message += ".";
    }
    fail(message);
  }

  StmtPtr parse_for() {
    auto node = std::make_unique<ForStmt>(StmtKind::kFor, advance().line);
    node->target = parse_target({.tuple = true, .end = "in"});
    expect_name("in");
    node->iterable = parse_tuple({.conditional = false, .end = "recursive"});
    if (skip_name("if")) {
      node->test = parse_expression();
      node->test_target = copy_target(*node->target);
    }
    node->recursive = skip_name("recursive");
    node->body = parse_block({"endfor", "else"});
    if (advance().text == "else") node->otherwise = parse_whole_block("endfor");
    return node;
  }

  static ExprPtr copy_target(const Expr& target) {
    if (target.kind == ExprKind::kName) {
      auto name = std::make_unique<NameExpr>(target.line, static_cast<const NameExpr&>(target).name);
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
    auto node = std::make_unique<IfStmt>(StmtKind::kIf, current().line);
    do {
      IfBranch branch;
      branch.line = advance().line;
      branch.test = parse_tuple({.conditional = false});
      branch.body = parse_block({"elif", "else", "endif"});
      node->branches.push_back(std::move(branch));
    } while (at_name("elif"));
    if (advance().text == "else") node->otherwise = parse_whole_block("endif");
    return node;
  }

  StmtPtr parse_set() {
    const int line = advance().line;
    ExprPtr target = parse_target({.tuple = true, .namespaces = true});
    if (skip_operator("=")) {
      auto node = std::make_unique<SetStmt>(StmtKind::kSet, line);
      node->target = std::move(target);
      node->value = parse_tuple({});
      return node;
    }
    auto node = std::make_unique<SetBlockStmt>(StmtKind::kSetBlock, line);
    node->target = std::move(target);
    while (skip_operator("|")) node->filter = parse_filter(std::move(node->filter));
    node->body = parse_whole_block("endset");
    return node;
  }

  StmtPtr parse_macro() {
    auto node = std::make_unique<MacroStmt>(StmtKind::kMacro, advance().line);
    node->macro.name = parse_name(NameUse::kStore)->name;
    parse_signature(node->macro);
    node->macro.body = parse_whole_block("endmacro");
    return node;
  }

  void parse_signature(MacroBody& macro) {
    expect_operator("(");
    while (!at_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      auto parameter = parse_name(NameUse::kParameter);
      for (const ExprPtr& other : macro.parameters) {
        if (static_cast<const NameExpr&>(*other).name == parameter->name) {
          fail("duplicate argument '" + parameter->name + "' in macro definition");
        }
      }
      if (skip_operator("=")) {
        macro.defaults.push_back(parse_expression());
      } else if (!macro.defaults.empty()) {
        fail("non-default argument follows default argument");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    expect_operator(")");
  }

  StmtPtr parse_call_block() {
    auto node = std::make_unique<CallBlockStmt>(StmtKind::kCallBlock, advance().line);
    if (at_operator("(")) parse_signature(node->macro);
    node->call = parse_expression();
    if (node->call->kind != ExprKind::kCall) throw SyntaxError(node->line, "expected call");
    node->macro.body = parse_whole_block("endcall");
    return node;
  }

  StmtPtr parse_generation() {
    auto node = std::make_unique<CallBlockStmt>(StmtKind::kGeneration, advance().line);
    node->macro.body = parse_whole_block("endgeneration");
    return node;
  }

  StmtPtr parse_filter_block() {
    auto node = std::make_unique<FilterBlockStmt>(StmtKind::kFilterBlock, advance().line);
    do {
      node->filter = parse_filter(std::move(node->filter));
    } while (skip_operator("|"));
    node->body = parse_whole_block("endfilter");
    return node;
  }

  StmtPtr parse_with() {
    auto node = std::make_unique<WithStmt>(StmtKind::kWith, advance().line);
    while (current().kind != TokenKind::kBlockEnd) {
      if (!node->targets.empty()) expect_operator(",");
      ExprPtr target = parse_target({.tuple = true});
      use_names(*target, NameUse::kParameter);
      node->targets.push_back(std::move(target));
      expect_operator("=");
      node->values.push_back(parse_expression());
    }
    node->body = parse_whole_block("endwith");
    return node;
  }

  StmtPtr parse_print() {
    auto node = std::make_unique<OutputStmt>(StmtKind::kOutput, advance().line);
    while (current().kind != TokenKind::kBlockEnd) {
      if (!node->parts.empty()) expect_operator(",");
      node->parts.push_back(parse_expression());
    }
    return node;
  }

  // ---- targets

  struct TargetForm {
    bool tuple = true;
    bool namespaces = false;  // ns.name is a target
    std::string_view end = {};
  };

  ExprPtr parse_target(TargetForm form) {
    const int line = current().line;
    Exprs items;
    bool tuple = false;
    while (true) {
      if (!items.empty()) expect_operator(",");
      if (at_tuple_end(form.end)) break;
      items.push_back(parse_primary(form.namespaces));
      if (!at_operator(",")) break;
      tuple = true;
    }
    if (!tuple && items.empty()) fail_expected("an expression");
    ExprPtr target = tuple ? make_items(ExprKind::kTuple, line, std::move(items)) : std::move(items[0]);
    check_target(*target);
    use_names(*target, NameUse::kStore);
    return target;
  }

  static void check_target(const Expr& target) {
    if (target.kind == ExprKind::kName || target.kind == ExprKind::kNamespaceTarget) return;
    if (target.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) check_target(*item);
      return;
    }
    throw SyntaxError(target.line, "can't assign to this expression; a name or a tuple of names is needed");
  }

  static void use_names(Expr& target, NameUse use) {
    if (target.kind == ExprKind::kName) {
      static_cast<NameExpr&>(target).use = use;
    } else if (target.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : static_cast<ItemsExpr&>(target).items) use_names(*item, use);
    }
  }

  std::unique_ptr<NameExpr> parse_name(NameUse use) {
    const Token& token = expect(TokenKind::kName, "'name'");
    if (is_literal_name(token.text)) throw SyntaxError(token.line, "can't assign to '" + token.text + "'");
    auto name = std::make_unique<NameExpr>(token.line, token.text);
    name->use = use;
    return name;
  }

  static bool is_literal_name(std::string_view name) {
    return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
           name == "None";
  }

  // ---- expressions, loosest binding first

  struct TupleForm {
    bool conditional = true;  // `a if b else c` is taken
    std::string_view end = {};
    bool parentheses = false;
  };

  bool at_tuple_end(std::string_view end) const {
    const TokenKind kind = current().kind;
    return kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || at_operator(")") ||
           (!end.empty() && at_name(end));
  }

  ExprPtr parse_tuple(TupleForm form) {
    const int line = current().line;
    Exprs items;
    bool tuple = false;
    while (true) {
      if (!items.empty()) expect_operator(",");
      if (at_tuple_end(form.end)) break;
      items.push_back(form.conditional ? parse_expression() : parse_or());
      if (!at_operator(",")) break;
      tuple = true;
    }
    if (!tuple && !items.empty()) return std::move(items[0]);
    if (!tuple && !form.parentheses) {
      fail("Expected an expression, got '" + describe(current()) + "'");
    }
    return make_items(ExprKind::kTuple, line, std::move(items));
  }

  ExprPtr parse_expression() {
    const Nesting nesting(*this);
    int line = current().line;
    ExprPtr first = parse_or();
    while (skip_name("if")) {
      auto node = std::make_unique<ConditionalExpr>(ExprKind::kConditional, line);
      node->then = std::move(first);
      node->test = parse_or();
      if (skip_name("else")) node->otherwise = parse_expression();
      grow(*node, {node->then.get(), node->test.get(), node->otherwise.get()});
      first = std::move(node);
      line = current().line;
    }
    return first;
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (at_name("or")) {
      const int line = advance().line;
      left = make_binary(ExprKind::kOr, line, std::move(left), parse_and());
    }
    return left;
  }

  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (at_name("and")) {
      const int line = advance().line;
      left = make_binary(ExprKind::kAnd, line, std::move(left), parse_not());
    }
    return left;
  }

  ExprPtr parse_not() {
    if (!at_name("not")) return parse_compare();
    const Nesting nesting(*this);
    const int line = advance().line;
    return make_unary(ExprKind::kNot, line, parse_not());
  }

  std::optional<Comparison> take_comparison() {
    static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kOperators{{
        {"==", Comparison::kEqual},
        {"!=", Comparison::kNotEqual},
        {"<", Comparison::kLess},
        {"<=", Comparison::kLessEqual},
        {">", Comparison::kGreater},
        {">=", Comparison::kGreaterEqual},
    }};
    for (const auto& [text, comparison] : kOperators) {
      if (skip_operator(text)) return comparison;
    }
    if (skip_name("in")) return Comparison::kIn;
    if (at_name("not") && is_name(look(), "in")) {
      advance();
      advance();
      return Comparison::kNotIn;
    }
    return std::nullopt;
  }

  ExprPtr parse_compare() {
    const int line = current().line;
    ExprPtr first = parse_sum();
    std::unique_ptr<CompareExpr> node;
    while (const auto comparison = take_comparison()) {
      if (!node) {
        node = std::make_unique<CompareExpr>(ExprKind::kCompare, line);
        node->first = std::move(first);
        grow(*node, {node->first.get()});
      }
      node->rest.emplace_back(*comparison, parse_sum());
      grow(*node, {node->rest.back().second.get()});
    }
    if (node) return node;
    return first;
  }

  ExprPtr parse_sum() {
    ExprPtr left = parse_concat();
    while (at_operator("+") || at_operator("-")) {
      const Token& token = advance();
      const auto op = token.text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
      left = make_binary(ExprKind::kBinary, token.line, std::move(left), parse_concat(), op);
    }
    return left;
  }

  ExprPtr parse_concat() {
    const int line = current().line;
    ExprPtr first = parse_product();
    if (!at_operator("~")) return first;
    Exprs items;
    items.push_back(std::move(first));
    while (skip_operator("~")) items.push_back(parse_product());
    return make_items(ExprKind::kConcat, line, std::move(items));
  }

  ExprPtr parse_product() {
    ExprPtr left = parse_power();
    while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%")) {
      const Token& token = advance();
      const auto op = token.text == "*"    ? BinaryOperator::kMultiply
                      : token.text == "/"  ? BinaryOperator::kDivide
                      : token.text == "//" ? BinaryOperator::kFloorDivide
                                           : BinaryOperator::kModulo;
      left = make_binary(ExprKind::kBinary, token.line, std::move(left), parse_power(), op);
    }
    return left;
  }

  // Unlike Python's, jinja2's ** binds to the left, and a sign binds tighter.
  ExprPtr parse_power() {
    ExprPtr left = parse_unary(true);
    while (at_operator("**")) {
      const int line = advance().line;
      left = make_binary(ExprKind::kBinary, line, std::move(left), parse_unary(true), BinaryOperator::kPower);
    }
    return left;
  }

  ExprPtr parse_unary(bool with_filters) {
    const Nesting nesting(*this);
    const int line = current().line;
    ExprPtr node;
    if (skip_operator("-")) {
      node = make_unary(ExprKind::kUnary, line, parse_unary(false), UnaryOperator::kNegate);
    } else if (skip_operator("+")) {
      node = make_unary(ExprKind::kUnary, line, parse_unary(false), UnaryOperator::kPlus);
    } else {
      node = parse_primary(false);
    }
    node = parse_postfix(std::move(node));
    return with_filters ? parse_filters(std::move(node)) : std::move(node);
  }

  ExprPtr parse_primary(bool namespaces) {
    const Token& token = current();
    switch (token.kind) {
      case TokenKind::kName: return parse_primary_name(namespaces);
      case TokenKind::kString: {
        std::string text;
        while (current().kind == TokenKind::kString) text += advance().text;
        return std::make_unique<ConstantExpr>(token.line, Value::string(std::move(text)));
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        advance();
        return std::make_unique<ConstantExpr>(token.line, token.number);
      case TokenKind::kOperator: break;
      default: fail("unexpected '" + describe(token) + "'");
    }
    const Nesting nesting(*this);
    if (skip_operator("(")) {
      ExprPtr inner = parse_tuple({.parentheses = true});
      expect_operator(")");
      return inner;
    }
    if (skip_operator("[")) return parse_list(token.line);
    if (skip_operator("{")) return parse_dict(token.line);
    fail("unexpected '" + token.text + "'");
  }

  ExprPtr parse_primary_name(bool namespaces) {
    const Token& token = advance();
    if (token.text == "true" || token.text == "True") return constant(token.line, Value::boolean(true));
    if (token.text == "false" || token.text == "False") return constant(token.line, Value::boolean(false));
    if (token.text == "none" || token.text == "None") return constant(token.line, Value::none());
    if (namespaces && skip_operator(".")) {
      auto target = std::make_unique<NamespaceTargetExpr>(ExprKind::kNamespaceTarget, token.line);
      target->name = token.text;
      target->attribute = expect(TokenKind::kName, "'name'").text;
      return target;
    }
    return std::make_unique<NameExpr>(token.line, token.text);
  }

  static ExprPtr constant(int line, Value value) {
    return std::make_unique<ConstantExpr>(line, std::move(value));
  }

  ExprPtr parse_list(int line) {
    Exprs items;
    while (!at_operator("]")) {
      if (!items.empty()) expect_operator(",");
      if (at_operator("]")) break;
      items.push_back(parse_expression());
    }
    expect_operator("]");
    return make_items(ExprKind::kList, line, std::move(items));
  }

  ExprPtr parse_dict(int line) {
    Exprs items;
    while (!at_operator("}")) {
      if (!items.empty()) expect_operator(",");
      if (at_operator("}")) break;
      items.push_back(parse_expression());
      expect_operator(":");
      items.push_back(parse_expression());
    }
    expect_operator("}");
    return make_items(ExprKind::kDict, line, std::move(items));
  }

  ExprPtr parse_postfix(ExprPtr node) {
    while (true) {
      if (at_operator(".") || at_operator("[")) {
        node = parse_subscript(std::move(node));
      } else if (at_operator("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_filters(ExprPtr node) {
    while (true) {
      if (skip_operator("|")) {
        node = parse_filter(std::move(node));
      } else if (at_name("is")) {
        node = parse_test(std::move(node));
      } else if (at_operator("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_subscript(ExprPtr object) {
    const Token& token = advance();
    if (token.text == ".") {
      const Token& name = advance();
      if (name.kind == TokenKind::kName) {
        auto node = std::make_unique<AttributeExpr>(ExprKind::kAttribute, token.line);
        node->object = std::move(object);
        node->name = name.text;
        node->method = find_method(name.text);
        grow(*node, {node->object.get()});
        return node;
      }
      if (name.kind != TokenKind::kInteger) throw SyntaxError(name.line, "expected name or number");
      return make_item(token.line, std::move(object), constant(name.line, name.number));
    }
    Exprs indices;
    while (!at_operator("]")) {
      if (!indices.empty()) expect_operator(",");
      indices.push_back(parse_index());
    }
    expect_operator("]");
    if (indices.size() == 1) return make_item(token.line, std::move(object), std::move(indices[0]));
    for (const ExprPtr& index : indices) {
      if (index->kind == ExprKind::kSlice) throw SyntaxError(index->line, "a slice cannot be part of a tuple");
    }
    ExprPtr index = make_items(ExprKind::kTuple, token.line, std::move(indices));
    return make_item(token.line, std::move(object), std::move(index));
  }

  ExprPtr parse_index() {
    const int line = current().line;
    ExprPtr start;
    if (!at_operator(":")) {
      start = parse_expression();
      if (!at_operator(":")) return start;
    }
    advance();
    auto node = std::make_unique<SliceExpr>(ExprKind::kSlice, line);
    node->start = std::move(start);
    const auto at_end = [&] { return at_operator("]") || at_operator(","); };
    if (!at_operator(":") && !at_end()) node->stop = parse_expression();
    if (skip_operator(":") && !at_end()) node->step = parse_expression();
    grow(*node, {node->start.get(), node->stop.get(), node->step.get()});
    return node;
  }

  CallArguments parse_arguments() {
    const int line = current().line;
    expect_operator("(");
    CallArguments arguments;
    const auto ensure = [&](bool valid) {
      if (!valid) throw SyntaxError(line, "invalid syntax for function call expression");
    };
    for (bool first = true; !at_operator(")"); first = false) {
      if (!first) {
        expect_operator(",");
        if (at_operator(")")) break;
      }
      if (skip_operator("*")) {
        ensure(!arguments.star && !arguments.double_star);
        arguments.star = parse_expression();
      } else if (skip_operator("**")) {
        ensure(!arguments.double_star);
        arguments.double_star = parse_expression();
      } else if (current().kind == TokenKind::kName && is_operator(look(), "=")) {
        ensure(!arguments.double_star);
        Value key = Value::string(advance().text);
        key.make_immortal();
        advance();
        for (const auto& [other, value] : arguments.keyword) {
          if (equal(other, key)) throw SyntaxError(line, "keyword argument repeated: " + key.text());
        }
        arguments.keyword.emplace_back(std::move(key), parse_expression());
      } else {
        ensure(!arguments.star && !arguments.double_star && arguments.keyword.empty());
        arguments.positional.push_back(parse_expression());
      }
    }
    expect_operator(")");
    return arguments;
  }

  ExprPtr parse_call(ExprPtr callee) {
    auto node = std::make_unique<CallExpr>(ExprKind::kCall, current().line);
    node->callee = std::move(callee);
    node->arguments = parse_arguments();
    grow(*node, {node->callee.get()});
    grow_arguments(*node, node->arguments);
    return node;
  }

  std::string parse_dotted_name() {
    std::string name = expect(TokenKind::kName, "'name'").text;
    while (skip_operator(".")) name += "." + expect(TokenKind::kName, "'name'").text;
    return name;
  }

  // Behind the "|".
  ExprPtr parse_filter(ExprPtr operand) {
    auto node = std::make_unique<ApplyExpr>(ExprKind::kFilter, current().line);
    node->operand = std::move(operand);
    node->name = parse_dotted_name();
    node->filter = find_filter(node->name);
    if (at_operator("(")) node->arguments = parse_arguments();
    grow(*node, {node->operand.get()});
    grow_arguments(*node, node->arguments);
    return node;
  }

  ExprPtr parse_test(ExprPtr operand) {
    const int line = advance().line;
    const bool negated = skip_name("not");
    auto node = std::make_unique<ApplyExpr>(ExprKind::kTest, line);
    node->operand = std::move(operand);
    node->name = parse_dotted_name();
    node->test = find_test(node->name);
    if (at_operator("(")) {
      node->arguments = parse_arguments();
    } else if (at_test_argument()) {
      if (at_name("is")) fail("You cannot chain multiple tests with is");
      node->arguments.positional.push_back(parse_postfix(parse_primary(false)));
    }
    grow(*node, {node->operand.get()});
    grow_arguments(*node, node->arguments);
    if (!negated) return node;
    return make_unary(ExprKind::kNot, line, std::move(node));
  }

  bool at_test_argument() const {
    switch (current().kind) {
      case TokenKind::kName: return !at_name("else") && !at_name("or") && !at_name("and");
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat: return true;
      default: return at_operator("[") || at_operator("{");
    }
  }

  // ---- nodes

  static void grow(Expr& node, std::initializer_list<const Expr*> children) {
    for (const Expr* child : children) {
      if (child != nullptr) node.depth = std::max(node.depth, child->depth + 1);
    }
    if (node.depth > kMaxTreeDepth) {
      throw SyntaxError(node.line, "an expression is nested deeper than " + std::to_string(kMaxTreeDepth) +
                                       " levels");
    }
  }

  static void grow_arguments(Expr& node, const CallArguments& arguments) {
    for (const ExprPtr& argument : arguments.positional) grow(node, {argument.get()});
    for (const auto& [name, argument] : arguments.keyword) grow(node, {argument.get()});
    grow(node, {arguments.star.get(), arguments.double_star.get()});
  }

  static ExprPtr make_items(ExprKind kind, int line, Exprs items) {
    auto node = std::make_unique<ItemsExpr>(kind, line);
    node->items = std::move(items);
    for (const ExprPtr& item : node->items) grow(*node, {item.get()});
    return node;
  }

  static ExprPtr make_unary(ExprKind kind, int line, ExprPtr operand,
                            UnaryOperator op = UnaryOperator::kNegate) {
    auto node = std::make_unique<UnaryExpr>(kind, line);
    node->op = op;
    node->operand = std::move(operand);
    grow(*node, {node->operand.get()});
    return node;
  }

  static ExprPtr make_binary(ExprKind kind, int line, ExprPtr left, ExprPtr right,
                             BinaryOperator op = BinaryOperator::kAdd) {
    auto node = std::make_unique<BinaryExpr>(kind, line);
    node->op = op;
    node->left = std::move(left);
    node->right = std::move(right);
    grow(*node, {node->left.get(), node->right.get()});
    return node;
  }

  static ExprPtr make_item(int line, ExprPtr object, ExprPtr index) {
    auto node = std::make_unique<ItemExpr>(ExprKind::kItem, line);
    node->object = std::move(object);
    node->index = std::move(index);
    grow(*node, {node->object.get(), node->index.get()});
    return node;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

Tree parse(std::string_view source) {
  Tree tree = Parser(source).run();
  resolve_names(tree);
  return tree;
}

}  // namespace headrace::jinja
