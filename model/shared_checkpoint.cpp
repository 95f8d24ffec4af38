#include "model/shared_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "model/checkpoint/dequantize.h"
#include "model/checkpoint/encode.h"

namespace headrace {
namespace {

// Rows of a tensor that several ranks want; each may want other columns of them.
struct Rows {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator<(const Rows& a, const Rows& b) {
    return std::tie(a.name, a.begin, a.end) < std::tie(b.name, b.begin, b.end);
  }
};

struct Wanted {
  std::vector<int> ranks;  // in order; a rank that wants them twice stands there twice
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;
  std::uint64_t bytes_apart = 0;  // that they would read, each for itself
};

Rows rows_of(const WeightSource& source) {
  return {source.name, source.block.row_begin, source.block.row_end};
}

using WantedRows = std::map<Rows, Wanted>;

// Rows of which bytes would be read twice, and who wants them.
WantedRows shared_rows(const Checkpoint& checkpoint,
                       const std::vector<std::vector<WeightSource>>& wanted,
                       const SharingSizes& sizes) {
  WantedRows all;
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const WeightSource& source : wanted[rank]) {
      const TensorBlock& block = source.block;
      const auto [found, is_new] =
          all.try_emplace(rows_of(source), Wanted{{}, block.col_begin, block.col_end, 0});
      Wanted& rows = found->second;
      rows.ranks.push_back(static_cast<int>(rank));
      rows.col_begin = std::min(rows.col_begin, block.col_begin);
      rows.col_end = std::max(rows.col_end, block.col_end);
      rows.bytes_apart += checkpoint.bytes_to_read(source.name, block);
    }
  }
  std::erase_if(all, [&](const auto& entry) {
    const auto& [rows, who] = entry;
    const bool twice = std::adjacent_find(who.ranks.begin(), who.ranks.end()) != who.ranks.end();
    const bool small = (rows.end - rows.begin) * (who.col_end - who.col_begin) < sizes.tensor;
    if (who.ranks.size() < 2 || twice || small) return true;
    const TensorBlock together{rows.begin, rows.end, who.col_begin, who.col_end};
    return who.bytes_apart <= checkpoint.bytes_to_read(rows.name, together);
  });
  return all;
}

// Each rank must come to shared rows in the order of the whole model's tensors.
void check_order(const ModelConfig& config, const WantedRows& shared,
                 const std::vector<std::vector<WeightSource>>& wanted) {
  std::map<std::string, std::int64_t> places;
  const StagePart whole{
      .begin_layer = 0, .end_layer = config.num_layers, .embedding = true, .head = true};
  for (const WeightSource& source : all_sources(part_sources(config, whole))) {
    places.emplace(source.name, static_cast<std::int64_t>(places.size()));
  }
  for (const std::vector<WeightSource>& sources : wanted) {
    std::pair<std::int64_t, std::int64_t> last{-1, -1};
    for (const WeightSource& source : sources) {
      if (!shared.contains(rows_of(source))) continue;
      const std::pair<std::int64_t, std::int64_t> place{places.at(source.name),
                                                        source.block.row_begin};
      if (place <= last) {
        throw std::logic_error(
            fmt::format("ranks would wait for each other: {} is read out of order", source.name));
      }
      last = place;
    }
  }
}

// How values are sent: as they are stored where they have 16 bits, else as float32.
const StoredType* sent_type(const std::string& stored) {
  if (stored == "BF16") return stored_type(GgmlType::kBF16);
  return stored_type(stored == "F16" ? GgmlType::kF16 : GgmlType::kF32);
}

}  // namespace

/// Shared rows that this rank wants, and how far it has come with them.
struct SharedCheckpoint::Shared {
  std::string name;  // of the tensor
  TensorBlock own;   // what this rank wants of them
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;  // what anyone wants
  const Communicator* group = nullptr;
  const StoredType* type = nullptr;  // in which values are sent
  int num_readers = 1;
  std::int64_t band_rows = 1;
  std::int64_t next_row = 0;   // first row that no round has read
  std::int64_t given_row = 0;  // first row that was not given out
  std::vector<float> rows;     // own columns of [given_row, next_row)

  std::int64_t own_cols() const { return own.col_end - own.col_begin; }
  std::int64_t band_cols() const { return col_end - col_begin; }

  // How many of the ranks read in a round, and how many rows each.
  void divide(std::int64_t num_ranks, const SharingSizes& sizes) {
    const std::int64_t readers = std::clamp<std::int64_t>(sizes.round / sizes.band, 1, num_ranks);
    const std::int64_t values = (own.row_end - own.row_begin) * band_cols();
    const std::int64_t band =
        std::min(std::max(values / readers, sizes.band), sizes.round / readers);
    num_readers = static_cast<int>(readers);
    band_rows = std::max<std::int64_t>(1, (band + band_cols() - 1) / band_cols());
  }
};

