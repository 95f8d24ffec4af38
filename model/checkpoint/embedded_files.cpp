#include "model/checkpoint/embedded_files.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "model/checkpoint/hdf5_contents.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// A path that leads through a checkpoint.
struct Place {
  fs::path container;
  std::string name;  // of the file in it
};

std::optional<Place> split(const fs::path& path) {
  std::error_code error;
  fs::path container = path.parent_path();
  while (container.has_relative_path() && !fs::exists(container, error)) {
    container = container.parent_path();
  }
  if (!is_hdf5(container)) return std::nullopt;
  return Place{container, path.lexically_relative(container).generic_string()};
}

}  // namespace

std::optional<EmbeddedFile> find_embedded_file(const fs::path& path) {
  const std::optional<Place> place = split(path);
  if (!place) return std::nullopt;
  std::optional<Hdf5File> file = find_hdf5_file(place->container, place->name);
  if (!file) return std::nullopt;
  return EmbeddedFile{place->container, std::move(*file)};
}

bool is_model_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) || find_embedded_file(path).has_value();
}

std::vector<fs::path> model_files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(directory, error)) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  const std::optional<Place> place = split(directory / "*");
  if (!place) return files;
  const std::string prefix = place->name.substr(0, place->name.size() - 1);
  for (const std::string& name : hdf5_file_names(place->container, prefix)) {
    if (name.find('/', prefix.size()) == std::string::npos)
      files.push_back(place->container / name);
  }
  return files;
}

}  // namespace headrace
