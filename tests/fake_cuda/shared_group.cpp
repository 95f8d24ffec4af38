#include "tests/fake_cuda/shared_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace headrace::fake_cuda {
namespace {

constexpr int kMostSplits = 16;

struct Joined {
  std::uint32_t here;
  int device;
};
struct Posted {
  std::uint32_t here;
  int color;
  int key;
};

bool is_set(const std::uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE) != 0;
}
void set(std::uint32_t& word) {
  __atomic_store_n(&word, 1U, __ATOMIC_RELEASE);
}

}  // namespace

// All zero when it is made.
struct SharedGroup::Segment {
  Joined joined[kMostRanks];
  Posted posted[kMostSplits][kMostRanks];
  std::uint32_t num_left;
  Pipe pipes[1];  // size * size
};

SharedGroup::SharedGroup(std::string name, int size) : name_(std::move(name)), size_(size) {
  if (size < 1 || size > kMostRanks) throw std::invalid_argument("too many ranks");
  bytes_ = sizeof(Segment) + sizeof(Pipe) * static_cast<std::size_t>(size * size);
  const int file = shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) {
    throw std::runtime_error("cannot make " + name_);
  }
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + name_);
  segment_ = static_cast<Segment*>(mapped);
}

SharedGroup::~SharedGroup() {
  munmap(segment_, bytes_);
}

Pipe& SharedGroup::pipe(int from, int to) {
  return segment_->pipes[from * size_ + to];
}

void SharedGroup::join(int rank, int device) {
  segment_->joined[rank].device = device;
  set(segment_->joined[rank].here);
}

bool SharedGroup::all_joined() {
  for (int rank = 0; rank < size_; ++rank) {
    if (!is_set(segment_->joined[rank].here)) return false;
  }
  shm_unlink(name_.c_str());
  return true;
}

int SharedGroup::device(int rank) {
  return segment_->joined[rank].device;
}

void SharedGroup::post_split(int number, int rank, int color, int key) {
  if (number >= kMostSplits) throw std::invalid_argument("too many splits");
  Posted& posted = segment_->posted[number][rank];
  posted.color = color;
  posted.key = key;
  set(posted.here);
}

bool SharedGroup::all_posted(int number) {
  for (int rank = 0; rank < size_; ++rank) {
    if (!is_set(segment_->posted[number][rank].here)) return false;
  }
  return true;
}

void SharedGroup::result_of_split(int number, int rank, int& new_rank, int& new_size) {
  const Posted* all = segment_->posted[number];
  new_rank = 0;
  new_size = 0;
  for (int other = 0; other < size_; ++other) {
    if (all[other].color != all[rank].color) continue;
    ++new_size;
    if (std::pair(all[other].key, other) < std::pair(all[rank].key, rank)) ++new_rank;
  }
}

void SharedGroup::leave() {
  __atomic_add_fetch(&segment_->num_left, 1U, __ATOMIC_ACQ_REL);
}

bool SharedGroup::all_left() {
  return __atomic_load_n(&segment_->num_left, __ATOMIC_ACQUIRE) ==
         static_cast<std::uint32_t>(size_);
}

}  // namespace headrace::fake_cuda
