// Reading a trace back: its first line, and whether its events are whole and agree with it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "runtime/trace/trace_file.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBegin = R"({"headrace":{)";
// Beyond what a few thousand ranks need in the first line.
constexpr std::size_t kLongestLine = 64U << 20;
constexpr std::size_t kMostProblems = 10;

/// An event of a main thread.
struct Event {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  Phase phase = Phase::kHost;
};

struct RankEvents {
  std::int64_t worked_ns = 0;
  std::vector<Event> events;
};

bool read_line(std::istream& file, std::string& line) {
  line.clear();
  for (char c = 0; file.get(c);) {
    if (c == '\n') return true;
    line += c;
    if (line.size() > kLongestLine) return true;
  }
  return !line.empty();
}

PhaseTimes read_phases(const ordered_json& json) {
  PhaseTimes times{};
  for (const auto& [name, value] : json.items()) {
    times[static_cast<std::size_t>(phase_named(name))] = value.get<std::int64_t>();
  }
  return times;
}

TraceSummary::Rank read_rank(const ordered_json& json) {
  TraceSummary::Rank rank;
  rank.rank = json.at("rank").get<int>();
  rank.at = {.data = json.at("replica").get<int>(),
             .pipeline = json.at("stage").get<int>(),
             .tensor = json.at("tensor").get<int>()};
  rank.host = json.at("host").get<std::string>();
  rank.num_dropped = json.at("dropped_spans").get<std::int64_t>();
  for (std::size_t i = 0; i < kNumLossTerms; ++i) {
    const std::string name(loss_term_name(static_cast<LossTerm>(i)));
    rank.terms[i] = json.at("terms_ns").at(name).get<std::int64_t>();
  }
  rank.phases = read_phases(json.at("phases_ns"));
  // Traces of earlier versions have none.
  if (json.contains("bounds_ns")) rank.bounds = read_phases(json.at("bounds_ns"));
  return rank;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {}

  TraceSummary read() {
    read_head();
    bool ended = false;
    while (!ended && next_line()) ended = take_line();
    if (!ended) problem("the file ends in the middle");
    check_terms();
    return std::move(summary_);
  }

 private:
  bool next_line() {
    ++number_;
    return read_line(file_, line_);
  }

  void problem(const std::string& text) {
    if (summary_.problems.size() < kMostProblems) summary_.problems.push_back(text);
  }

  void read_head() {
    next_line();
    try {
      const ordered_json head = ordered_json::parse(line_ + "]}").at("headrace");
      summary_.layout = head.at("layout").get<std::string>();
      summary_.num_ranks = head.at("num_ranks").get<int>();
      summary_.wall_ns = head.at("wall_ns").get<std::int64_t>();
      for (const ordered_json& json : head.at("ranks")) {
        summary_.ranks.push_back(read_rank(json));
        events_[summary_.ranks.back().rank].worked_ns = json.at("worked_ns").get<std::int64_t>();
      }
    } catch (const ordered_json::exception& e) {
      throw std::invalid_argument(
          fmt::format("{}: line 1 is not that of a trace: {}", path_.string(), e.what()));
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(fmt::format("{}: line 1: {}", path_.string(), e.what()));
    }
  }

  /// True where it was the last one.
  bool take_line() {
    if (line_ == "{}]}") return true;
    if (line_.empty() || line_.back() != ',') {
      problem(fmt::format("line {}: no event", number_));
      return false;
    }
    line_.pop_back();
    try {
      take_event(ordered_json::parse(line_));
    } catch (const ordered_json::exception& e) {
      problem(fmt::format("line {}: {}", number_, e.what()));
    } catch (const std::invalid_argument& e) {
      problem(fmt::format("line {}: {}", number_, e.what()));
    }
    return false;
  }

  void take_event(const ordered_json& json) {
    if (json.at("ph") != "X") return;
    ++summary_.num_events;
    const auto nanoseconds = [&](const char* key) {
      return std::llround(json.at(key).get<double>() * 1000.0);
    };
    const std::int64_t begin = nanoseconds("ts");
    const std::int64_t length = nanoseconds("dur");
    if (begin < 0 || length < 0) throw std::invalid_argument("a time is negative");
    const Phase phase = phase_named(json.at("name").get<std::string>());
    const auto rank = events_.find(json.at("pid").get<int>());
    if (rank == events_.end()) throw std::invalid_argument("pid is none of the ranks");
    if (json.at("tid").get<int>() != 0) return;
    rank->second.events.push_back({.begin_ns = begin, .end_ns = begin + length, .phase = phase});
  }

  void check_terms() {
    for (const TraceSummary::Rank& rank : summary_.ranks) {
      std::int64_t sum = 0;
      for (const std::int64_t term : rank.terms) sum += term;
      if (sum != summary_.wall_ns) {
        problem(fmt::format("rank {}: its terms add up to {} ns, the wall time is {} ns", rank.rank,
                            sum, summary_.wall_ns));
      }
      if (rank.num_dropped == 0) check_against_events(rank);
    }
  }

  // What the timeline shows is what the terms say, where the timeline is whole. Waiting and host
  // time are left out: pauses that follow each other are one span.
  void check_against_events(const TraceSummary::Rank& rank) {
    RankEvents& own = events_.at(rank.rank);
    const LossTerms shown = terms_shown(own);
    // Each of an event's two times is rounded once, when it is put on rank 0's clock; clocks drift
    // apart by less than a thousandth of a percent.
    const std::int64_t tolerance =
        static_cast<std::int64_t>(own.events.size()) * 2 + 1000 + summary_.wall_ns / 100'000;
    for (const LossTerm term :
         {LossTerm::kGemm, LossTerm::kAttention, LossTerm::kOther, LossTerm::kTransfer}) {
      const auto i = static_cast<std::size_t>(term);
      if (std::abs(shown[i] - rank.terms[i]) > tolerance) {
        problem(fmt::format("rank {}: {} is {} ns, but its events show {} ns", rank.rank,
                            loss_term_name(term), rank.terms[i], shown[i]));
      }
    }
  }

  // Of events up to the rank's last work: each one's length without those inside it.
  static LossTerms terms_shown(RankEvents& own) {
    std::sort(own.events.begin(), own.events.end(), [](const Event& a, const Event& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    LossTerms terms{};
    std::vector<const Event*> open;
    const auto of = [&](const Event& event) -> std::int64_t& {
      return terms[static_cast<std::size_t>(loss_term_of(event.phase))];
    };
    for (const Event& event : own.events) {
      if (event.begin_ns >= own.worked_ns) break;
      while (!open.empty() && open.back()->end_ns <= event.begin_ns) open.pop_back();
      if (!open.empty()) of(*open.back()) -= event.end_ns - event.begin_ns;
      of(event) += event.end_ns - event.begin_ns;
      open.push_back(&event);
    }
    return terms;
  }

  std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;
  std::int64_t number_ = 0;
  TraceSummary summary_;
  std::map<int, RankEvents> events_;  // by rank
};

}  // namespace

bool is_trace(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(kBegin.size(), '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == kBegin;
}

TraceSummary read_trace(const std::filesystem::path& path) {
  return Reader(path).read();
}

namespace {

std::string cell(std::int64_t part_ns, std::int64_t whole_ns) {
  const double percent =
      whole_ns > 0 ? 100.0 * static_cast<double>(part_ns) / static_cast<double>(whole_ns) : 0.0;
  return fmt::format("{:.3f} ({:4.1f})", 1e-9 * static_cast<double>(part_ns), percent);
}

// Empty where nothing is known of the machine.
std::string bound_row(const TraceSummary::Rank& rank, std::int64_t wall_ns) {
  const LossTerms bounds = bound_terms(rank.bounds);
  const std::int64_t total = std::accumulate(bounds.begin(), bounds.end(), std::int64_t{0});
  if (total == 0) return {};
  std::string text = fmt::format("{:<22}", "  at least");
  for (std::size_t i = 0; i < kNumLossTerms; ++i) {
    text += fmt::format("{:>16}", bounds[i] > 0 ? cell(bounds[i], rank.terms[i]) : "");
  }
  return text + fmt::format("{:>16}\n", cell(total, wall_ns));
}

}  // namespace

std::string loss_table(const TraceSummary& trace) {
  std::string text = fmt::format("{:<22}", "seconds (% of wall)");
  for (std::size_t i = 0; i < kNumLossTerms; ++i) {
    text += fmt::format("{:>16}", loss_term_name(static_cast<LossTerm>(i)));
  }
  text += fmt::format("{:>16}\n", "wall");
  bool has_bounds = false;
  for (const TraceSummary::Rank& rank : trace.ranks) {
    const std::string place = fmt::format("rank {} ({}.{}.{})", rank.rank, rank.at.pipeline,
                                          rank.at.tensor, rank.at.data);
    text += fmt::format("{:<22}", place);
    for (const std::int64_t term : rank.terms)
      text += fmt::format("{:>16}", cell(term, trace.wall_ns));
    text += fmt::format("{:>16.3f}\n", 1e-9 * static_cast<double>(trace.wall_ns));
    const std::string bounds = bound_row(rank, trace.wall_ns);
    has_bounds = has_bounds || !bounds.empty();
    text += bounds;
  }
  if (has_bounds) {
    text +=
        "at least: multiplying at this machine's peak, or reading weights, keys and values at its "
        "bandwidth; (% of the time above)\n";
  }
  return text;
}

}  // namespace headrace
