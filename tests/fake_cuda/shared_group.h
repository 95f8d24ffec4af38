// What the processes of one fake NCCL communicator share: a file of memory with a pipe for every
// ordered pair of ranks. A piece is in a pipe until its receiver has taken it, so that no buffering
// hides a receive that is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace headrace::fake_cuda {

inline constexpr int kMostRanks = 16;

/// What both ends of a transfer have to agree on.
struct MessageKind {
  std::uint32_t operation = 0;
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  std::uint64_t detail = 0;  // root, operator

  bool operator==(const MessageKind&) const = default;
};

struct Pipe {
  static constexpr std::size_t kBytes = std::size_t{1} << 16;

  std::uint32_t full;
  MessageKind kind;
  std::byte data[kBytes];
};

class SharedGroup {
 public:
  /// The file is made by whoever comes first, and vanishes from the folder once all have come.
  SharedGroup(std::string name, int size);
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  Pipe& pipe(int from, int to);

  void join(int rank, int device);
  bool all_joined();
  /// The device of a rank that has joined.
  int device(int rank);

  void post_split(int number, int rank, int color, int key);
  bool all_posted(int number);
  /// The rank that `rank` gets among those of its colour, and how many these are.
  void result_of_split(int number, int rank, int& new_rank, int& new_size);

  void leave();
  bool all_left();

  const std::string& name() const { return name_; }
  int size() const { return size_; }

 private:
  struct Segment;

  std::string name_;
  int size_;
  std::size_t bytes_;
  Segment* segment_;
};

}  // namespace headrace::fake_cuda
