#include <fmt/format.h>

#include <map>
#include <unordered_set>

#include "launch/inspect.h"
#include "runtime/job/hash.h"
#include "runtime/job/input_reader.h"
#include "runtime/job/json_line.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kListedProblems = 10;

/// Reads a file of requests once and counts. What a request asks of a model (lengths, ids) is
/// checked when it runs; here each line only has to be a request.
class RequestSurvey {
 public:
  void line(const InputLine& line, const std::string& place);
  void report(Findings& findings) const;

 private:
  void bad(const std::string& place, std::string_view why);
  void custom_id(const ordered_json& request, const std::string& place);

  std::int64_t num_lines_ = 0;
  std::int64_t num_bad_ = 0;
  std::int64_t num_without_id_ = 0;
  std::map<std::string, std::int64_t> by_form_;
  std::unordered_set<std::uint64_t> ids_;  // hashes: 64 bits tell the ids of any real file apart
  std::vector<std::string> problems_;      // the first of them
};

/// "/v1/chat/completions", "prompt" or "messages"; empty where the line is no request.
std::string form_of(const ordered_json& request) {
  const auto url = request.find("url");
  const auto body = request.find("body");
  if (body != request.end() && body->is_object()) {
    return url != request.end() && url->is_string() ? url->get<std::string>() : "";
  }
  if (request.contains("messages")) return "messages (short form)";
  if (request.contains("prompt")) return "prompt (short form)";
  return "";
}

void RequestSurvey::bad(const std::string& place, std::string_view why) {
  ++num_bad_;
  if (problems_.size() < kListedProblems) problems_.push_back(fmt::format("{}: {}", place, why));
}

void RequestSurvey::line(const InputLine& line, const std::string& place) {
  ++num_lines_;
  if (line.too_long) return bad(place, line_too_long_text());
  ordered_json request;
  if (const std::string why = parse_json_line(line.text, request); !why.empty())
    return bad(place, why);
  if (!request.is_object()) return bad(place, "a JSON object is expected");
  const std::string form = form_of(request);
  if (form.empty())
    return bad(place, "a request with url and body, prompt, or messages is expected");
  ++by_form_[form];
  custom_id(request, place);
}

void RequestSurvey::custom_id(const ordered_json& request, const std::string& place) {
  const auto id = request.find("custom_id");
  if (id == request.end() || id->is_null()) {
    ++num_without_id_;
    return;
  }
  if (!id->is_string()) return bad(place, "custom_id is not a string");
  if (ids_.insert(hash64(id->get_ref<const std::string&>())).second) return;
  bad(place, fmt::format("custom_id {} came before", id->dump()));
}

void RequestSurvey::report(Findings& findings) const {
  findings.facts["requests"] = num_lines_;
  findings.facts["forms"] = by_form_;
  findings.facts["without_custom_id"] = num_without_id_;
  findings.facts["bad_lines"] = num_bad_;
  for (const std::string& problem : problems_) findings.problem(problem);
  if (num_bad_ > static_cast<std::int64_t>(problems_.size())) {
    findings.problem(
        fmt::format("{} more bad lines", num_bad_ - static_cast<std::int64_t>(problems_.size())));
  }
}

}  // namespace

Findings inspect_requests(const InspectOptions& options) {
  Findings findings;
  findings.kind = "requests";
  RequestSurvey survey;
  check_inputs({options.path}, {});
  InputReader reader({.paths = {options.path}, .shard = {}});
  try {
    InputLine line;
    while (reader.next(line)) survey.line(line, reader.place(line));
  } catch (const std::invalid_argument& e) {
    findings.problem(e.what());  // damaged compressed data
  }
  survey.report(findings);
  return findings;
}

}  // namespace headrace
