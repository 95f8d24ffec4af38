#include "runtime/job/job_summary.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string>

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
// Layout, latencies and key take a few KiB; anything larger is not a summary.
constexpr std::int64_t kMaxBytes = 16 << 20;

Json key_json(const JobKey& key) {
  Json list = Json::array();
  for (const JobKeyPart& part : key) {
    list.push_back({{"name", part.name}, {"value", part.value}, {"option", part.option}});
  }
  return list;
}

JobKey key_of(const Json& list) {
  JobKey key;
  for (const Json& part : list) {
    key.push_back({part.at("name").get<std::string>(), part.at("value").get<std::string>(),
                   part.at("option").get<std::string>()});
  }
  return key;
}

Hash128 hash_of_hex(const std::string& text) {
  Hash128 hash;
  if (text.size() != 32) throw std::invalid_argument("input.hash: expected 32 hexadecimal digits");
  const char* begin = text.data();
  const auto high = std::from_chars(begin, begin + 16, hash.high, 16);
  const auto low = std::from_chars(begin + 16, begin + 32, hash.low, 16);
  if (high.ptr != begin + 16 || low.ptr != begin + 32) {
    throw std::invalid_argument("input.hash: expected 32 hexadecimal digits");
  }
  return hash;
}

JobSummary parse(const Json& json) {
  if (json.at("format").get<int>() != kFormat) {
    throw std::invalid_argument(
        fmt::format("format: expected {}, got {}", kFormat, json.at("format").dump()));
  }
  JobSummary summary;
  summary.key = key_of(json.at("job_key"));
  summary.first_start_s = json.at("first_start").get<std::int64_t>();
  summary.num_lines = json.at("input").at("requests").get<std::int64_t>();
  summary.input_hash = hash_of_hex(json.at("input").at("hash").get<std::string>());
  summary.counts.num_answered = json.at("answered").get<std::int64_t>();
  summary.counts.num_failed = json.at("failed").get<std::int64_t>();
  summary.counts.num_prompt_tokens = json.at("usage").at("prompt_tokens").get<std::int64_t>();
  summary.counts.num_completion_tokens =
      json.at("usage").at("completion_tokens").get<std::int64_t>();
  summary.output_bytes = json.at("output_bytes").get<std::int64_t>();
  summary.error_file = json.at("error_file").get<std::string>();
  summary.error_bytes = json.at("error_bytes").get<std::int64_t>();
  return summary;
}

std::string read_text(const std::filesystem::path& path) {
  const File file = open_read(path);
  const std::int64_t size = size_of(file);
  if (size > kMaxBytes) throw std::invalid_argument("too large to be a summary");
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!read_at(file, 0, text)) throw std::invalid_argument("changed while it was read");
  return text;
}

}  // namespace

std::string to_json(const JobSummary& summary, const Json& details) {
  Json json;
  json["format"] = kFormat;
  json["job_key"] = key_json(summary.key);
  json["job_key_hash"] = hex(hash_of(summary.key));
  json["first_start"] = summary.first_start_s;
  json["input"] = {{"requests", summary.num_lines}, {"hash", hex(summary.input_hash)}};
  json["answered"] = summary.counts.num_answered;
  json["failed"] = summary.counts.num_failed;
  json["usage"] = {{"prompt_tokens", summary.counts.num_prompt_tokens},
                   {"completion_tokens", summary.counts.num_completion_tokens}};
  json["output_bytes"] = summary.output_bytes;
  json["error_file"] = summary.error_file;
  json["error_bytes"] = summary.error_bytes;
  for (const auto& item : details.items()) json[item.key()] = item.value();
  return json.dump(2) + "\n";
}

JobSummary read_summary(const std::filesystem::path& path) {
  try {
    return parse(Json::parse(read_text(path)));
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(
        fmt::format("{}: not a job's summary: {}", path.string(), error.what()));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(
        fmt::format("{}: not a job's summary: {}", path.string(), error.what()));
  }
}

}  // namespace headrace