SharedCheckpoint::SharedCheckpoint(Checkpoint& own, const Communicator& ranks,
                                   const std::vector<std::vector<WeightSource>>& wanted,
                                   SharingSizes sizes)
    : own_(own) {
  for (const TensorInfo& info : own.tensors()) infos_[info.name] = &info;
  const WantedRows all = shared_rows(own, wanted, sizes);
  check_order(own.config(), all, wanted);
  for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
    const auto found = all.find(rows_of(source));
    if (found == all.end()) continue;
    const Wanted& who = found->second;
    // In the order of the rows, and thus in the same order on all ranks of several groups.
    if (!groups_.contains(who.ranks)) {
      groups_.emplace(who.ranks, Communicator::subset(ranks, who.ranks));
    }
    auto shared = std::make_unique<Shared>();
    shared->name = source.name;
    shared->own = source.block;
    shared->col_begin = who.col_begin;
    shared->col_end = who.col_end;
    shared->group = &groups_.at(who.ranks);
    shared->type = sent_type(infos_.at(source.name)->stored_type);
    shared->next_row = source.block.row_begin;
    shared->given_row = source.block.row_begin;
    shared->divide(static_cast<std::int64_t>(who.ranks.size()), sizes);
    shared_.emplace(source.name, std::move(shared));
  }
}

SharedCheckpoint::~SharedCheckpoint() = default;

SharedCheckpoint::Shared* SharedCheckpoint::find(std::string_view name, const TensorBlock& block) {
  const auto [begin, end] = shared_.equal_range(name);
  const auto found = std::find_if(begin, end, [&](const auto& entry) {
    const TensorBlock& own = entry.second->own;
    return block.row_begin >= own.row_begin && block.row_end <= own.row_end &&
           block.col_begin == own.col_begin && block.col_end == own.col_end;
  });
  return found == end ? nullptr : found->second.get();
}

void SharedCheckpoint::read_block(std::string_view name, const TensorBlock& block, float* out) {
  Shared* shared = find(name, block);
  if (shared == nullptr) return read_own(name, block, out);
  if (block.row_begin != shared->given_row) {
    throw std::logic_error(fmt::format("row {} of {} is read out of order", block.row_begin, name));
  }
  while (shared->given_row < block.row_end) {
    if (shared->given_row == shared->next_row) run_round(*shared);
    const std::int64_t count = std::min(block.row_end, shared->next_row) - shared->given_row;
    const std::int64_t buffered =
        shared->next_row - static_cast<std::int64_t>(shared->rows.size()) / shared->own_cols();
    const float* from = shared->rows.data() + (shared->given_row - buffered) * shared->own_cols();
    out = std::copy_n(from, count * shared->own_cols(), out);
    shared->given_row += count;
  }
  if (shared->given_row == shared->own.row_end) shared->rows = {};
}

void SharedCheckpoint::read_own(std::string_view name, const TensorBlock& block, float* out) {
  own_.read_block(name, block, out);
  bytes_read_ += own_.bytes_to_read(name, block);
}

// Each reader reads one band of rows; all of them get all bands, and keep their own columns.
void SharedCheckpoint::run_round(Shared& shared) {
  const std::int64_t cols = shared.band_cols();
  const std::int64_t value_bytes = shared.type->block_bytes;
  const std::int64_t end = shared.own.row_end;
  const auto band_of = [&](int reader) {
    const std::int64_t begin =
        reader < shared.num_readers ? shared.next_row + reader * shared.band_rows : end;
    return std::pair(std::min(begin, end), std::min(begin + shared.band_rows, end));
  };
  std::vector<int> sizes;
  std::int64_t total = 0;
  for (int rank = 0; rank < shared.group->size(); ++rank) {
    const auto [first, last] = band_of(rank);
    sizes.push_back(static_cast<int>((last - first) * cols * value_bytes));
    total += sizes.back();
  }
  const auto [first, last] = band_of(shared.group->rank());
  values_.resize(static_cast<std::size_t>((last - first) * cols));
  sent_.resize(values_.size() * static_cast<std::size_t>(value_bytes));
  if (first < last) {
    read_own(shared.name, {first, last, shared.col_begin, shared.col_end}, values_.data());
    encode(shared.type->name, values_.data(), static_cast<std::int64_t>(values_.size()),
           sent_.data());
  }
  bands_.resize(static_cast<std::size_t>(total));
  shared.group->all_gather(sent_, sizes, bands_);

  const std::int64_t count = total / (cols * value_bytes);
  shared.rows.resize(static_cast<std::size_t>(count * shared.own_cols()));
  const std::byte* from = bands_.data() + (shared.own.col_begin - shared.col_begin) * value_bytes;
  for (std::int64_t row = 0; row < count; ++row, from += cols * value_bytes) {
    shared.type->to_float(from, shared.own_cols(), shared.rows.data() + row * shared.own_cols());
  }
  shared.next_row += count;
}

}  // namespace headrace
