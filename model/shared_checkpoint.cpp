#include "model/shared_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "comm/mpi_exchange.h"
#include "model/checkpoint/dequantize.h"
#include "model/checkpoint/encode.h"

namespace headrace {
namespace {

// Rows of a tensor that several ranks want. Each may want other columns of them, but for integers,
// which are shared by those who want the same: what is in a record depends on its columns.
struct Rows {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t col_begin = 0;  // of integers, else 0
  std::int64_t col_end = 0;

  friend bool operator<(const Rows& a, const Rows& b) {
    return std::tie(a.name, a.begin, a.end, a.col_begin, a.col_end) <
           std::tie(b.name, b.begin, b.end, b.col_begin, b.col_end);
  }
};

using TensorInfos = std::map<std::string, const TensorInfo*, std::less<>>;

struct Wanted {
  std::vector<int> ranks;  // in order; a rank that wants them twice stands there twice
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;
  std::uint64_t bytes_apart = 0;  // that they would read, each for itself
};

Rows rows_of(const WeightSource& source, const TensorInfos& infos) {
  const TensorBlock& block = source.block;
  if (infos.at(source.name)->quantization == Quantization::kNone) {
    return {source.name, block.row_begin, block.row_end, 0, 0};
  }
  return {source.name, block.row_begin, block.row_end, block.col_begin, block.col_end};
}

using WantedRows = std::map<Rows, Wanted>;

// Rows of which bytes would be read twice, and who wants them.
WantedRows shared_rows(const Checkpoint& checkpoint, const TensorInfos& infos,
                       const std::vector<std::vector<WeightSource>>& wanted) {
  WantedRows all;
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const WeightSource& source : wanted[rank]) {
      const TensorBlock& block = source.block;
      const auto [found, is_new] =
          all.try_emplace(rows_of(source, infos), Wanted{{}, block.col_begin, block.col_end, 0});
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
    if (who.ranks.size() < 2 || twice) return true;
    const TensorBlock together{rows.begin, rows.end, who.col_begin, who.col_end};
    return who.bytes_apart <= checkpoint.bytes_to_read(rows.name, together);
  });
  return all;
}

// Each rank must come to shared rows in the order of the whole model's tensors.
void check_order(const ModelConfig& config, const TensorInfos& infos, const WantedRows& shared,
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
      if (!shared.contains(rows_of(source, infos))) continue;
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

// A row of integers as it is handed over: integers, zero points, scales.
void pack_row(const IntegerBlock& block, std::size_t row, std::byte* out) {
  const auto cols = static_cast<std::size_t>(block.cols);
  const std::size_t units = block.units.size();
  std::memcpy(out, block.integers.data() + row * cols, cols);
  std::memcpy(out + cols, block.zeros.data() + row * units, units);
  std::memcpy(out + cols + units, block.scales.data() + row * units, units * sizeof(float));
}

void unpack_row(const std::byte* in, std::size_t row, IntegerBlock& block) {
  const auto cols = static_cast<std::size_t>(block.cols);
  const std::size_t units = block.units.size();
  std::memcpy(block.integers.data() + row * cols, in, cols);
  std::memcpy(block.zeros.data() + row * units, in + cols, units);
  std::memcpy(block.scales.data() + row * units, in + cols + units, units * sizeof(float));
}

std::size_t packed_row_bytes(std::int64_t cols, std::size_t units) {
  return static_cast<std::size_t>(cols) + units * (1 + sizeof(float));
}

// How values are sent to other nodes: as they are stored where they have 16 bits, else as float32.
const StoredType* sent_type(const TensorInfo& info) {
  if (info.as_stored && info.stored_type == "BF16") return stored_type(GgmlType::kBF16);
  if (info.as_stored && info.stored_type == "F16") return stored_type(GgmlType::kF16);
  return stored_type(GgmlType::kF32);
}

}  // namespace

/// Ranks that share rows.
struct SharedCheckpoint::Group {
  Communicator ranks;
  bool on_one_node;
  std::unique_ptr<ShardExchange> exchange;  // of bands
  std::size_t most_bytes = 0;               // of a band
};

/// Shared rows that this rank wants, and how far it has come with them. The rows of the last round
/// lie in the group's exchange until the next one begins.
struct SharedCheckpoint::Shared {
  std::string name;  // of the tensor
  TensorBlock own;   // what this rank wants of them
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;  // what anyone wants
  Group* group = nullptr;
  const StoredType* type = nullptr;  // in which values are handed over
  Quantization quantization = Quantization::kNone;
  std::vector<std::int32_t> bounds;  // of integers: where their reader cuts their columns
  int num_readers = 1;
  std::int64_t band_rows = 1;
  std::int64_t round_row = 0;  // first row of the last round
  std::int64_t next_row = 0;   // first row that no round has read
  std::int64_t given_row = 0;  // first row that was not given out

