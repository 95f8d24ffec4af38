#include "launch/compare_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>

namespace headrace {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kNumDifferenceKinds> kKindNames = {
    "outcome", "error", "tokens", "text", "finish_reason", "logprobs", "other"};

/// The member, or nullptr where it is absent or null: both mean "not asked for".
const json* member(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string shortened(const json* value) {
  if (value == nullptr) return "nothing";
  std::string text = value->dump(-1, ' ', true);  // ASCII: cutting it cannot split a character
  constexpr std::size_t kLength = 60;
  if (text.size() > kLength) text = text.substr(0, kLength) + "...";
  return text;
}

/// A few characters of UTF-8 text from a byte position that begins a character.
std::string excerpt(std::string_view text, std::size_t begin) {
  constexpr std::size_t kBytes = 24;
  std::size_t end = std::min(begin + kBytes, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return json(std::string(text.substr(begin, end - begin))).dump();
}

/// Compares the lines of one request; collects into an AnswerComparison.
class Comparer {
 public:
  Comparer(double tolerance, AnswerComparison& out) : tolerance_(tolerance), out_(out) {}

  void lines(const Answer& a, const Answer& b);

 private:
  void differ(DifferenceKind kind, std::string where, std::string a, std::string b) {
    out_.differences.push_back({kind, std::move(where), std::move(a), std::move(b)});
  }
  void errors(const json& a, const json& b);
  void bodies(const json& a, const json& b);
  void choices(const json& a, const json& b);
  void choice(const json& a, const json& b, const std::string& where);
  bool token_ids(const json& a, const json& b, const std::string& where);
  void text(const std::string& a, const std::string& b, const std::string& where);
  void logprobs(const json& a, const json& b, const std::string& where);
  bool logprob(const json* a, const json* b, const std::string& where);
  bool alternatives(const json* a, const json* b, const std::string& where);
  void prompt_logprobs(const json& a, const json& b, const std::string& where);
  bool within_tolerance(const json& a, const json& b);
  void other_fields(const json& a, const json& b, const std::set<std::string>& handled,
                    const std::string& where);
  /// Both values where both lines have the field; notes it where only one has.
  bool both(const json& a, const json& b, const std::string& key, const json*& va, const json*& vb);

  double tolerance_;
  AnswerComparison& out_;
};

/// A log-probability list in either form: completions' parallel lists or chat's list of objects.
struct LogprobList {
  struct Item {
    const json* token = nullptr;
    const json* logprob = nullptr;
    const json* top = nullptr;
  };
  std::vector<Item> items;

  explicit LogprobList(const json& logprobs);
};

const json* element(const json* list, std::size_t i) {
  if (list == nullptr || !list->is_array() || i >= list->size() || (*list)[i].is_null())
    return nullptr;
  return &(*list)[i];
}

LogprobList::LogprobList(const json& logprobs) {
  if (const json* content = member(logprobs, "content");
      content != nullptr && content->is_array()) {
    for (const json& item : *content) {
      items.push_back(
          {member(item, "token"), member(item, "logprob"), member(item, "top_logprobs")});
    }
    return;
  }
  const json* tokens = member(logprobs, "tokens");
  if (tokens == nullptr || !tokens->is_array()) return;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    items.push_back({element(tokens, i), element(member(logprobs, "token_logprobs"), i),
                     element(member(logprobs, "top_logprobs"), i)});
  }
}

/// Alternatives as token and log-probability, from completions' object or chat's list.
std::map<std::string, const json*> top_map(const json& top) {
  std::map<std::string, const json*> map;
  if (top.is_object()) {
    for (const auto& [token, logprob] : top.items()) map.emplace(token, &logprob);
    return map;
  }
  for (const json& item : top) {
    const json* token = member(item, "token");
    // Two tokens may share a text; their bytes or their place in the list tell nothing more, so the
    // first, the likelier one, stands for both.
    if (token != nullptr && token->is_string()) {
      map.emplace(token->get<std::string>(), member(item, "logprob"));
    }
  }
  return map;
}

bool equal_or_null(const json* a, const json* b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

void Comparer::lines(const Answer& a, const Answer& b) {
  if (a.failed() != b.failed()) {
    const auto outcome = [](const Answer& x) {
      return x.failed() ? "failed: " + shortened(member(x.line, "error")) : "answered";
    };
    differ(DifferenceKind::kOutcome, "", outcome(a), outcome(b));
    return;
  }
  if (a.failed()) {
    errors(a.line, b.line);
    return;
  }
  const json* body_a = member(a.line["response"], "body");
  const json* body_b = member(b.line["response"], "body");
  if (body_a == nullptr || body_b == nullptr) {
    if (body_a != body_b) {
      differ(DifferenceKind::kOther, "body", shortened(body_a), shortened(body_b));
    }
    return;
  }
  bodies(*body_a, *body_b);
}

void Comparer::errors(const json& a, const json& b) {
  // An HTTP-like failure carries its error in the response's body. The line of an error is left
  // out: it is a fact of the input file.
  const auto error = [](const json& line) {
    const json* e = member(line, "error");
    if (e == nullptr) e = member(line["response"], "body");
    json facts = e == nullptr ? json() : *e;
    if (facts.is_object()) facts.erase("line");
    return facts;
  };
  const json ea = error(a);
  const json eb = error(b);
  if (ea != eb) differ(DifferenceKind::kError, "", shortened(&ea), shortened(&eb));
}

bool Comparer::both(const json& a, const json& b, const std::string& key, const json*& va,
                    const json*& vb) {
  va = member(a, key);
  vb = member(b, key);
  if ((va == nullptr) != (vb == nullptr)) ++out_.one_sided[key];
  return va != nullptr && vb != nullptr;
}

void Comparer::bodies(const json& a, const json& b) {
  const json* va = nullptr;
  const json* vb = nullptr;
  if (both(a, b, "choices", va, vb)) choices(*va, *vb);
  if (both(a, b, "usage", va, vb)) {
    // The rest of usage counts what the run did (cached tokens), not what it answered.
    for (const char* key : {"prompt_tokens", "completion_tokens"}) {
      const json* na = member(*va, key);
      const json* nb = member(*vb, key);
      if (!equal_or_null(na, nb) && out_.differences.empty()) {
        differ(DifferenceKind::kOther, fmt::format("usage.{}", key), shortened(na), shortened(nb));
      }
    }
  }
  other_fields(a, b, {"id", "created", "model", "system_fingerprint", "choices", "usage"}, "");
}

void Comparer::choices(const json& a, const json& b) {
  const auto by_index = [](const json& list) {
    std::map<std::int64_t, const json*> map;
    std::int64_t position = 0;
    for (const json& c : list) {
      const json* index = member(c, "index");
      const bool valid = index != nullptr && index->is_number_integer();
      map.emplace(valid ? index->get<std::int64_t>() : position, &c);
      ++position;
    }
    return map;
  };
  const auto list_a = by_index(a);
  const auto list_b = by_index(b);
  if (list_a.size() != list_b.size()) {
    differ(DifferenceKind::kOther, "number of choices", std::to_string(list_a.size()),
           std::to_string(list_b.size()));
  }
  for (const auto& [index, ca] : list_a) {
    const auto cb = list_b.find(index);
    if (cb != list_b.end()) choice(*ca, *cb->second, fmt::format("choice {}", index));
  }
}

void Comparer::choice(const json& a, const json& b, const std::string& where) {
  const json* va = nullptr;
  const json* vb = nullptr;
  const bool same_tokens = token_ids(a, b, where);
  const json none = json::object();
  const json* message_a = member(a, "message");
  const json* message_b = member(b, "message");
  const json& holder_a = message_a != nullptr ? *message_a : a;
  const json& holder_b = message_b != nullptr ? *message_b : b;
  const json* text_a = member(holder_a, message_a != nullptr ? "content" : "text");
  const json* text_b = member(holder_b, message_b != nullptr ? "content" : "text");
  const auto string_of = [](const json* v) {
    return v != nullptr && v->is_string() ? v->get<std::string>() : std::string();
  };
  if (same_tokens) text(string_of(text_a), string_of(text_b), where);
  if (both(a, b, "finish_reason", va, vb) && *va != *vb) {
    differ(DifferenceKind::kFinishReason, where, shortened(va), shortened(vb));
  }
  if (both(a, b, "logprobs", va, vb)) logprobs(*va, *vb, where);
  if (both(a, b, "prompt_logprobs", va, vb)) prompt_logprobs(*va, *vb, where);
  other_fields(
      a, b,
      {"index", "token_ids", "text", "message", "finish_reason", "logprobs", "prompt_logprobs"},
      where);
  if (message_a != nullptr && message_b != nullptr) {
    other_fields(*message_a, *message_b, {"content"}, where + ", message");
  }
}

/// Whether the text still has to be compared: token ids are equal, or not both there.
bool Comparer::token_ids(const json& a, const json& b, const std::string& where) {
  const json* va = nullptr;
  const json* vb = nullptr;
  if (!both(a, b, "token_ids", va, vb) || !va->is_array() || !vb->is_array() || *va == *vb) {
    return true;
  }
  std::size_t i = 0;
  while (i < va->size() && i < vb->size() && (*va)[i] == (*vb)[i]) ++i;
  const auto shown = [i](const json& ids) { return i < ids.size() ? ids[i].dump() : "the end"; };
  differ(DifferenceKind::kTokens, fmt::format("{}, token {}", where, i), shown(*va), shown(*vb));
  return false;
}

void Comparer::text(const std::string& a, const std::string& b, const std::string& where) {
  if (a == b) return;
  std::size_t byte = 0;
  while (byte < a.size() && byte < b.size() && a[byte] == b[byte]) ++byte;
  const auto inside_character = [](const std::string& s, std::size_t i) {
    return i < s.size() && (static_cast<unsigned char>(s[i]) & 0xC0U) == 0x80U;
  };
  while (byte > 0 && (inside_character(a, byte) || inside_character(b, byte))) --byte;
  const auto begins_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  };
  const auto character =
      std::count_if(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(byte), begins_character);
  const auto shown = [byte](const std::string& s) {
    return byte < s.size() ? excerpt(s, byte) : std::string("the end");
  };
  differ(DifferenceKind::kText, fmt::format("{}, character {}", where, character), shown(a),
         shown(b));
}

void Comparer::logprobs(const json& a, const json& b, const std::string& where) {
  const LogprobList list_a(a);
  const LogprobList list_b(b);
  const std::size_t count = std::min(list_a.items.size(), list_b.items.size());
  bool within = true;
  for (std::size_t i = 0; i < count; ++i) {
    const LogprobList::Item& x = list_a.items[i];
    const LogprobList::Item& y = list_b.items[i];
    // Behind the first other token the two continue from different texts: nothing to measure.
    if (!equal_or_null(x.token, y.token)) return;
    const std::string place = fmt::format("{}, token {}", where, i);
    // Only the first difference is listed, every distance is measured.
    if (!logprob(x.logprob, y.logprob, within ? place : "")) within = false;
    if (!alternatives(x.top, y.top, within ? place : "")) within = false;
  }
  if (within && list_a.items.size() != list_b.items.size()) {
    differ(DifferenceKind::kLogprobs, fmt::format("{}, number of log-probs", where),
           std::to_string(list_a.items.size()), std::to_string(list_b.items.size()));
  }
}

/// Whether the two are within the tolerance; lists a difference unless `where` is empty.
bool Comparer::logprob(const json* a, const json* b, const std::string& where) {
  if (a == nullptr && b == nullptr) return true;
  bool within = false;
  if (a != nullptr && b != nullptr && a->is_number() && b->is_number()) {
    const double distance = std::abs(a->get<double>() - b->get<double>());
    out_.logprobs.add(distance);
    within = distance <= tolerance_;
  }
  if (!within && !where.empty()) {
    differ(DifferenceKind::kLogprobs, where, shortened(a), shortened(b));
  }
  return within;
}

/// Alternatives that both list must agree; which ones are listed must agree too, unless a tolerance
/// lets two close ones change places at the end of the list.
bool Comparer::alternatives(const json* a, const json* b, const std::string& where) {
  if (a == nullptr || b == nullptr) return true;
  const auto map_a = top_map(*a);
  const auto map_b = top_map(*b);
  std::string first;
  for (const auto& [token, logprob_a] : map_a) {
    const auto found = map_b.find(token);
    const json* logprob_b = found == map_b.end() ? nullptr : found->second;
    if (logprob_b == nullptr && tolerance_ > 0.0) continue;
    const bool within = logprob_a != nullptr && logprob_b != nullptr && logprob_a->is_number() &&
                        logprob_b->is_number() &&
                        std::abs(logprob_a->get<double>() - logprob_b->get<double>()) <= tolerance_;
    if (within) continue;
    if (!where.empty()) {
      differ(DifferenceKind::kLogprobs,
             fmt::format("{}, alternative {}", where, json(token).dump()), shortened(logprob_a),
             shortened(logprob_b));
    }
    return false;
  }
  if (tolerance_ > 0.0 || map_a.size() == map_b.size()) return true;
  if (!where.empty()) {
    differ(DifferenceKind::kLogprobs, where + ", number of alternatives",
           std::to_string(map_a.size()), std::to_string(map_b.size()));
  }
  return false;
}

/// A list with, for each position, null or an object of {logprob, rank, ...} by token id.
void Comparer::prompt_logprobs(const json& a, const json& b, const std::string& where) {
  const bool lists = a.is_array() && b.is_array() && a.size() == b.size();
  for (std::size_t i = 0; lists && i < a.size(); ++i) {
    if (within_tolerance(a[i], b[i])) continue;
    differ(DifferenceKind::kLogprobs, fmt::format("{}, prompt token {}", where, i),
           shortened(&a[i]), shortened(&b[i]));
    return;
  }
  if (!lists)
    differ(DifferenceKind::kLogprobs, where + ", prompt_logprobs", shortened(&a), shortened(&b));
}

/// Of the tokens that both list; with a tolerance, close ones may change places and drop out.
bool Comparer::within_tolerance(const json& a, const json& b) {
  if (tolerance_ == 0.0 || !a.is_object() || !b.is_object()) return a == b;
  return std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
    const json* x = member(item.value(), "logprob");
    const json* other = member(b, item.key());
    const json* y = other == nullptr ? nullptr : member(*other, "logprob");
    if (x == nullptr || y == nullptr || !x->is_number() || !y->is_number()) return true;
    return std::abs(x->get<double>() - y->get<double>()) <= tolerance_;
  });
}

