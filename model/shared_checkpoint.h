// Reading together: where several ranks would read the same bytes (replicas, an embedding that
// serves as head at both ends of a pipeline, columns of rows that are too short to be read in
// part), these rows are read by one of them and handed to the others. So are a quantised matrix's
// integers and scales, between ranks that want the same columns.
//
// What every rank will read is known before anything is (weight_sources.h). Rows that only one rank
// needs are read by it alone, whenever it comes to them. For the others each rank takes part in the
// order of the whole model's tensors, which all of them follow: nobody waits for a rank that waits
// for it. On one node a reader reads straight into memory that all of them see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/shard_exchange.h"
#include "model/checkpoint/checkpoint.h"
#include "model/weight_sources.h"

namespace headrace {

/// How much is handed around at a time, in values, and how long others are waited for.
struct SharingOptions {
  /// By all readers of a round together. Of each group twice as many float32 are in shared memory.
  std::int64_t round = std::int64_t{4} << 20;
  /// By one of them, where there is as much: 16 read at once at most, half a megabyte or more each.
  std::int64_t band = std::int64_t{256} << 10;
  bool messages_only = false;           // also on one node, as between nodes
  double stall_timeout_s = 0.0;         // 0: for ever
  std::vector<std::string> names = {};  // of those who read together, by rank, for messages
};

/// One rank's view of a checkpoint that it reads together with others. Every block that it was
/// planned with must be read, in the planned order, rows from first to last in pieces of any size.
class SharedCheckpoint : public Checkpoint {
 public:
  /// Collective over ranks: those who read together. wanted: what each of them will read, by rank,
  /// in order. own and ranks must outlive this object. Throws std::logic_error, on all ranks, where
  /// somebody's order is not that of the whole model.
  SharedCheckpoint(Checkpoint& own, const Communicator& ranks,
                   const std::vector<std::vector<WeightSource>>& wanted,
                   SharingOptions options = {});
  ~SharedCheckpoint() override;

  /// Collective over the ranks that share the block's rows, where others do.
  void read_block(std::string_view name, const TensorBlock& block, float* out) override;

  /// Collective likewise. Quantised tensors must be read as integers, by all ranks in slices that
  /// are cut at the same bounds.
  void read_integers(std::string_view name, const TensorBlock& block,
                     std::span<const std::int32_t> bounds, IntegerBlock& out) override;

  std::uint64_t bytes_to_read(std::string_view name, const TensorBlock& block) const override {
    return own_.bytes_to_read(name, block);
  }

  /// Bytes that this rank has read from the files itself.
  std::uint64_t bytes_read() const { return bytes_read_; }

  const ModelConfig& config() const override { return own_.config(); }
  const std::vector<TensorInfo>& tensors() const override { return own_.tensors(); }
  bool has(std::string_view name) const override { return own_.has(name); }
  DType preferred_dtype() const override { return own_.preferred_dtype(); }
  std::string fingerprint() const override { return own_.fingerprint(); }
  std::string format() const override { return own_.format(); }
  std::vector<std::string> damaged_tensors() override { return own_.damaged_tensors(); }
  std::vector<ModelFile> companion_files() const override { return own_.companion_files(); }
  std::string generation_config() const override { return own_.generation_config(); }

 private:
  struct Shared;
  struct Group;

  Shared* find(std::string_view name, const TensorBlock& block);
  void read_own(std::string_view name, const TensorBlock& block, float* out);
  std::unique_ptr<Group> make_group(const Communicator& ranks, const std::vector<int>& members);
  void make_exchanges(const std::map<std::vector<int>, Group*>& groups);
  void for_each_round(Shared& shared, const TensorBlock& block,
                      const std::function<void(std::int64_t end)>& give);
  void next_round(Shared& shared);
  std::size_t read_band(const Shared& shared);
  std::size_t read_integer_band(const Shared& shared, const TensorBlock& band, std::byte* to);
  static float* give_rows(Shared& shared, std::int64_t end, float* out);
  static const std::byte* packed_row(const Shared& shared, const IntegerBlock& like);

  Checkpoint& own_;
  SharingOptions options_;
  std::map<std::string, const TensorInfo*, std::less<>> infos_;
  std::vector<std::unique_ptr<Group>> groups_;  // in the order of the rows that they share
  std::multimap<std::string, std::unique_ptr<Shared>, std::less<>> shared_;
  std::vector<Shared*> order_;  // in which this rank comes to them
  std::size_t place_ = 0;       // how far it has come
  std::uint64_t bytes_read_ = 0;
  std::vector<float> values_;  // a band that this rank reads for others on other nodes
  IntegerBlock integers_;      // likewise, for any others
};

}  // namespace headrace