  std::int64_t own_cols() const { return own.col_end - own.col_begin; }
  std::int64_t band_cols() const { return col_end - col_begin; }

  // The rows that a reader reads in the next round.
  std::pair<std::int64_t, std::int64_t> band_of(int reader) const {
    const std::int64_t begin = reader < num_readers ? next_row + reader * band_rows : own.row_end;
    return {std::min(begin, own.row_end), std::min(begin + band_rows, own.row_end)};
  }

  bool integers() const { return quantization != Quantization::kNone; }

  // At most: how many scales a row of integers has is known when its reader comes.
  std::size_t band_bytes() const {
    const auto rows = static_cast<std::size_t>(band_rows);
    if (integers()) return rows * packed_row_bytes(band_cols(), most_units());
    return rows * static_cast<std::size_t>(band_cols() * type->block_bytes);
  }

  std::size_t most_units() const { return static_cast<std::size_t>(band_cols()); }

  // How many of the ranks read in a round, and how many rows each.
  void divide(std::int64_t num_ranks, const SharingOptions& options) {
    const std::int64_t readers =
        std::clamp<std::int64_t>(options.round / options.band, 1, num_ranks);
    const std::int64_t values = (own.row_end - own.row_begin) * band_cols();
    const std::int64_t band =
        std::min(std::max(values / readers, options.band), options.round / readers);
    num_readers = static_cast<int>(readers);
    band_rows = std::max<std::int64_t>(1, (band + band_cols() - 1) / band_cols());
  }
};

SharedCheckpoint::SharedCheckpoint(Checkpoint& own, const Communicator& ranks,
                                   const std::vector<std::vector<WeightSource>>& wanted,
                                   SharingOptions options)
    : own_(own), options_(std::move(options)) {
  for (const TensorInfo& info : own.tensors()) infos_[info.name] = &info;
  const WantedRows all = shared_rows(own, infos_, wanted);
  check_order(own.config(), infos_, all, wanted);
  std::map<std::vector<int>, Group*> groups;
  for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
    const auto found = all.find(rows_of(source, infos_));
    if (found == all.end()) continue;
    const Wanted& who = found->second;
    // In the order of the rows, and thus in the same order on all ranks of several groups.
    Group*& group = groups[who.ranks];
    if (group == nullptr) {
      groups_.push_back(make_group(ranks, who.ranks));
      group = groups_.back().get();
    }
    auto shared = std::make_unique<Shared>();
    shared->name = source.name;
    shared->own = source.block;
    shared->col_begin = who.col_begin;
    shared->col_end = who.col_end;
    shared->group = group;
    shared->type =
        group->on_one_node ? stored_type(GgmlType::kF32) : sent_type(*infos_.at(source.name));
    shared->quantization = infos_.at(source.name)->quantization;
    shared->round_row = source.block.row_begin;
    shared->next_row = source.block.row_begin;
    shared->given_row = source.block.row_begin;
    shared->divide(static_cast<std::int64_t>(who.ranks.size()), options_);
    group->most_bytes = std::max(group->most_bytes, shared->band_bytes());
    order_.push_back(shared.get());
    shared_.emplace(source.name, std::move(shared));
  }
  make_exchanges(groups);
}

// Collective over the members.
std::unique_ptr<SharedCheckpoint::Group> SharedCheckpoint::make_group(
    const Communicator& ranks, const std::vector<int>& members) {
  Communicator group = Communicator::subset(ranks, members);
  const bool on_one_node = !options_.messages_only && group.shares_memory();
  return std::make_unique<Group>(Group{std::move(group), on_one_node, nullptr, 0});
}

// All ranks of a group have found the same largest band.
void SharedCheckpoint::make_exchanges(const std::map<std::vector<int>, Group*>& groups) {
  for (const std::unique_ptr<Group>& group : groups_) {
    const auto made = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& entry) { return entry.second == group.get(); });
    ExchangeWait wait{.stall_timeout_s = options_.stall_timeout_s, .names = {}, .poll = {}};
    for (const int rank : made->first) {
      const auto r = static_cast<std::size_t>(rank);
      wait.names.push_back(
          "the bytes that " +
          (r < options_.names.size() ? options_.names[r] : fmt::format("reader {}", rank)) +
          " reads");
    }
    const auto make = group->on_one_node ? make_shared_exchange : make_message_exchange;
    group->exchange = make(group->ranks, group->most_bytes, std::move(wait));
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
  if (shared->integers()) {
    throw std::logic_error(fmt::format("{} was planned to be read as integers", name));
  }
  for_each_round(*shared, block, [&](std::int64_t end) { out = give_rows(*shared, end, out); });
}

