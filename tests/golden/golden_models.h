// The models in tests/data/golden and in folders like it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace headrace {

inline const std::filesystem::path kGoldens = "tests/data/golden";

inline std::vector<std::string> golden_names(const std::filesystem::path& goldens = kGoldens) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// What to open of a golden's folder: the directory, or the GGUF file in it.
inline std::filesystem::path model_in(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "model.gguf") ? folder / "model.gguf" : folder;
}

inline std::filesystem::path model_path(const std::string& name) {
  return model_in(kGoldens / name);
}

}  // namespace headrace
