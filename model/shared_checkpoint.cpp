#include "model/shared_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
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
                       const SharingOptions& options) {
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
    const bool small = (rows.end - rows.begin) * (who.col_end - who.col_begin) < options.tensor;
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

  std::size_t band_bytes() const {
    return static_cast<std::size_t>(band_rows * band_cols() * type->block_bytes);
  }

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
  const WantedRows all = shared_rows(own, wanted, options_);
  check_order(own.config(), all, wanted);
  std::map<std::vector<int>, Group*> groups;
  for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
    const auto found = all.find(rows_of(source));
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
  if (block.row_begin != shared->given_row) {
    throw std::logic_error(fmt::format("row {} of {} is read out of order", block.row_begin, name));
  }
  while (shared->given_row < block.row_end) {
    if (shared->given_row == shared->next_row) next_round(*shared);
    out = give_rows(*shared, std::min(block.row_end, shared->next_row), out);
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
  if (shared.group->on_one_node) {
    read_own(shared.name, band, reinterpret_cast<float*>(to));
  } else {
    values_.resize(static_cast<std::size_t>(num_values));
    read_own(shared.name, band, values_.data());
    encode(shared.type->name, values_.data(), num_values, to);
  }
  return static_cast<std::size_t>(num_values * shared.type->block_bytes);
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
