#include "launch/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "launch/commands.h"
#include "launch/exit_codes.h"
#include "launch/options.h"
#include "model/checkpoint/hdf5_contents.h"
#include "runtime/job/json_line.h"
#include "runtime/trace/trace_file.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The endings of the files that a job keeps beside its output.
constexpr std::array<std::string_view, 4> kJobEndings = {".partial", ".journal", ".lock",
                                                         ".summary.json"};

/// The output that a job's file belongs to, or nothing where the name is no such file's.
std::optional<std::string> output_of(const std::string& path) {
  for (const std::string_view ending : kJobEndings) {
    if (path.size() > ending.size() && path.ends_with(ending)) {
      return path.substr(0, path.size() - ending.size());
    }
  }
  return std::nullopt;
}

bool has_job_files(const std::string& output) {
  return std::any_of(kJobEndings.begin(), kJobEndings.end(), [&](std::string_view ending) {
    return fs::exists(output + std::string(ending));
  });
}

bool begins_with(const std::string& path, std::string_view magic) {
  std::string head(magic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return file.gcount() == static_cast<std::streamsize>(magic.size()) && head == magic;
}

/// The first line that is not blank, if it is a JSON object. A line that goes on for ever is none.
std::optional<ordered_json> first_object(const std::string& path) {
  constexpr std::size_t kLongest = 64U << 20;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  for (char c = 0; line.size() < kLongest && file.get(c);) {
    if (c != '\n') {
      line += c;
    } else if (line.find_first_not_of(" \t\r") != std::string::npos) {
      break;
    } else {
      line.clear();
    }
  }
  ordered_json object;
  if (!parse_json_line(line, object).empty() || !object.is_object()) return std::nullopt;
  return object;
}

bool is_compressed(const std::string& path) {
  return path.ends_with(".gz") || path.ends_with(".zst");
}

Findings inspect_file(const InspectOptions& options) {
  if (begins_with(options.path, "GGUF") || is_hdf5(options.path)) return inspect_model(options);
  if (const auto output = output_of(options.path)) return inspect_output(*output, options);
  if (has_job_files(options.path)) return inspect_output(options.path, options);
  if (is_trace(options.path)) return inspect_trace(options);
  if (is_compressed(options.path)) return inspect_requests(options);
  if (const auto first = first_object(options.path)) {
    if (first->contains("custom_id") && first->contains("response")) {
      return inspect_output(options.path, options);
    }
    for (const char* key : {"body", "prompt", "messages"}) {
      if (first->contains(key)) return inspect_requests(options);
    }
  }
  const std::string hint = options.path.ends_with(".safetensors")
                               ? "; weights alone are no model: name the directory they are in"
                               : "";
  throw std::invalid_argument(
      fmt::format("{}: neither a model, an output, a job's file, a trace nor a file of requests{}",
                  options.path, hint));
}

std::string value_text(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_array()) {
    std::string text;
    for (const ordered_json& item : value) text += (text.empty() ? "" : ", ") + value_text(item);
    return text;
  }
  if (value.is_object()) {
    std::string text;
    for (const auto& [key, item] : value.items()) {
      text += (text.empty() ? "" : ", ") + key + " " + value_text(item);
    }
    return text;
  }
  return value.dump();
}

}  // namespace

void Findings::problem(std::string text) {
  // Weights and tokenizer may come from one damaged file.
  const bool is_known = std::find(problems.begin(), problems.end(), text) != problems.end();
  if (!is_known) problems.push_back(std::move(text));
  exit_code = kExitUsage;
}

Findings inspect_path(const InspectOptions& options) {
  if (fs::is_directory(options.path)) return inspect_model(options);
  if (fs::exists(options.path)) return inspect_file(options);
  if (has_job_files(options.path) || !options.journal_dir.empty()) {
    return inspect_output(options.path, options);
  }
  if (const auto output = output_of(options.path); output && fs::exists(*output)) {
    return inspect_output(*output, options);
  }
  return inspect_model(
      options);  // org/name, or nothing at all: then the error says where it looked
}

std::string findings_text(const Findings& findings, const std::string& path) {
  std::size_t width = 0;
  for (const auto& [name, value] : findings.facts.items()) width = std::max(width, name.size());
  std::string text = fmt::format("{}: {}\n", path, findings.kind);
  for (const auto& [name, value] : findings.facts.items()) {
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    text += fmt::format("  {:<{}}  {}\n", label, width, value_text(value));
  }
  text += findings.table;
  for (const std::string& problem : findings.problems)
    text += fmt::format("problem: {}\n", problem);
  return text + (findings.problems.empty() ? "sound\n" : "not sound\n");
}

ordered_json findings_json(const Findings& findings, const std::string& path) {
  ordered_json json = {{"path", path}, {"kind", findings.kind}};
  json["sound"] = findings.problems.empty();
  json["problems"] = findings.problems;
  json["exit_code"] = findings.exit_code;
  json["facts"] = findings.facts;
  return json;
}

int run_inspect(const std::vector<std::string>& args) {
  InspectOptions o;
  std::vector<std::string> paths;
  OptionSet options(
      {.command = "inspect",
       .synopsis = "PATH",
       .summary = "Says what PATH is (model, output, file of a job, trace, file of requests), its "
                  "facts, and whether\nit is sound. Exit codes: 0 sound (an output: "
                  "complete), 3 complete with failed requests,\n75 unfinished and "
                  "resumable, 2 not sound or none of these."});
  options.positional({.names = "one path", .min = 1, .max = 1}, paths);
  options.add(
      {.name = "verify", .help = "read all weights or lines, not only what tells the facts"},
      o.verify);
  options.add({.name = "journal-dir",
               .value = "DIR",
               .help = "where the job keeps its journal",
               .fallback = "beside the output"},
              o.journal_dir);
  options.add({.name = "json", .help = "print one JSON object instead of text"}, o.json);
  if (!options.parse(args)) {
    std::cout << options.help();
    return kExitSuccess;
  }
  o.path = paths.at(0);
  const Findings findings = inspect_path(o);
  // File names and metadata may hold any bytes.
  constexpr auto kReplace = ordered_json::error_handler_t::replace;
  std::cout << (o.json ? findings_json(findings, o.path).dump(2, ' ', false, kReplace) + "\n"
                       : findings_text(findings, o.path));
  return findings.exit_code;
}

}  // namespace headrace
