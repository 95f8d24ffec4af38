// An owned MPI communicator with the few operations that a job needs outside its pipeline.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headrace {

/// Owns a communicator; move-only; errors are exceptions. Only the main thread may call it.
class Communicator {
 public:
  /// Collective over parent.
  static Communicator duplicate(MPI_Comm parent);
  /// The ranks of parent in another order: order[i] is the rank of parent that gets rank i.
  /// Collective over parent.
  static Communicator reordered(const Communicator& parent, const std::vector<int>& order);
  /// The ranks that give the same group, in parent's order. Collective over parent.
  static Communicator split(const Communicator& parent, int group);
  /// Ranks that share memory with this one. Collective over parent.
  static Communicator shared_memory(MPI_Comm parent);
  /// These ranks of parent, in this order. Collective over them alone; ranks that make several
  /// together make them in the same order.
  static Communicator subset(const Communicator& parent, const std::vector<int>& ranks);

  ~Communicator();
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  MPI_Comm get() const { return comm_; }

  /// Collective. All its ranks are on one node.
  bool shares_memory() const;

  /// Collective. Returns once all have come.
  void barrier() const;
  /// Collective. The smallest of all ranks' values.
  std::int64_t min(std::int64_t value) const;
  /// Collective. Every rank's value, in order of rank.
  std::vector<std::int64_t> all_gather(std::int64_t value) const;
  /// Collective. Everybody gets root's bytes; the others' sizes must match.
  void broadcast(std::span<std::byte> bytes, int root) const;
  /// Collective. Everybody gets root's text.
  std::string broadcast(const std::string& text, int root) const;
  /// Collective. root gets every rank's text, in order of rank; the others get nothing.
  std::vector<std::string> gather(const std::string& text, int root) const;

 private:
  explicit Communicator(MPI_Comm comm) : comm_(comm) {}
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace headrace
