#include "launch/answers_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string_view>

namespace headrace {
namespace {

using nlohmann::json;

std::uint64_t hash_of_id(std::string_view id) {
  return std::hash<std::string_view>{}(id);
}

/// Lines without an id are told apart from every id by the leading zero byte.
std::uint64_t hash_of_unnamed(std::int64_t ordinal) {
  std::string key(1, '\0');
  key += std::to_string(ordinal);
  return hash_of_id(key);
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::int64_t line,
                         std::string_view why) {
  throw std::invalid_argument(fmt::format("{} line {}: {}", path.string(), line, why));
}

/// Deeper than any answer; comparing and printing a value recurse.
constexpr int kMaxDepth = 128;

/// A discarded value where the text is not JSON or is nested too deeply.
json parse_line(const std::string& text) {
  bool too_deep = false;
  const auto keep = [&](int depth, json::parse_event_t, const json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  json line = json::parse(text, keep, /*allow_exceptions=*/false);
  return too_deep ? json(json::value_t::discarded) : line;
}

bool is_output_line(const json& line) {
  const auto id = line.find("custom_id");
  if (id == line.end() || !(id->is_string() || id->is_null())) return false;
  const auto response = line.find("response");
  return response != line.end() && (response->is_object() || response->is_null());
}

}  // namespace

bool Answer::failed() const {
  const json& response = line.at("response");
  if (response.is_null()) return true;
  const auto status = response.find("status_code");
  return status != response.end() && status->is_number() && status->get<double>() >= 400.0;
}

std::string Answer::name() const {
  if (!custom_id) return fmt::format("line {}", line_number);
  return nlohmann::json(*custom_id).dump();
}

AnswersFile::AnswersFile(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::binary) {
  if (file_ && std::filesystem::is_regular_file(path)) return;
  const std::filesystem::path partial = path.string() + ".partial";
  if (!std::filesystem::exists(path) && std::filesystem::exists(partial)) {
    throw std::invalid_argument(
        fmt::format("{} is not finished: {} is there; run its job again to complete it",
                    path.string(), partial.string()));
  }
  throw std::invalid_argument(fmt::format("{}: a readable output file is expected", path.string()));
}

std::optional<Answer> AnswersFile::next() {
  if (auto answer = read_line()) return answer;
  if (file_.bad()) throw std::runtime_error(fmt::format("{}: read error", path_.string()));
  return std::nullopt;
}

std::optional<Answer> AnswersFile::read_line() {
  std::string text;
  while (std::getline(file_, text)) {
    ++line_number_;
    Answer answer;
    answer.offset = position_;
    answer.line_number = line_number_;
    position_ += text.size() + 1;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    answer.line = parse_line(text);
    if (answer.line.is_discarded()) {
      refuse(path_, line_number_, "valid JSON, nested at most 128 deep, is expected");
    }
    if (!is_output_line(answer.line)) {
      refuse(path_, line_number_, "an output line with custom_id and response is expected");
    }
    if (const json& id = answer.line["custom_id"]; id.is_string()) {
      answer.custom_id = id.get<std::string>();
    }
    return answer;
  }
  return std::nullopt;
}

Answer AnswersFile::at(std::uint64_t offset, std::int64_t line_number) {
  // Two outputs usually have one order: then this is the next line, and no buffer is thrown away.
  if (offset != position_ || !file_.good()) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    position_ = offset;
    line_number_ = line_number - 1;
  }
  if (auto answer = next()) return std::move(*answer);
  throw std::runtime_error(fmt::format("{} changed while it was read", path_.string()));
}

AnswerIndex::AnswerIndex(const std::filesystem::path& path) : file_(path) {
  std::int64_t unnamed = 0;
  while (const auto answer = file_.next()) {
    const std::uint64_t hash =
        answer->custom_id ? hash_of_id(*answer->custom_id) : hash_of_unnamed(unnamed++);
    entries_.push_back(
        {.hash = hash, .offset = answer->offset, .line_number = answer->line_number, .taken = 0});
    if (answer->failed()) ++num_failed_;
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.offset < b.offset;
  });
}

std::optional<Answer> AnswerIndex::take(const Answer& other) {
  const std::uint64_t hash =
      other.custom_id ? hash_of_id(*other.custom_id) : hash_of_unnamed(num_unnamed_++);
  const auto first = std::lower_bound(entries_.begin(), entries_.end(), hash,
                                      [](const Entry& e, std::uint64_t h) { return e.hash < h; });
  if (first == entries_.end() || first->hash != hash) return std::nullopt;
  const auto next = first + first->taken;
  if (next >= entries_.end() || next->hash != hash) return std::nullopt;
  Answer found = file_.at(next->offset, next->line_number);
  if (found.custom_id != other.custom_id) {
    // Two ids of one file share 64 bits: not by chance in any file that exists.
    throw std::runtime_error(
        fmt::format("ids {} and {} cannot be told apart", found.name(), other.name()));
  }
  ++first->taken;
  ++num_taken_;
  return found;
}

std::vector<Answer> AnswerIndex::left_over(std::size_t limit) {
  std::vector<Entry> free;
  const auto earlier = [](const Entry& a, const Entry& b) { return a.offset < b.offset; };
  std::int64_t run_begin = 0;
  for (std::int64_t i = 0; i < num_lines(); ++i) {
    const auto entry = entries_.begin() + i;
    if (entry->hash != (entries_.begin() + run_begin)->hash) run_begin = i;
    if (i < run_begin + (entries_.begin() + run_begin)->taken) continue;
    // A heap of the earliest: the latest of them is on top and makes room.
    free.push_back(*entry);
    std::push_heap(free.begin(), free.end(), earlier);
    if (free.size() <= limit) continue;
    std::pop_heap(free.begin(), free.end(), earlier);
    free.pop_back();
  }
  std::sort_heap(free.begin(), free.end(), earlier);
  std::vector<Answer> answers;
  answers.reserve(free.size());
  for (const Entry& e : free) answers.push_back(file_.at(e.offset, e.line_number));
  return answers;
}

}  // namespace headrace
