#include "launch/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>

#include "launch/commands.h"
#include "launch/exit_codes.h"
#include "launch/options.h"

namespace headrace {
namespace {

/// Reads in pieces: the files may be larger than memory.
bool same_bytes(const std::string& a, const std::string& b) {
  if (std::filesystem::equivalent(a, b)) return true;
  if (std::filesystem::file_size(a) != std::filesystem::file_size(b)) return false;
  std::ifstream file_a(a, std::ios::binary);
  std::ifstream file_b(b, std::ios::binary);
  std::vector<char> piece_a(1U << 20);
  std::vector<char> piece_b(piece_a.size());
  while (file_a && file_b) {
    file_a.read(piece_a.data(), static_cast<std::streamsize>(piece_a.size()));
    file_b.read(piece_b.data(), static_cast<std::streamsize>(piece_b.size()));
    if (file_a.gcount() != file_b.gcount()) return false;
    if (!std::equal(piece_a.begin(), piece_a.begin() + file_a.gcount(), piece_b.begin()))
      return false;
  }
  return file_a.eof() && file_b.eof();
}

/// nullopt where there is no summary, or one that says nothing about speed.
std::optional<OutputSpeed> read_speed(const std::string& output) {
  std::ifstream file(output + ".summary.json");
  if (!file) return std::nullopt;
  const auto summary = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) return std::nullopt;
  const auto wall = summary.find("wall_s");
  const auto rate = summary.find("output_tokens_per_s");
  if (wall == summary.end() || !wall->is_number()) return std::nullopt;
  if (rate == summary.end() || !rate->is_number()) return std::nullopt;
  return OutputSpeed{.wall_s = wall->get<double>(), .output_tokens_per_s = rate->get<double>()};
}

void add(Comparison& total, const Answer& a, AnswerComparison&& one, int list) {
  ++total.compared;
  if (!one.differences.empty()) ++total.different;
  std::set<DifferenceKind> kinds;
  for (Difference& d : one.differences) {
    if (!kinds.insert(d.kind).second) continue;  // of several choices, the first
    std::int64_t& count = total.requests_by_kind.at(static_cast<std::size_t>(d.kind));
    if (count++ < list) total.listed.push_back({a.name(), std::move(d)});
  }
  if (one.logprobs.pairs > 0) ++total.requests_with_logprobs;
  total.logprobs.merge(one.logprobs);
  for (const auto& [field, count] : one.one_sided) total.one_sided[field] += count;
}

void compare_lines(Comparison& c, const CompareOptions& options) {
  AnswersFile file_a(c.a.path);
  AnswerIndex index_b(c.b.path);
  const auto list = static_cast<std::size_t>(options.list);
  while (const auto a = file_a.next()) {
    ++c.a.lines;
    if (a->failed()) ++c.a.failed;
    if (const auto b = index_b.take(*a)) {
      add(c, *a, compare_answers(*a, *b, options.tolerance), options.list);
      continue;
    }
    ++c.a.only_here;
    if (c.a.only_here_names.size() < list) c.a.only_here_names.push_back(a->name());
  }
  c.b.lines = index_b.num_lines();
  c.b.failed = index_b.num_failed();
  c.b.only_here = index_b.num_lines() - index_b.num_taken();
  for (const Answer& answer : index_b.left_over(list)) c.b.only_here_names.push_back(answer.name());
}

/// Two equal files that are not outputs are no equal outputs.
void check_first_line(const std::string& path) {
  AnswersFile(path).next();
}

}  // namespace

Comparison compare_outputs(const CompareOptions& options) {
  Comparison c;
  c.a.path = options.files.at(0);
  c.b.path = options.files.at(1);
  check_first_line(c.a.path);
  check_first_line(c.b.path);
  c.identical = same_bytes(c.a.path, c.b.path);
  if (!c.identical) compare_lines(c, options);
  c.a.speed = read_speed(c.a.path);
  c.b.speed = read_speed(c.b.path);
  return c;
}

int run_compare(const std::vector<std::string>& args) {
  CompareOptions o;
  OptionSet options({.command = "compare",
                     .synopsis = "A B",
                     .summary =
                         "Compares two output files request by request, matched by custom_id.\n"
                         "Exit codes: 0 equal, 3 different, 2 not comparable."});
  options.group("Comparison");
  options.positional({.names = "two output files, A and B", .min = 2, .max = 2}, o.files);
  options.add({.name = "tolerance",
               .value = "X",
               .help = "largest distance of two log-probabilities that counts as equal"},
              o.tolerance, {.min = 0.0});
  options.group("Report");
  options.add({.name = "list", .value = "N", .help = "differences shown of each kind"}, o.list,
              {.min = 0, .max = 1'000'000});
  options.add({.name = "json", .help = "print one JSON object instead of text"}, o.json);
  if (!options.parse(args)) {
    std::cout << options.help();
    return kExitSuccess;
  }
  const Comparison c = compare_outputs(o);
  if (o.json) {
    std::cout << comparison_json(c, o).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n';
  } else {
    std::cout << comparison_text(c, o);
  }
  return c.equal() ? kExitSuccess : kExitPartialFailure;
}

}  // namespace headrace
