#include "tests/cuda_emulator/block.h"

#include <cstring>
#include <utility>

#include "tests/cuda_emulator/sanitizers.h"

namespace headrace::emulator {
namespace {

constexpr std::size_t kRememberedFibers = 4096;  // the sanitizer has room for twice as many threads

std::string text_of(Site site) {
  const std::string file = site.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}

bool same_site(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

std::unique_ptr<FiberStack> FiberStore::stack() {
  if (stacks_.empty()) return std::make_unique<FiberStack>();
  std::unique_ptr<FiberStack> stack = std::move(stacks_.back());
  stacks_.pop_back();
  return stack;
}

void FiberStore::give_back(std::unique_ptr<Fiber> fiber) {
  if (!kThreadSanitizer) {
    stacks_.push_back(fiber->take_stack());
    return;
  }
  fiber->take_stack().reset();  // fresh pages for the next: nobody's accesses are remembered there
  if (ended_.size() < kRememberedFibers) {
    ended_.push_back(std::move(fiber));
    return;
  }
  ended_[next_ended_] = std::move(fiber);
  next_ended_ = (next_ended_ + 1) % kRememberedFibers;
}

Block::Block(const GridShape& shape, const BlockPlace& place, Schedule schedule,
             const std::function<void()>& body, FiberStore& store)
    : shape_(shape),
      place_(place),
      body_(body),
      store_(store),
      turns_(schedule, place.seed, shape.threads),
      random_(place.seed + 7),
      threads_(static_cast<std::size_t>(shape.threads)),
      gatherings_(kMaxWarps),
      num_alive_(shape.threads) {
  for (int i = 0; i < shape.threads; ++i) {
    CudaThread& thread = threads_[static_cast<std::size_t>(i)];
    thread.block = this;
    thread.index = i;
    present_[thread.warp()] |= 1U << thread.lane();
    thread.fiber = std::make_unique<Fiber>(store_.stack(), &Block::thread_main, &thread);
  }
}

// Set by emulator.cpp: the thread whose turn it is.
extern thread_local CudaThread* current;

void Block::run(void* launch_start, void* launch_end) {
  launch_start_ = launch_start;
  launch_end_ = launch_end;
  while (num_alive_ > 0 && error_.empty()) {
    const int index = turns_.take();
    if (index < 0) {
      error_ = deadlock_report();
      break;
    }
    current = &threads_[static_cast<std::size_t>(index)];
    host_.switch_to(*current->fiber);
    current = nullptr;
  }
  for (CudaThread& thread : threads_) {
    if (thread.state != CudaThread::State::kReturned) {
      host_.release_for(*thread.fiber, {.object = launch_end_, .in_emulator = thread.gave_way});
    }
    store_.give_back(std::move(thread.fiber));
  }
  if (!error_.empty()) throw EmulatorError(error_);
}

void Block::thread_main(void* pointer) {
  CudaThread& self = *static_cast<CudaThread*>(pointer);
  Block& block = *self.block;
  tell_acquire(block.launch_start_);
  block.body_();
  tell_release(block.launch_end_);
  {
    const OwnBusiness own;
    block.returned(self);
  }
  self.fiber->switch_to(block.host_);
  std::abort();  // nobody gives a turn to a thread that has returned
}

void Block::returned(CudaThread& self) {
  bool copies = !self.open_copies.empty();
  for (const auto& group : self.copy_groups) copies = copies || !group.empty();
  if (copies) fail(self, "a thread returned with asynchronous copies that it never waited for", {});
  for (const auto& gathering : gatherings_[self.warp()]) {
    if ((gathering->mask & ~gathering->arrived) >> self.lane() & 1U) {
      fail(self, "a lane returned while others wait for it in a warp operation", gathering->site);
    }
  }
  self.state = CudaThread::State::kReturned;
  present_[self.warp()] &= ~(1U << self.lane());
  --num_alive_;
  release_barrier_if_complete();
}

void Block::wait(CudaThread& self, CudaThread::State state, Site site) {
  self.state = state;
  self.site = site;
  give_way(self);
}

void Block::give_way(CudaThread& self) {
  self.gave_way = true;
  self.fiber->switch_to(host_);
  self.gave_way = false;
}

void Block::make_ready(CudaThread& thread) {
  thread.state = CudaThread::State::kReady;
  turns_.add(thread.index);
}

void Block::fail(CudaThread& self, const std::string& what, Site site) {
  error_ = what + (site.line > 0 ? " at " + text_of(site) : "") + " (block " +
           std::to_string(place_.x) + ", " + std::to_string(place_.y) + ", thread " +
           std::to_string(self.index) + ")";
  OwnBusiness::end();
  self.fiber->switch_to(host_);
  std::abort();  // the launch is over
}

void Block::sync_block(CudaThread& self, Site site) {
  char* order = barrier_order_.get() + barrier_turn_ * kOrderBytes;
  tell_release(order);
  {
    const OwnBusiness own;
    if (num_at_barrier_ == 0) barrier_site_ = site;
    if (!same_site(barrier_site_, site)) {
      fail(self, "barrier divergence: others wait at " + text_of(barrier_site_) + ", this thread",
           site);
    }
    ++num_at_barrier_;
    self.state = CudaThread::State::kAtBarrier;
    release_barrier_if_complete();
    if (self.state != CudaThread::State::kReady) {
      wait(self, CudaThread::State::kAtBarrier, site);
    } else {
      give_way(self);  // the last to arrive has no privilege
    }
  }
  tell_acquire(order);
}

void Block::release_barrier_if_complete() {
  if (num_at_barrier_ == 0 || num_at_barrier_ < num_alive_) return;
  num_at_barrier_ = 0;
  barrier_turn_ = 1 - barrier_turn_;
  for (CudaThread& thread : threads_) {
    if (thread.state == CudaThread::State::kAtBarrier) make_ready(thread);
  }
}

void Block::check_deposit(CudaThread& self, const Deposit& deposit) {
  if ((deposit.mask >> self.lane() & 1U) == 0) {
    fail(self, "a lane that is not in the mask of its own warp operation", deposit.site);
  }
  if ((deposit.mask & ~present_[self.warp()]) != 0) {
    fail(self, "the mask of a warp operation names lanes that have returned or are not there",
         deposit.site);
  }
  if (deposit.bytes > kSlotBytes) fail(self, "a warp operation with too many bytes", deposit.site);
}

// The operation under way that this lane belongs to, or a new one.
Gathering& Block::join(CudaThread& self, const Deposit& deposit) {
  auto& open = gatherings_[self.warp()];
  for (const auto& gathering : open) {
    // Another mask may name this lane too: it joins that operation later, or nobody can go on.
    if (gathering->mask != deposit.mask || gathering->left_to_read != 0) continue;
    if (gathering->operation != deposit.operation || !same_site(gathering->site, deposit.site)) {
      fail(self,
           "lanes of a warp do not agree on an operation: others wait at " +
               text_of(gathering->site) + ", this thread",
           deposit.site);
    }
    return *gathering;
  }
  open.push_back(std::make_unique_for_overwrite<Gathering>());
  open.back()->operation = deposit.operation;
  open.back()->mask = deposit.mask;
  open.back()->site = deposit.site;
  return *open.back();
}

void Block::gather(CudaThread& self, const Deposit& deposit, WarpSlots& slots) {
  Gathering* gathering = nullptr;
  {
    const OwnBusiness own;
    check_deposit(self, deposit);
    gathering = &join(self, deposit);
    if (deposit.bytes > 0) {
      std::memcpy(gathering->slots.bytes[self.lane()], deposit.data, deposit.bytes);
    }
    gathering->arrived |= 1U << self.lane();
  }
  if (deposit.operation == WarpOperation::kSync) tell_release(gathering);
  {
    const OwnBusiness own;
    if (gathering->arrived == gathering->mask) {
      gathering->left_to_read = gathering->mask;
      for (int lane = 0; lane < kLanes; ++lane) {
        if ((gathering->mask >> lane & 1U) == 0) continue;
        make_ready(threads_[self.warp() * kLanes + static_cast<std::size_t>(lane)]);
      }
      give_way(self);
    } else {
      wait(self, CudaThread::State::kInWarpOperation, deposit.site);
    }
  }
  if (deposit.operation == WarpOperation::kSync) tell_acquire(gathering);
  const OwnBusiness own;
  if (deposit.bytes > 0) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((gathering->mask >> lane & 1U) == 0) continue;
      if (deposit.wanted_lane >= 0 && deposit.wanted_lane != lane) continue;
      std::memcpy(slots.bytes[lane], gathering->slots.bytes[lane], deposit.bytes);
    }
  }
  gathering->left_to_read &= ~(1U << self.lane());
  if (gathering->left_to_read == 0) {
    std::erase_if(gatherings_[self.warp()],
                  [gathering](const auto& one) { return one.get() == gathering; });
  }
}

void* Block::take_shared(int index, std::size_t bytes, Site site) {
  const OwnBusiness own;
  const auto i = static_cast<std::size_t>(index);
  if (i < shared_.size()) {
    if (shared_[i].bytes != bytes) {
      fail(*current, "threads of a block take different pieces of shared memory", site);
    }
    return shared_[i].memory.get();
  }
  shared_taken_ += (bytes + 15) / 16 * 16;
  if (shared_taken_ > static_cast<std::size_t>(shape_.shared_bytes)) {
    fail(*current,
         "the kernel takes " + std::to_string(shared_taken_) +
             " bytes of shared memory, its launch asked for " +
             std::to_string(shape_.shared_bytes) + ";",
         site);
  }
  SharedPiece piece;
  piece.bytes = bytes;
  piece.memory.reset(static_cast<std::byte*>(std::malloc(bytes)));
  constexpr int kNanInEveryType = 0xFF;
  if (bytes > 0) std::memset(piece.memory.get(), kNanInEveryType, bytes);
  shared_.push_back(std::move(piece));
  return shared_.back().memory.get();
}

bool Block::copy_happens_now(CudaThread& self, const AsyncCopy& copy) {
  const OwnBusiness own;
  if (random_() / 16 % 2 == 0) return true;
  self.open_copies.push_back(copy);
  return false;
}

std::string Block::deadlock_report() const {
  std::string report =
      "deadlock in block " + std::to_string(place_.x) + ", " + std::to_string(place_.y) + ":";
  int num_returned = 0;
  const CudaThread* last = nullptr;
  int count = 0;
  const auto flush = [&] {
    if (last == nullptr) return;
    report += " " + std::to_string(count) + " up to thread " + std::to_string(last->index) +
              " wait at " + text_of(last->site) + ";";
  };
  for (const CudaThread& thread : threads_) {
    if (thread.state == CudaThread::State::kReturned) {
      ++num_returned;
      continue;
    }
    if (last != nullptr && !same_site(last->site, thread.site)) {
      flush();
      count = 0;
    }
    last = &thread;
    ++count;
  }
  flush();
  return report + " " + std::to_string(num_returned) + " have returned";
}

}  // namespace headrace::emulator
