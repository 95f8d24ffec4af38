#include "runtime/job/output_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace headrace {
namespace {

// Large enough for sequential speed on a parallel file system, small beside the index.
constexpr std::size_t kBatchBytes = 8U << 20;

struct Piece {
  std::int64_t offset = 0;
  std::size_t length = 0;
  std::size_t place = 0;  // in the batch
};

bool selected(LineIndex::Status status, MergeSelection selection) {
  return (status == LineIndex::Status::kAnswered && selection.answered) ||
         (status == LineIndex::Status::kFailed && selection.failed);
}

class Merger {
 public:
  Merger(const MergeSource& source, const std::filesystem::path& target, FileOps& files)
      : source_(source), target_(target), files_(files), out_(files.create(target)) {}

  void add(LineIndex::Extent extent) {
    if (!pieces_.empty() && batch_bytes_ + extent.length + 1 > kBatchBytes) write_batch();
    pieces_.push_back({extent.offset, extent.length, batch_bytes_});
    batch_bytes_ += extent.length + 1;
  }

  std::int64_t finish() {
    write_batch();
    files_.sync(out_, target_);
    return written_;
  }

 private:
  void write_batch() {
    if (pieces_.empty()) return;
    batch_.assign(batch_bytes_, '\n');
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    for (const Piece& piece : pieces_) {
      if (!read_at(source_.partial, piece.offset,
                   std::span(batch_).subspan(piece.place, piece.length))) {
        throw std::runtime_error(
            fmt::format("{}: shorter than its journal says", source_.partial_path.string()));
      }
    }
    files_.write(out_, batch_, target_);
    written_ += std::ssize(batch_);
    pieces_.clear();
    batch_bytes_ = 0;
  }

  const MergeSource& source_;
  const std::filesystem::path& target_;
  FileOps& files_;
  File out_;
  std::vector<Piece> pieces_;
  std::size_t batch_bytes_ = 0;
  std::string batch_;
  std::int64_t written_ = 0;
};

}  // namespace

std::int64_t merge_lines(const MergeSource& source, MergeSelection selection,
                         const std::filesystem::path& target, FileOps& files) {
  Merger merger(source, target, files);
  for (std::int64_t ordinal = 0; ordinal < source.num_lines; ++ordinal) {
    if (selected(source.lines.status(ordinal), selection)) merger.add(source.lines.extent(ordinal));
  }
  return merger.finish();
}

}  // namespace headrace