/// Every remaining field that both have. Listed only where nothing else differs: counts and the
/// like follow from the text.
void Comparer::other_fields(const json& a, const json& b, const std::set<std::string>& handled,
                            const std::string& where) {
  std::set<std::string> keys;
  for (const json* object : {&a, &b}) {
    for (const auto& [key, value] : object->items()) {
      if (!handled.contains(key)) keys.insert(key);
    }
  }
  for (const std::string& key : keys) {
    const json* va = nullptr;
    const json* vb = nullptr;
    if (!both(a, b, key, va, vb) || *va == *vb || !out_.differences.empty()) continue;
    differ(DifferenceKind::kOther, where.empty() ? key : fmt::format("{}, {}", where, key),
           shortened(va), shortened(vb));
  }
}

}  // namespace

std::string_view kind_name(DifferenceKind kind) {
  return kKindNames.at(static_cast<std::size_t>(kind));
}

void LogprobDistance::add(double distance) {
  ++pairs;
  sum += distance;
  max = std::max(max, distance);
}

void LogprobDistance::merge(const LogprobDistance& other) {
  pairs += other.pairs;
  sum += other.sum;
  max = std::max(max, other.max);
}

AnswerComparison compare_answers(const Answer& a, const Answer& b, double tolerance) {
  AnswerComparison comparison;
  Comparer(tolerance, comparison).lines(a, b);
  return comparison;
}

}  // namespace headrace
