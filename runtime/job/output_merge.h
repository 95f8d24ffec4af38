// OUTPUT.partial, in order of finishing, becomes the output in input order.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/job/file_ops.h"
#include "runtime/job/line_index.h"

namespace headrace {

struct MergeSource {
  const File& partial;
  const std::filesystem::path& partial_path;
  const LineIndex& lines;
  std::int64_t num_lines = 0;
};

struct MergeSelection {
  bool answered = true;
  bool failed = true;
};

/// Writes the selected lines, ordered by ordinal, to a new file and syncs it. Memory is bounded: a
/// batch of lines is read in the order of the source and written in one piece. Returns the bytes
/// written.
std::int64_t merge_lines(const MergeSource& source, MergeSelection selection,
                         const std::filesystem::path& target, FileOps& files);

}  // namespace headrace
