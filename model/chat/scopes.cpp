#include "model/chat/scopes.h"

#include <map>
#include <optional>
#include <set>

#include "model/chat/filters.h"
#include "model/chat/lexer.h"
#include "model/chat/tree_walk.h"

namespace headrace::jinja {
namespace {

// Copying the names of a scope for each of its ifs must stay cheap. Real templates have a few
// dozen.
constexpr std::size_t kMaxNames = 1000;

// Which of `names` the body reads without having written them before, in reading order.
std::set<std::string> undeclared(const Stmts& body, std::set<std::string> names) {
  std::set<std::string> found;
  visit_names(body, [&](const NameExpr& name) {
    if (name.use == NameUse::kLoad && names.count(name.name) > 0) {
      found.insert(name.name);
    } else if (name.use != NameUse::kLoad) {
      names.erase(name.name);
    }
  });
  return found;
}

// ---- symbols

// A function being compiled: where its slots come from.
struct Unit {
  Function* function = nullptr;
  Unit* parent = nullptr;
  std::map<std::pair<int, std::string>, int> slots;  // by scope level and name

  int slot(int level, const std::string& name) {
    const auto [at, fresh] = slots.try_emplace({level, name}, function->num_slots);
    if (fresh) ++function->num_slots;
    return at->second;
  }
};

struct Symbols;

struct Variable {
  Symbols* owner = nullptr;
  std::string name;
};

struct Load {
  enum class Kind { kParameter, kContext, kAlias, kClear } kind = Kind::kClear;
  Symbols* alias = nullptr;  // kAlias: whose variable of the same name
};

// The names of one scope.
struct Symbols {
  Symbols* parent = nullptr;
  Unit* unit = nullptr;
  int level = 0;
  std::map<std::string, Load> loads;  // every name this scope has a variable for
  std::set<std::string> stores;

  // The scope that has a variable for the name, or null.
  Symbols* find(const std::string& name) {
    for (Symbols* at = this; at != nullptr; at = at->parent) {
      if (at->loads.count(name) > 0) return at;
    }
    return nullptr;
  }
  Symbols* find_outside(const std::string& name) {
    return parent == nullptr ? nullptr : parent->find(name);
  }

  void load(const std::string& name) {
    if (find(name) == nullptr) loads[name] = {Load::Kind::kContext, nullptr};
  }
  void store(const std::string& name) {
    stores.insert(name);
    if (loads.count(name) > 0) return;
    Symbols* outside = find_outside(name);
    loads[name] =
        outside != nullptr ? Load{Load::Kind::kAlias, outside} : Load{Load::Kind::kClear, nullptr};
  }
  void declare_parameter(const std::string& name) {
    stores.insert(name);
    loads[name] = {Load::Kind::kParameter, nullptr};
  }
  // After an if: what only some branches store keeps its outer value in the others.
  void merge(const std::vector<Symbols>& branches) {
    std::set<std::string> fresh;
    for (const Symbols& branch : branches) {
      for (const std::string& name : branch.stores) {
        if (stores.count(name) == 0) fresh.insert(name);
      }
    }
    for (const Symbols& branch : branches) {
      for (const auto& [name, load] : branch.loads) loads[name] = load;
      stores.insert(branch.stores.begin(), branch.stores.end());
    }
    for (const std::string& name : fresh) {
      Symbols* outside = find_outside(name);
      loads[name] = outside != nullptr ? Load{Load::Kind::kAlias, outside}
                                       : Load{Load::Kind::kContext, nullptr};
    }
  }
};

// Collects the names of one scope; nested scopes are left alone.
void collect(Symbols& symbols, const Expr* expr, bool as_parameter = false) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::kName) {
    const auto& name = static_cast<const NameExpr&>(*expr);
    if (as_parameter || name.use == NameUse::kParameter) {
      symbols.declare_parameter(name.name);
    } else if (name.use == NameUse::kStore) {
      symbols.store(name.name);
    } else {
      symbols.load(name.name);
    }
  } else if (expr->kind == ExprKind::kNamespaceTarget) {
    symbols.load(static_cast<const NamespaceTargetExpr&>(*expr).name);
  } else {
    for_children(*expr, [&](const Expr* child) { collect(symbols, child, as_parameter); });
  }
}

void collect(Symbols& symbols, const Exprs& exprs) {
  for (const ExprPtr& expr : exprs) collect(symbols, expr.get());
}

void collect(Symbols& symbols, const Stmts& body);

