#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "launch/compare.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, kNumDifferenceKinds> kKindTexts = {
    "answered in one file, failed in the other",
    "failed for different reasons",
    "different tokens",
    "different text",
    "different finish reason",
    "log-probs further apart than the tolerance",
    "different in another field"};

std::string file_line(std::string_view label, const ComparedFile& f) {
  return fmt::format("{}  {}: {} lines, {} failed\n", label, f.path, f.lines, f.failed);
}

std::string only_line(std::string_view label, const ComparedFile& f) {
  if (f.only_here == 0) return "";
  const bool more = f.only_here > static_cast<std::int64_t>(f.only_here_names.size());
  return fmt::format("  {:>8}  only in {}: {}{}\n", f.only_here, label,
                     fmt::join(f.only_here_names, ", "), more ? ", ..." : "");
}

std::string listed_line(const ListedDifference& l) {
  const Difference& d = l.difference;
  return fmt::format("              {}{}{}: A {}, B {}\n", l.request, d.where.empty() ? "" : ", ",
                     d.where, d.a, d.b);
}

std::string logprob_line(const Comparison& c) {
  if (c.logprobs.pairs == 0) return "";
  return fmt::format(
      "log-probs: {} compared in {} requests, largest distance {:.3g}, mean {:.3g}\n",
      c.logprobs.pairs, c.requests_with_logprobs, c.logprobs.max, c.logprobs.mean());
}

std::string one_sided_line(const Comparison& c) {
  if (c.one_sided.empty()) return "";
  std::vector<std::string> fields;
  for (const auto& [field, count] : c.one_sided)
    fields.push_back(fmt::format("{} ({})", field, count));
  return fmt::format("not compared, because only one file has it: {}\n", fmt::join(fields, ", "));
}

std::string speed_line(const Comparison& c) {
  if (!c.a.speed || !c.b.speed) return "";
  const double a = c.a.speed->output_tokens_per_s;
  const double b = c.b.speed->output_tokens_per_s;
  std::string line =
      fmt::format("speed: A {:.1f} tokens/s in {:.1f} s, B {:.1f} tokens/s in {:.1f} s", a,
                  c.a.speed->wall_s, b, c.b.speed->wall_s);
  if (a > 0.0) line += fmt::format(" (B / A = {:.2f})", b / a);
  return line + "\n";
}

ordered_json file_json(const ComparedFile& f, bool counted) {
  ordered_json j{{"path", f.path}};
  if (counted) {
    j["lines"] = f.lines;
    j["failed"] = f.failed;
    j["only_here"] = {{"count", f.only_here}, {"first", f.only_here_names}};
  }
  if (f.speed) {
    j["speed"] = {{"wall_s", f.speed->wall_s},
                  {"output_tokens_per_s", f.speed->output_tokens_per_s}};
  }
  return j;
}

}  // namespace

std::string comparison_text(const Comparison& c, const CompareOptions& options) {
  if (c.identical) {
    return fmt::format("identical: {} and {} have the same bytes\n{}", c.a.path, c.b.path,
                       speed_line(c));
  }
  std::string text = file_line("A", c.a) + file_line("B", c.b);
  text += fmt::format("  {:>8}  in both, {} of them equal\n", c.compared, c.compared - c.different);
  text += only_line("A", c.a) + only_line("B", c.b);
  for (std::size_t kind = 0; kind < kKindTexts.size(); ++kind) {
    if (c.requests_by_kind[kind] == 0) continue;
    text += fmt::format("  {:>8}  {}\n", c.requests_by_kind[kind], kKindTexts[kind]);
    for (const ListedDifference& l : c.listed) {
      if (static_cast<std::size_t>(l.difference.kind) == kind) text += listed_line(l);
    }
  }
  text += logprob_line(c) + one_sided_line(c) + speed_line(c);
  if (!c.equal()) return text + "different\n";
  return text + (options.tolerance > 0.0
                     ? fmt::format("equal within a log-prob distance of {}\n", options.tolerance)
                     : "equal\n");
}

ordered_json comparison_json(const Comparison& c, const CompareOptions& options) {
  ordered_json j{{"equal", c.equal()},
                 {"identical", c.identical},
                 {"tolerance", options.tolerance},
                 {"a", file_json(c.a, !c.identical)},
                 {"b", file_json(c.b, !c.identical)}};
  if (c.identical) return j;
  j["compared"] = c.compared;
  j["different"] = c.different;
  for (int kind = 0; kind < kNumDifferenceKinds; ++kind) {
    const auto k = static_cast<DifferenceKind>(kind);
    j["differences"][std::string(kind_name(k))] =
        c.requests_by_kind.at(static_cast<std::size_t>(kind));
  }
  j["first"] = ordered_json::array();
  for (const ListedDifference& l : c.listed) {
    j["first"].push_back({{"request", l.request},
                          {"kind", kind_name(l.difference.kind)},
                          {"where", l.difference.where},
                          {"a", l.difference.a},
                          {"b", l.difference.b}});
  }
  j["logprobs"] = {{"pairs", c.logprobs.pairs},
                   {"requests", c.requests_with_logprobs},
                   {"max", c.logprobs.max},
                   {"mean", c.logprobs.mean()}};
  j["only_in_one_file"] = c.one_sided;
  return j;
}

}  // namespace headrace
