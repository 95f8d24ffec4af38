#include "launch/model_bench.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <random>
#include <stdexcept>
#include <system_error>

#include "launch/agreement.h"
#include "launch/exit_codes.h"
#include "launch/generate.h"
#include "launch/inspect.h"
#include "model/checkpoint/dummy_checkpoint.h"
#include "runtime/trace/trace_file.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// A directory that goes when it does.
class WorkDirectory {
 public:
  WorkDirectory() {
    std::string pattern = (fs::temp_directory_path() / "headrace-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::invalid_argument(
          fmt::format("{}: no directory can be made there", fs::temp_directory_path().string()));
    }
    path_ = pattern;
  }
  ~WorkDirectory() {
    std::error_code ignored;  // a destructor does not throw, and leftovers do no harm
    fs::remove_all(path_, ignored);
  }
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;

  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

// Prompts of random ids, the same every time.
void write_requests(const ModelBenchSettings& settings, const std::string& path) {
  const int vocab = open_dummy(settings.model)->config().vocab_size;
  std::mt19937 generator(1);
  std::ofstream file(path);
  for (int request = 0; request < settings.requests; ++request) {
    ordered_json prompt = ordered_json::array();
    for (int i = 0; i < settings.prompt_tokens; ++i) {
      prompt.push_back(generator() % static_cast<std::uint32_t>(vocab));
    }
    file << ordered_json{{"prompt", std::move(prompt)},
                         {"temperature", 0},
                         {"max_tokens", settings.output_tokens},
                         {"ignore_eos", true}}
                .dump()
         << '\n';
  }
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

std::vector<std::string> generate_arguments(const ModelBenchSettings& settings,
                                            const std::string& directory) {
  const fs::path work(directory);
  std::vector<std::string> arguments = {"--model",  settings.model,
                                        "--input",  (work / "requests.jsonl").string(),
                                        "--output", (work / "answers.jsonl").string(),
                                        "--trace",  (work / "trace.json").string()};
  arguments.insert(arguments.end(), settings.generate_options.begin(),
                   settings.generate_options.end());
  return arguments;
}

void print_terms(const ModelBenchSettings& settings, const WorkDirectory& work) {
  const Findings findings = inspect_trace(
      {.path = work / "trace.json", .journal_dir = {}, .verify = false, .json = settings.json});
  std::ifstream file(work / "answers.jsonl.summary.json");
  const ordered_json summary = ordered_json::parse(file);
  const auto rate = [&](const char* key) { return summary.at(key).get<double>(); };
  if (settings.json) {
    ordered_json json = {{"model", settings.model},
                         {"requests", settings.requests},
                         {"prompt_tokens", settings.prompt_tokens},
                         {"output_tokens", settings.output_tokens}};
    json["prompt_tokens_per_s"] = rate("prompt_tokens_per_s");
    json["output_tokens_per_s"] = rate("output_tokens_per_s");
    json.update(findings.facts);
    std::cout << json.dump(2) << '\n';
    return;
  }
  std::cout << fmt::format(
      "{} requests of {} tokens, {} out each: {:.1f} prompt tokens/s, {:.1f} output tokens/s\n{}",
      settings.requests, settings.prompt_tokens, settings.output_tokens,
      rate("prompt_tokens_per_s"), rate("output_tokens_per_s"), findings.table);
}

}  // namespace

int run_model_bench(const ModelBenchSettings& settings) {
  const std::unique_ptr<Environment> environment = start_mpi();
  const bool is_root = environment->rank() == 0;
  std::optional<WorkDirectory> work;
  std::string path;
  try {
    prepare_together(environment->world(), [&] {
      if (!is_root) return;
      work.emplace();
      path = *work / "";
      write_requests(settings, *work / "requests.jsonl");
    });
  } catch (const std::invalid_argument& mistake) {
    if (is_root) std::cerr << "headrace: " << mistake.what() << '\n';
    return kExitUsage;
  }
  path = environment->world().broadcast(path, 0);
  const int code = generate(*environment, generate_arguments(settings, path));
  if (is_root && code == kExitSuccess) print_terms(settings, *work);
  return code;
}

}  // namespace headrace
