// The models in tests/data/golden.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace headrace {

inline const std::filesystem::path kGoldens = "tests/data/golden";

inline std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::filesystem::path model_path(const std::string& name) {
  const std::filesystem::path folder = kGoldens / name;
  return std::filesystem::exists(folder / "model.gguf") ? folder / "model.gguf" : folder;
}

}  // namespace headrace
