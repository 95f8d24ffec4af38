// What the ranks that share a stage give each other between the parts of a layer, in memory that
// their operators reach: rounds in which every rank fills a buffer of its own and then reads
// everybody's. All ranks know how much each gives.
#pragma once

#include <cstddef>
#include <span>

namespace headrace {

/// One rank's end. Only the thread that made it may call it; all ranks of the group take part in
/// every round, in the same order.
class TensorExchange {
 public:
  virtual ~TensorExchange() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The buffer of the coming round, as large as every other rank's.
  virtual std::span<std::byte> own() = 0;

  /// A round: everybody gets the first bytes[r] bytes of rank r's buffer; the same list on all
  /// ranks. Throws std::runtime_error naming who did not come, after the stall timeout.
  virtual void gather(std::span<const std::size_t> bytes) = 0;

  /// What a rank gave, its own included; valid until the next round.
  virtual std::span<const std::byte> part(int rank) const = 0;

  /// Whether sums over the ranks may be left to sum(). Otherwise they are the readers', who all add
  /// what was gathered in the order of a tree.
  virtual bool adds() const = 0;

  /// A round: the values, the first ones of own(), become the sums of all ranks' values, added in
  /// any order. Only where adds().
  virtual void sum(std::span<float> values) = 0;
};

}  // namespace headrace
