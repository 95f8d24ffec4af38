// MPI's life in this process, and what this rank knows of the machines it runs on.
#pragma once

#include <mpi.h>

#include <chrono>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace headrace {

/// Initialises MPI (one thread calls it) and finalises it. One object in a process, made by the
/// program, outliving every communicator.
class Environment {
 public:
  Environment();
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// When it was made, before MPI started: the program's beginning.
  std::chrono::steady_clock::time_point begin() const { return begin_; }

  int rank() const { return world_.rank(); }
  int num_ranks() const { return world_.size(); }
  const Communicator& world() const { return world_; }

  /// For each rank, a number that names its machine. Collective over the world.
  std::vector<int> nodes() const;
  /// Gives the world's ranks another order (Communicator::reordered). Collective over the world;
  /// before anything else is made from it.
  void reorder(const std::vector<int>& order);

  /// Ranks of this job on this machine, and this rank's place among them.
  int node_rank() const { return node_.rank(); }
  int node_num_ranks() const { return node_.size(); }
  const Communicator& node() const { return node_; }
  const std::string& host() const { return host_; }

 private:
  struct Session {
    Session();
    ~Session();
  };
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Session session_;  // before the communicators, so that it ends after them
  Communicator world_;
  Communicator node_;
  std::string host_;
};

}  // namespace headrace
