#include "model/chat/expression_parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "model/chat/filters.h"
#include "model/chat/methods.h"
#include "model/chat/value_tests.h"

namespace headrace::jinja {
namespace {

constexpr int kMaxTreeDepth = 500;  // of one expression: what the interpreter's stack is sized for

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExprPtr parse_target(TargetForm form) {
    const int line = tokens_.current().line;
    Exprs items;
    bool tuple = false;
    while (true) {
      if (!items.empty()) tokens_.expect_operator(",");
      if (at_tuple_end()) break;
      items.push_back(parse_primary(form.namespaces));
      if (!tokens_.at_operator(",")) break;
      tuple = true;
    }
    if (!tuple && items.empty()) tokens_.fail_expected("an expression");
    ExprPtr target =
        tuple ? make_items(ExprKind::kTuple, line, std::move(items)) : std::move(items[0]);
    check_target(*target);
    use_names(*target, NameUse::kStore);
    return target;
  }

  std::unique_ptr<NameExpr> parse_name(NameUse use) {
    const Token& token = tokens_.expect(TokenKind::kName, "'name'");
    if (is_literal_name(token.text))
      throw SyntaxError(token.line, "can't assign to '" + token.text + "'");
    auto name = std::make_unique<NameExpr>(token.line, token.text);
    name->use = use;
    return name;
  }

  ExprPtr parse_tuple(TupleForm form) {
    const int line = tokens_.current().line;
    Exprs items;
    bool tuple = false;
    while (true) {
      if (!items.empty()) tokens_.expect_operator(",");
      if (at_tuple_end()) break;
      items.push_back(form.conditional ? parse_expression() : parse_or());
      if (!tokens_.at_operator(",")) break;
      tuple = true;
    }
    if (!tuple && !items.empty()) return std::move(items[0]);
    if (!tuple && !form.parentheses) {
      tokens_.fail("Expected an expression, got '" + describe(tokens_.current()) + "'");
    }
    return make_items(ExprKind::kTuple, line, std::move(items));
  }

  ExprPtr parse_expression() {
    const TokenStream::Nesting nesting(tokens_);
    int line = tokens_.current().line;
    ExprPtr first = parse_or();
    while (tokens_.skip_name("if")) {
      auto node = std::make_unique<ConditionalExpr>(ExprKind::kConditional, line);
      node->then = std::move(first);
      node->test = parse_or();
      if (tokens_.skip_name("else")) node->otherwise = parse_expression();
      grow(*node, {node->then.get(), node->test.get(), node->otherwise.get()});
      first = std::move(node);
      line = tokens_.current().line;
    }
    return first;
  }

  // Behind the "|".
  ExprPtr parse_filter(ExprPtr operand) {
    auto node = std::make_unique<ApplyExpr>(ExprKind::kFilter, tokens_.current().line);
    node->operand = std::move(operand);
    node->name = parse_dotted_name();
    node->filter = find_filter(node->name);
    if (tokens_.at_operator("(")) node->arguments = parse_arguments();
    grow(*node, {node->operand.get()});
    grow_arguments(*node, node->arguments);
    return node;
  }

 private:
  static void check_target(const Expr& target) {
    if (target.kind == ExprKind::kName || target.kind == ExprKind::kNamespaceTarget) return;
    if (target.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) check_target(*item);
      return;
    }
    throw SyntaxError(target.line,
                      "can't assign to this expression; a name or a tuple of names is needed");
  }

  static bool is_literal_name(std::string_view name) {
    return name == "true" || name == "True" || name == "false" || name == "False" ||
           name == "none" || name == "None";
  }

  // ---- expressions, loosest binding first