void SharedCheckpoint::read_integers(std::string_view name, const TensorBlock& block,
                                     std::span<const std::int32_t> bounds, IntegerBlock& out) {
  Shared* shared = find(name, block);
  if (shared == nullptr) {
    bytes_read_ += own_.bytes_to_read(name, block);
    return own_.read_integers(name, block, bounds, out);
  }
  shared->bounds.assign(bounds.begin(), bounds.end());
  out.resize(block.row_end - block.row_begin, bounds, shared->quantization);
  if (out.units.size() > shared->most_units()) {
    throw std::logic_error(fmt::format("{} has more scales than columns", name));
  }
  std::size_t row = 0;
  for_each_round(*shared, block, [&](std::int64_t end) {
    for (; shared->given_row < end; ++shared->given_row, ++row) {
      unpack_row(packed_row(*shared, out), row, out);
    }
  });
}

// Calls give(end) with the ends of the block's rows that a round has read, each time after that
// round.
void SharedCheckpoint::for_each_round(Shared& shared, const TensorBlock& block,
                                      const std::function<void(std::int64_t)>& give) {
  if (block.row_begin != shared.given_row) {
    throw std::logic_error(
        fmt::format("row {} of {} is read out of order", block.row_begin, shared.name));
  }
  while (shared.given_row < block.row_end) {
    if (shared.given_row == shared.next_row) next_round(shared);
    give(std::min(block.row_end, shared.next_row));
  }
}

void SharedCheckpoint::read_own(std::string_view name, const TensorBlock& block, float* out) {
  own_.read_block(name, block, out);
  bytes_read_ += own_.bytes_to_read(name, block);
}

// Each reader reads one band of rows for all. Everyone has used the last round's rows by now.
void SharedCheckpoint::next_round(Shared& shared) {
  if (order_[place_]->given_row == order_[place_]->own.row_end) ++place_;
  if (place_ == order_.size() || order_[place_] != &shared) {
    throw std::logic_error(fmt::format("{} is read out of order", shared.name));
  }
  ShardExchange& exchange = *shared.group->exchange;
  exchange.publish(read_band(shared));
  exchange.complete();
  shared.round_row = shared.next_row;
  shared.next_row =
      std::min(shared.next_row + shared.num_readers * shared.band_rows, shared.own.row_end);
}

// Puts this rank's band of the next round where the others find it; returns its bytes.
std::size_t SharedCheckpoint::read_band(const Shared& shared) {
  const auto [first, last] = shared.band_of(shared.group->exchange->rank());
  if (first == last) return 0;
  const std::int64_t num_values = (last - first) * shared.band_cols();
  const TensorBlock band{first, last, shared.col_begin, shared.col_end};
  std::byte* to = shared.group->exchange->own().data();
  if (shared.integers()) return read_integer_band(shared, band, to);
  if (shared.group->on_one_node) {
    read_own(shared.name, band, reinterpret_cast<float*>(to));
  } else {
    values_.resize(static_cast<std::size_t>(num_values));
    read_own(shared.name, band, values_.data());
    encode(shared.type->name, values_.data(), num_values, to);
  }
  return static_cast<std::size_t>(num_values * shared.type->block_bytes);
}

std::size_t SharedCheckpoint::read_integer_band(const Shared& shared, const TensorBlock& band,
                                                std::byte* to) {
  own_.read_integers(shared.name, band, shared.bounds, integers_);
  bytes_read_ += own_.bytes_to_read(shared.name, band);
  const std::size_t row_bytes = packed_row_bytes(integers_.cols, integers_.units.size());
  for (std::size_t row = 0; row < static_cast<std::size_t>(integers_.rows); ++row) {
    pack_row(integers_, row, to + row * row_bytes);
  }
  return static_cast<std::size_t>(integers_.rows) * row_bytes;
}

// The next row to be given out, as a reader packed it.
const std::byte* SharedCheckpoint::packed_row(const Shared& shared, const IntegerBlock& like) {
  const std::int64_t row = shared.given_row - shared.round_row;
  return shared.group->exchange->part(static_cast<int>(row / shared.band_rows)).data() +
         static_cast<std::size_t>(row % shared.band_rows) *
             packed_row_bytes(like.cols, like.units.size());
}

// This rank's columns of the rows up to `end` that were not given out; they lie in the bands of the
// last round. Returns the end of what it wrote.
float* SharedCheckpoint::give_rows(Shared& shared, std::int64_t end, float* out) {
  const std::int64_t value_bytes = shared.type->block_bytes;
  for (; shared.given_row < end; ++shared.given_row, out += shared.own_cols()) {
    const std::int64_t row = shared.given_row - shared.round_row;
    const std::byte* band =
        shared.group->exchange->part(static_cast<int>(row / shared.band_rows)).data();
    const std::int64_t first_value =
        row % shared.band_rows * shared.band_cols() + shared.own.col_begin - shared.col_begin;
    shared.type->to_float(band + first_value * value_bytes, shared.own_cols(), out);
  }
  return out;
}

}  // namespace headrace