// To jinja2 all elifs together are one branch, and each of them an if inside it.
void collect_if(Symbols& symbols, const IfStmt& node) {
  collect(symbols, node.branches[0].test.get());
  std::vector<Symbols> branches(3, symbols);
  collect(branches[0], node.branches[0].body);
  Symbols& elifs = branches[1];
  for (std::size_t i = 1; i < node.branches.size(); ++i) {
    collect(elifs, node.branches[i].test.get());
    std::vector<Symbols> inner(1, elifs);
    collect(inner[0], node.branches[i].body);
    elifs.merge(inner);
  }
  collect(branches[2], node.otherwise);
  symbols.merge(branches);
}

void collect(Symbols& symbols, const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kOutput:
      collect(symbols, static_cast<const OutputStmt&>(stmt).parts);
      break;
    case StmtKind::kFor:
      collect(symbols, static_cast<const ForStmt&>(stmt).iterable.get());
      break;
    case StmtKind::kIf:
      collect_if(symbols, static_cast<const IfStmt&>(stmt));
      break;
    case StmtKind::kSet:
      collect(symbols, static_cast<const SetStmt&>(stmt).value.get());
      collect(symbols, static_cast<const SetStmt&>(stmt).target.get());
      break;
    case StmtKind::kSetBlock:
      collect(symbols, static_cast<const SetBlockStmt&>(stmt).target.get());
      break;
    case StmtKind::kMacro:
      symbols.store(static_cast<const MacroStmt&>(stmt).macro.name);
      break;
    case StmtKind::kCallBlock:
      collect(symbols, static_cast<const CallBlockStmt&>(stmt).call.get());
      break;
    case StmtKind::kFilterBlock:
      collect(symbols, static_cast<const FilterBlockStmt&>(stmt).filter.get());
      break;
    case StmtKind::kWith:
      collect(symbols, static_cast<const WithStmt&>(stmt).values);
      break;
    case StmtKind::kGeneration:
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      break;
  }
}

void collect(Symbols& symbols, const Stmts& body) {
  for (const StmtPtr& stmt : body) collect(symbols, *stmt);
}

// ---- binding

// The place of a statement: its scope, and what surrounds it.
struct Place {
  Symbols* symbols = nullptr;
  Unit* unit = nullptr;
  bool in_loop = false;  // break and continue have something to act on
  bool conditional =
      false;  // directly inside an if: unknown filters and tests fail when they are reached
};

class Binder {
 public:
  explicit Binder(Tree& tree) : tree_(tree) {}

  void run() {
    check_names();
    if (!undeclared(tree_.body, {"self"}).empty()) {
      throw SyntaxError(
          1, "the variable 'self' (a template's blocks) is not supported in chat templates");
    }
    Unit unit{&tree_.function, nullptr, {}};
    Symbols symbols;
    symbols.unit = &unit;
    collect(symbols, tree_.body);
    const Place place{&symbols, &unit, false, false};
    bind_scope(tree_.scope, symbols);
    bind(tree_.body, place);
  }

 private:
  void check_names() const {
    std::set<std::string> names;
    visit_names(tree_.body, [&](const NameExpr& name) {
      names.insert(name.name);
      if (names.size() > kMaxNames) {
        throw SyntaxError(name.line, "more than " + std::to_string(kMaxNames) + " different names");
      }
    });
  }

  static Symbols inner_symbols(const Place& place, Unit* unit) {
    Symbols symbols;
    symbols.parent = place.symbols;
    symbols.unit = unit;
    symbols.level = place.symbols->level + 1;
    return symbols;
  }

  static Slot slot_of(const std::string& name, Symbols* owner, const Unit* from) {
    Slot slot;
    for (const Unit* at = from; at != owner->unit; at = at->parent) ++slot.hops;
    slot.index = owner->unit->slot(owner->level, name);
    return slot;
  }

  int context_name(const std::string& name) {
    const auto [at, fresh] =
        context_index_.try_emplace(name, static_cast<int>(tree_.context_names.size()));
    if (fresh) tree_.context_names.push_back(name);
    return at->second;
  }

  void bind_scope(Scope& scope, Symbols& symbols) {
    for (const auto& [name, load] : symbols.loads) {
      SlotLoad made;
      made.index = symbols.unit->slot(symbols.level, name);
      switch (load.kind) {
        case Load::Kind::kParameter:
          continue;
        case Load::Kind::kClear:
          made.action = SlotLoad::Action::kClear;
          break;
        case Load::Kind::kContext:
          made.action = SlotLoad::Action::kContext;
          made.context = context_name(name);
          break;
        case Load::Kind::kAlias:
          made.action = SlotLoad::Action::kAlias;
          made.source = slot_of(name, load.alias, symbols.unit);
          break;
      }
      scope.loads.push_back(made);
    }
  }

