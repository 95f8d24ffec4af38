// `headrace inspect`: what a path is, its facts, and whether it is sound. One function a kind of
// file; each fills a Findings, which is printed the same way for all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace headrace {

struct InspectOptions {
  std::string path;
  std::string journal_dir;  // where --journal-dir put a job's journal; empty: beside the output
  bool verify = false;      // read everything, not only what tells the facts
  bool json = false;
};

struct Findings {
  std::string kind;  // "model (GGUF)"
  /// In the order they are shown: strings, numbers, booleans, lists and objects of these.
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  std::vector<std::string> problems;  // empty: sound
  int exit_code = 0;
  std::string table = {};  // for people, below the facts; --json has it among the facts

  /// Unsound: one line that says what is wrong and where.
  void problem(std::string text);
};

/// A Hugging Face directory, org/name in the local cache, a GGUF file or a Headrace checkpoint.
Findings inspect_model(const InspectOptions& options);

/// A job, named by its output or by any of its files; `output` is the former.
Findings inspect_output(const std::string& output, const InspectOptions& options);

/// A file of requests.
Findings inspect_requests(const InspectOptions& options);

/// The file of generate --trace.
Findings inspect_trace(const InspectOptions& options);

/// Finds out which of them the path is. Throws std::invalid_argument where it is none.
Findings inspect_path(const InspectOptions& options);

std::string findings_text(const Findings& findings, const std::string& path);
nlohmann::ordered_json findings_json(const Findings& findings, const std::string& path);

}  // namespace headrace
