// The small files of a model (configuration, tokenizer, chat templates), wherever they are: in a
// directory, or in a Headrace checkpoint, which counts as a directory of those stored in it:
// model.h5/tokenizer.json. What reads them goes through here and InputFile, and need not know.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "model/checkpoint/hdf5_layout.h"

namespace headrace {

struct EmbeddedFile {
  std::filesystem::path container;  // the checkpoint
  Hdf5File file;
};

/// Where a checkpoint has the file that path names; nothing where no part of path is a checkpoint,
/// or it has no such file. Throws std::invalid_argument for a checkpoint that is not sound.
std::optional<EmbeddedFile> find_embedded_file(const std::filesystem::path& path);

/// Whether there is a file by this name.
bool is_model_file(const std::filesystem::path& path);

/// The files of a directory, in order of name; none where there is no such directory.
std::vector<std::filesystem::path> model_files_in(const std::filesystem::path& directory);

}  // namespace headrace