  Slot resolve(const std::string& name, int line, const Place& place) const {
    Symbols* owner = place.symbols->find(name);
    if (owner == nullptr) {
      throw SyntaxError(line,
                        "the name '" + name + "' cannot be used here: jinja2 does not compile it");
    }
    return slot_of(name, owner, place.unit);
  }

  void bind(Expr* expr, Place place) const {
    if (expr == nullptr) return;
    switch (expr->kind) {
      case ExprKind::kName: {
        auto& name = static_cast<NameExpr&>(*expr);
        name.slot = resolve(name.name, name.line, place);
        return;
      }
      case ExprKind::kNamespaceTarget: {
        auto& target = static_cast<NamespaceTargetExpr&>(*expr);
        target.slot = resolve(target.name, target.line, place);
        return;
      }
      case ExprKind::kConditional:
        place.conditional = true;
        break;
      case ExprKind::kFilter:
      case ExprKind::kTest:
        check_known(static_cast<const ApplyExpr&>(*expr), place);
        break;
      default:
        break;
    }
    for_children(*expr, [&](const Expr* child) { bind(const_cast<Expr*>(child), place); });
  }

  static void check_known(const ApplyExpr& node, const Place& place) {
    if (node.filter != nullptr || node.test != nullptr || place.conditional) return;
    if (node.kind == ExprKind::kFilter) throw SyntaxError(node.line, missing_filter(node.name));
    throw SyntaxError(node.line, "No test named '" + node.name + "'.");
  }

  void bind(const Exprs& exprs, const Place& place) const {
    for (const ExprPtr& expr : exprs) bind(expr.get(), place);
  }

  void bind(Stmts& body, const Place& place) {
    for (const StmtPtr& stmt : body) bind(*stmt, place);
  }

  void bind(Stmt& stmt, const Place& place) {
    switch (stmt.kind) {
      case StmtKind::kOutput:
        bind(static_cast<OutputStmt&>(stmt).parts, place);
        break;
      case StmtKind::kFor:
        bind_for(static_cast<ForStmt&>(stmt), place);
        break;
      case StmtKind::kIf:
        bind_if(static_cast<IfStmt&>(stmt), place);
        break;
      case StmtKind::kSet:
        bind(static_cast<SetStmt&>(stmt).value.get(), place);
        bind(static_cast<SetStmt&>(stmt).target.get(), place);
        break;
      case StmtKind::kSetBlock:
        bind_set_block(static_cast<SetBlockStmt&>(stmt), place);
        break;
      case StmtKind::kMacro: {
        auto& node = static_cast<MacroStmt&>(stmt);
        bind_macro(node.macro, node.line, place);
        place.unit->function->outlives_call = true;
        node.slot = resolve(node.macro.name, node.line, place);
        break;
      }
      case StmtKind::kCallBlock:
      case StmtKind::kGeneration: {
        auto& node = static_cast<CallBlockStmt&>(stmt);
        bind_macro(node.macro, node.line, place);
        place.unit->function->outlives_call |= node.kind == StmtKind::kCallBlock;
        bind(node.call.get(), place);
        break;
      }
      case StmtKind::kFilterBlock: {
        auto& node = static_cast<FilterBlockStmt&>(stmt);
        Symbols symbols = inner_symbols(place, place.unit);
        collect(symbols, node.body);
        collect(symbols, node.filter.get());
        const Place inside{&symbols, place.unit, place.in_loop, false};
        bind_scope(node.scope, symbols);
        bind(node.body, inside);
        bind(node.filter.get(), inside);
        break;
      }
      case StmtKind::kWith:
        bind_with(static_cast<WithStmt&>(stmt), place);
        break;
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        if (!place.in_loop) {
          throw SyntaxError(stmt.line, stmt.kind == StmtKind::kBreak
                                           ? "'break' outside loop"
                                           : "'continue' not properly in loop");
        }
        break;
    }
  }

  void bind_if(IfStmt& node, Place place) {
    place.conditional = true;
    for (IfBranch& branch : node.branches) {
      bind(branch.test.get(), place);
      bind(branch.body, place);
    }
    bind(node.otherwise, place);
  }

  void bind_set_block(SetBlockStmt& node, const Place& place) {
    Symbols symbols = inner_symbols(place, place.unit);
    collect(symbols, node.body);
    const Place inside{&symbols, place.unit, place.in_loop, false};
    bind_scope(node.scope, symbols);
    bind(node.body, inside);
    bind(node.target.get(), place);
    bind(node.filter.get(), inside);
  }