  // jinja2 means a loop's `in` and `recursive` to end a tuple as well, but its check never sees
  // them.
  bool at_tuple_end() const {
    const TokenKind kind = tokens_.current().kind;
    return kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd ||
           tokens_.at_operator(")");
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (tokens_.at_name("or")) {
      const int line = tokens_.advance().line;
      left = make_binary(ExprKind::kOr, line, std::move(left), parse_and());
    }
    return left;
  }

  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (tokens_.at_name("and")) {
      const int line = tokens_.advance().line;
      left = make_binary(ExprKind::kAnd, line, std::move(left), parse_not());
    }
    return left;
  }

  ExprPtr parse_not() {
    if (!tokens_.at_name("not")) return parse_compare();
    const TokenStream::Nesting nesting(tokens_);
    const int line = tokens_.advance().line;
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
      if (tokens_.skip_operator(text)) return comparison;
    }
    if (tokens_.skip_name("in")) return Comparison::kIn;
    if (tokens_.at_name("not") && TokenStream::is_name(tokens_.look(), "in")) {
      tokens_.advance();
      tokens_.advance();
      return Comparison::kNotIn;
    }
    return std::nullopt;
  }

  ExprPtr parse_compare() {
    const int line = tokens_.current().line;
    ExprPtr first = parse_sum();
    std::optional<Comparison> comparison = take_comparison();
    if (!comparison) return first;
    auto node = std::make_unique<CompareExpr>(ExprKind::kCompare, line);
    node->first = std::move(first);
    grow(*node, {node->first.get()});
    for (; comparison; comparison = take_comparison()) {
      node->rest.emplace_back(*comparison, parse_sum());
      grow(*node, {node->rest.back().second.get()});
    }
    return node;
  }

  ExprPtr parse_sum() {
    ExprPtr left = parse_concat();
    while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
      const Token& token = tokens_.advance();
      const auto op = token.text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
      left = make_binary(ExprKind::kBinary, token.line, std::move(left), parse_concat(), op);
    }
    return left;
  }

  ExprPtr parse_concat() {
    const int line = tokens_.current().line;
    ExprPtr first = parse_product();
    if (!tokens_.at_operator("~")) return first;
    Exprs items;
    items.push_back(std::move(first));
    while (tokens_.skip_operator("~")) items.push_back(parse_product());
    return make_items(ExprKind::kConcat, line, std::move(items));
  }

  ExprPtr parse_product() {
    ExprPtr left = parse_power();
    while (tokens_.at_operator("*") || tokens_.at_operator("/") || tokens_.at_operator("//") ||
           tokens_.at_operator("%")) {
      const Token& token = tokens_.advance();
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
    while (tokens_.at_operator("**")) {
      const int line = tokens_.advance().line;
      left = make_binary(ExprKind::kBinary, line, std::move(left), parse_unary(true),
                         BinaryOperator::kPower);
    }
    return left;
  }

  ExprPtr parse_unary(bool with_filters) {
    const TokenStream::Nesting nesting(tokens_);
    const int line = tokens_.current().line;
    ExprPtr node;
    if (tokens_.skip_operator("-")) {
      node = make_unary(ExprKind::kUnary, line, parse_unary(false), UnaryOperator::kNegate);
    } else if (tokens_.skip_operator("+")) {
      node = make_unary(ExprKind::kUnary, line, parse_unary(false), UnaryOperator::kPlus);
    } else {
      node = parse_primary(false);
    }
    node = parse_postfix(std::move(node));
    return with_filters ? parse_filters(std::move(node)) : std::move(node);
  }

  ExprPtr parse_primary(bool namespaces) {
    const Token& token = tokens_.current();
    switch (token.kind) {
      case TokenKind::kName:
        return parse_primary_name(namespaces);
      case TokenKind::kString: {
        std::string text;
        while (tokens_.current().kind == TokenKind::kString) text += tokens_.advance().text;
        return std::make_unique<ConstantExpr>(token.line, Value::string(std::move(text)));
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        tokens_.advance();
        return constant(token.line, own_number(token.number));
      case TokenKind::kOperator:
        break;
      default:
        tokens_.fail("unexpected '" + describe(token) + "'");
    }
    const TokenStream::Nesting nesting(tokens_);
    if (tokens_.skip_operator("(")) {
      ExprPtr inner = parse_tuple({.parentheses = true});
      tokens_.expect_operator(")");
      return inner;
    }
    if (tokens_.skip_operator("[")) return parse_list(token.line);
    if (tokens_.skip_operator("{")) return parse_dict(token.line);
    tokens_.fail("unexpected '" + token.text + "'");
  }

  ExprPtr parse_primary_name(bool namespaces) {
    const Token& token = tokens_.advance();
    if (token.text == "true" || token.text == "True")
      return constant(token.line, Value::boolean(true));
    if (token.text == "false" || token.text == "False")
      return constant(token.line, Value::boolean(false));
    if (token.text == "none" || token.text == "None") return constant(token.line, Value::none());
    if (namespaces && tokens_.skip_operator(".")) {
      auto target = std::make_unique<NamespaceTargetExpr>(ExprKind::kNamespaceTarget, token.line);
      target->name = token.text;
      target->attribute = tokens_.expect(TokenKind::kName, "'name'").text;
      return target;
    }
    return std::make_unique<NameExpr>(token.line, token.text);
  }

  // A constant must not share a number beyond 64 bits with its token.
  static Value own_number(const Value& number) {
    return number.is(Kind::kBigInt) ? Value::big_integer(integer_of(number)) : number;
  }

  static ExprPtr constant(int line, Value value) {
    return std::make_unique<ConstantExpr>(line, std::move(value));
  }

  ExprPtr parse_list(int line) {
    Exprs items;
    while (!tokens_.at_operator("]")) {
      if (!items.empty()) tokens_.expect_operator(",");
      if (tokens_.at_operator("]")) break;
      items.push_back(parse_expression());
    }
    tokens_.expect_operator("]");
    return make_items(ExprKind::kList, line, std::move(items));
  }

  ExprPtr parse_dict(int line) {
    Exprs items;
    while (!tokens_.at_operator("}")) {
      if (!items.empty()) tokens_.expect_operator(",");
      if (tokens_.at_operator("}")) break;
      items.push_back(parse_expression());
      tokens_.expect_operator(":");
      items.push_back(parse_expression());
    }
    tokens_.expect_operator("}");
    return make_items(ExprKind::kDict, line, std::move(items));
  }

  ExprPtr parse_postfix(ExprPtr node) {
    while (true) {
      if (tokens_.at_operator(".") || tokens_.at_operator("[")) {
        node = parse_subscript(std::move(node));
      } else if (tokens_.at_operator("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_filters(ExprPtr node) {
    while (true) {
      if (tokens_.skip_operator("|")) {
        node = parse_filter(std::move(node));
      } else if (tokens_.at_name("is")) {
        node = parse_test(std::move(node));
      } else if (tokens_.at_operator("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_subscript(ExprPtr object) {
    const Token& token = tokens_.advance();
    if (token.text == ".") {
      const Token& name = tokens_.advance();
      if (name.kind == TokenKind::kName) {
        auto node = std::make_unique<AttributeExpr>(ExprKind::kAttribute, token.line);
        node->object = std::move(object);
        node->name = name.text;
        node->method = find_method(name.text);
        grow(*node, {node->object.get()});
        return node;
      }
      if (name.kind != TokenKind::kInteger) throw SyntaxError(name.line, "expected name or number");
      return make_item(token.line, std::move(object), constant(name.line, own_number(name.number)));
    }
    Exprs indices;
    while (!tokens_.at_operator("]")) {
      if (!indices.empty()) tokens_.expect_operator(",");
      indices.push_back(parse_index());
    }
    tokens_.expect_operator("]");
    if (indices.size() == 1) return make_item(token.line, std::move(object), std::move(indices[0]));
    for (const ExprPtr& index : indices) {
      if (index->kind == ExprKind::kSlice)
        throw SyntaxError(index->line, "a slice cannot be part of a tuple");
    }
    ExprPtr index = make_items(ExprKind::kTuple, token.line, std::move(indices));
    return make_item(token.line, std::move(object), std::move(index));
  }

  ExprPtr parse_index() {
    const int line = tokens_.current().line;
    ExprPtr start;
    if (!tokens_.at_operator(":")) {
      start = parse_expression();
      if (!tokens_.at_operator(":")) return start;
    }
    tokens_.advance();
    auto node = std::make_unique<SliceExpr>(ExprKind::kSlice, line);
    node->start = std::move(start);
    const auto at_end = [&] { return tokens_.at_operator("]") || tokens_.at_operator(","); };
    if (!tokens_.at_operator(":") && !at_end()) node->stop = parse_expression();
    if (tokens_.skip_operator(":") && !at_end()) node->step = parse_expression();
    grow(*node, {node->start.get(), node->stop.get(), node->step.get()});
    return node;
  }

  CallArguments parse_arguments() {
    const int line = tokens_.current().line;
    tokens_.expect_operator("(");
    CallArguments arguments;
    const auto ensure = [&](bool valid) {
      if (!valid) throw SyntaxError(line, "invalid syntax for function call expression");
    };
    for (bool first = true; !tokens_.at_operator(")"); first = false) {
      if (!first) {
        tokens_.expect_operator(",");
        if (tokens_.at_operator(")")) break;
      }
      if (tokens_.skip_operator("*")) {
        ensure(!arguments.star && !arguments.double_star);
        arguments.star = parse_expression();
      } else if (tokens_.skip_operator("**")) {
        ensure(!arguments.double_star);
        arguments.double_star = parse_expression();
      } else if (tokens_.current().kind == TokenKind::kName &&
                 TokenStream::is_operator(tokens_.look(), "=")) {
        ensure(!arguments.double_star);
        Constant key(Value::string(tokens_.advance().text));
        tokens_.advance();
        for (const auto& [other, value] : arguments.keyword) {
          if (equal(other.value(), key.value())) {
            throw SyntaxError(line, "keyword argument repeated: " + key.value().text());
          }
        }
        arguments.keyword.emplace_back(std::move(key), parse_expression());
      } else {
        ensure(!arguments.star && !arguments.double_star && arguments.keyword.empty());
        arguments.positional.push_back(parse_expression());
      }
    }
    tokens_.expect_operator(")");
    return arguments;
  }

  ExprPtr parse_call(ExprPtr callee) {
    auto node = std::make_unique<CallExpr>(ExprKind::kCall, tokens_.current().line);
    node->callee = std::move(callee);
    node->arguments = parse_arguments();
    grow(*node, {node->callee.get()});
    grow_arguments(*node, node->arguments);
    return node;
  }

  std::string parse_dotted_name() {
    std::string name = tokens_.expect(TokenKind::kName, "'name'").text;
    while (tokens_.skip_operator("."))
      name += "." + tokens_.expect(TokenKind::kName, "'name'").text;
    return name;
  }

  ExprPtr parse_test(ExprPtr operand) {
    const int line = tokens_.advance().line;
    const bool negated = tokens_.skip_name("not");
    auto node = std::make_unique<ApplyExpr>(ExprKind::kTest, line);
    node->operand = std::move(operand);
    node->name = parse_dotted_name();
    node->test = find_test(node->name);
    if (tokens_.at_operator("(")) {
      node->arguments = parse_arguments();
    } else if (at_test_argument()) {
      if (tokens_.at_name("is")) tokens_.fail("You cannot chain multiple tests with is");
      node->arguments.positional.push_back(parse_postfix(parse_primary(false)));
    }
    grow(*node, {node->operand.get()});
    grow_arguments(*node, node->arguments);
    if (!negated) return node;
    return make_unary(ExprKind::kNot, line, std::move(node));
  }

  bool at_test_argument() const {
    switch (tokens_.current().kind) {
      case TokenKind::kName:
        return !tokens_.at_name("else") && !tokens_.at_name("or") && !tokens_.at_name("and");
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      default:
        return tokens_.at_operator("[") || tokens_.at_operator("{");
    }
  }

  // ---- nodes

  static void grow(Expr& node, std::initializer_list<const Expr*> children) {
    for (const Expr* child : children) {
      if (child != nullptr) node.depth = std::max(node.depth, child->depth + 1);
    }
    if (node.depth > kMaxTreeDepth) {
      throw SyntaxError(node.line, "an expression is nested deeper than " +
                                       std::to_string(kMaxTreeDepth) + " levels");
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

  TokenStream& tokens_;
};

}  // namespace

void use_names(Expr& target, NameUse use) {
  if (target.kind == ExprKind::kName) {
    static_cast<NameExpr&>(target).use = use;
  } else if (target.kind == ExprKind::kTuple) {
    for (const ExprPtr& item : static_cast<ItemsExpr&>(target).items) use_names(*item, use);
  }
}

ExprPtr parse_tuple(TokenStream& tokens, TupleForm form) {
  return ExpressionParser(tokens).parse_tuple(form);
}

ExprPtr parse_expression(TokenStream& tokens) {
  return ExpressionParser(tokens).parse_expression();
}

ExprPtr parse_filter(TokenStream& tokens, ExprPtr operand) {
  return ExpressionParser(tokens).parse_filter(std::move(operand));
}

ExprPtr parse_target(TokenStream& tokens, TargetForm form) {
  return ExpressionParser(tokens).parse_target(form);
}

std::unique_ptr<NameExpr> parse_name(TokenStream& tokens, NameUse use) {
  return ExpressionParser(tokens).parse_name(use);
}

}  // namespace headrace::jinja
