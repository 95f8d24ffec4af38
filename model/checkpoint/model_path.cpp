#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/input_file.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

// Where the huggingface_hub library keeps what it has downloaded, by its own order of precedence.
fs::path cache_directory() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    fs::path cache = from_environment(name);
    if (!cache.empty()) return cache;
  }
  const fs::path home = from_environment("HF_HOME");
  if (!home.empty()) return home / "hub";
  fs::path user_cache = from_environment("XDG_CACHE_HOME");
  if (user_cache.empty()) user_cache = from_environment("HOME") / ".cache";
  return user_cache / "huggingface" / "hub";
}

bool is_name_part(std::string_view part) {
  return !part.empty() && part.front() != '.' &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

// "org/model" or "model", as models are named on the Hub.
bool is_hub_name(std::string_view model) {
  const std::size_t slash = model.find('/');
  if (slash == std::string_view::npos) return is_name_part(model);
  return is_name_part(model.substr(0, slash)) && is_name_part(model.substr(slash + 1));
}

fs::path repository(const fs::path& cache, std::string name) {
  const std::size_t slash = name.find('/');
  if (slash != std::string::npos) name.replace(slash, 1, "--");
  return cache / ("models--" + name);
}

// The snapshot that refs/main points to.
fs::path main_snapshot(const fs::path& repository) {
  const fs::path reference = repository / "refs" / "main";
  std::string commit = read_text(reference, 256);
  commit.erase(commit.find_last_not_of(" \t\r\n") + 1);
  fs::path snapshot = repository / "snapshots" / commit;
  std::error_code error;
  if (!is_name_part(commit) || !fs::is_directory(snapshot, error)) {
    throw std::invalid_argument(fmt::format("{}: names the snapshot {}, which is not in the cache",
                                            reference.string(), in_quotes(commit)));
  }
  return snapshot;
}

}  // namespace

fs::path resolve_model_path(const std::string& model) {
  std::error_code error;
  if (fs::exists(model, error)) return model;
  if (!is_hub_name(model)) {
    throw std::invalid_argument(fmt::format("{}: there is no such file or directory", model));
  }
  const fs::path directory = repository(cache_directory(), model);
  if (!fs::is_directory(directory, error)) {
    throw std::invalid_argument(fmt::format(
        "{}: there is no such file or directory, and the Hugging Face cache has no {} (nothing is "
        "downloaded)",
        model, directory.string()));
  }
  return main_snapshot(directory);
}

}  // namespace headrace