  void bind_with(WithStmt& node, const Place& place) {
    Symbols symbols = inner_symbols(place, place.unit);
    collect(symbols, node.targets);
    collect(symbols, node.body);
    const Place inside{&symbols, place.unit, place.in_loop, false};
    bind_scope(node.scope, symbols);
    bind(node.targets, inside);
    bind(node.values, place);
    bind(node.body, inside);
  }

  void bind_for(ForStmt& node, const Place& place) {
    visit_names(static_cast<const Stmt&>(node), [](const NameExpr& name) {
      if (name.use == NameUse::kStore && name.name == "loop") {
        throw SyntaxError(name.line, "Can't assign to special loop variable in for-loop target");
      }
    });
    Unit own{&node.function, place.unit, {}};
    Unit* unit = node.recursive ? &own : place.unit;
    place.unit->function->outlives_call |= node.recursive || node.test != nullptr;

    Symbols body = inner_symbols(place, unit);
    node.extended = node.recursive || !undeclared(node.body, {"loop"}).empty();
    if (node.extended) body.declare_parameter("loop");
    collect(body, node.target.get(), /*as_parameter=*/true);
    collect(body, node.body);
    const Place inside{&body, unit, true, false};
    if (node.extended) node.loop_slot = unit->slot(body.level, "loop");
    bind_scope(node.body_scope, body);
    bind(node.target.get(), inside);
    bind(node.body, inside);
    bind(node.iterable.get(), place);
    if (node.test) bind_test(node, place);

    Symbols otherwise = inner_symbols(place, unit);
    collect(otherwise, node.otherwise);
    bind_scope(node.otherwise_scope, otherwise);
    bind(node.otherwise, {&otherwise, unit, place.in_loop && !node.recursive, false});
  }

  void bind_test(ForStmt& node, const Place& place) {
    Unit unit{&node.test_function, place.unit, {}};
    Symbols symbols = inner_symbols(place, &unit);
    collect(symbols, node.test_target.get(), /*as_parameter=*/true);
    collect(symbols, node.test.get());
    const Place inside{&symbols, &unit, false, false};
    bind_scope(node.test_scope, symbols);
    bind(node.test_target.get(), inside);
    bind(node.test.get(), inside);
  }

  void bind_macro(MacroBody& macro, int line, const Place& place) {
    Unit unit{&macro.function, place.unit, {}};
    Symbols symbols = inner_symbols(place, &unit);
    collect(symbols, macro.parameters);
    collect(symbols, macro.defaults);
    collect(symbols, macro.body);
    declare_specials(macro, line, symbols);
    const Place inside{&symbols, &unit, false, false};
    bind_scope(macro.scope, symbols);
    bind(macro.parameters, inside);
    bind(macro.defaults, inside);
    bind(macro.body, inside);
  }

  // caller, kwargs and varargs exist where the body reads them.
  static void declare_specials(MacroBody& macro, int line, Symbols& symbols) {
    std::set<std::string> explicit_names;
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const std::string& name = static_cast<const NameExpr&>(*macro.parameters[i]).name;
      explicit_names.insert(name);
      if (name == "caller") macro.names_caller = true;
    }
    const std::set<std::string> used = undeclared(macro.body, {"caller", "kwargs", "varargs"});
    const auto declare = [&](const char* name, int& slot) {
      symbols.declare_parameter(name);
      slot = symbols.unit->slot(symbols.level, name);
      return true;
    };
    if (used.count("caller") > 0) {
      if (!macro.names_caller) {
        declare("caller", macro.caller_slot);
      } else if (!caller_has_default(macro)) {
        throw SyntaxError(
            line,
            "When defining macros or call blocks the special \"caller\" argument must be "
            "omitted or be given a default.");
      }
      macro.takes_caller = true;
    }
    macro.takes_kwargs = used.count("kwargs") > 0 && explicit_names.count("kwargs") == 0 &&
                         declare("kwargs", macro.kwargs_slot);
    macro.takes_varargs = used.count("varargs") > 0 && explicit_names.count("varargs") == 0 &&
                          declare("varargs", macro.varargs_slot);
  }

  static bool caller_has_default(const MacroBody& macro) {
    const std::size_t without = macro.parameters.size() - macro.defaults.size();
    for (std::size_t i = without; i < macro.parameters.size(); ++i) {
      if (static_cast<const NameExpr&>(*macro.parameters[i]).name == "caller") return true;
    }
    return false;
  }

  Tree& tree_;
  std::map<std::string, int> context_index_;
};

}  // namespace

void resolve_names(Tree& tree) {
  Binder(tree).run();
}

}  // namespace headrace::jinja
