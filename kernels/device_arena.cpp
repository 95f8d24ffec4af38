#include "kernels/device_arena.h"

#include <cstring>
#include <vector>

#include "kernels/buffer.h"

namespace headrace {
namespace {

class HostArena final : public DeviceArena {
 public:
  bool is_host() const override { return true; }
  // The host's memory is no fixed piece to be divided.
  void reserve(std::size_t /*bytes*/) override {}

  std::byte* take(std::size_t bytes) override {
    buffers_.emplace_back(bytes);
    return buffers_.back().data();
  }

  void upload(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  void copy_rows(const RowCopy& copy) override {
    if (copy.row_bytes == 0) return;
    for (std::int64_t row = 0; row < copy.rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      std::memcpy(copy.to + r * copy.to_stride, copy.from + r * copy.from_stride, copy.row_bytes);
    }
  }
  void zero(std::byte* data, std::size_t bytes) override {
    if (bytes > 0) std::memset(data, 0, bytes);
  }

  std::unique_ptr<SwapMemory> make_swap_memory(const BlockPieces& cache,
                                               int num_swap_blocks) override {
    return make_host_swap_memory(cache, num_swap_blocks);
  }
  std::size_t swap_memory_bytes(std::size_t /*block_bytes*/,
                                int /*num_swap_blocks*/) const override {
    return 0;
  }

  // Nothing here waits.
  void set_poll(std::function<void()> /*poll*/) override {}

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace

std::unique_ptr<DeviceArena> make_host_arena() {
  return std::make_unique<HostArena>();
}

MirroredMemory::MirroredMemory(DeviceArena& arena, std::size_t bytes)
    : arena_(&arena), device_(arena.take(bytes)), host_(device_) {
  if (arena.is_host()) return;
  owned_ = std::make_unique<std::byte[]>(bytes);
  host_ = owned_.get();
}

void MirroredMemory::to_device(std::size_t bytes) const {
  if (host_ != device_) arena_->upload(device_, {host_, bytes});
}

void MirroredMemory::to_host(std::size_t bytes, std::size_t begin) const {
  if (host_ != device_) arena_->download({host_ + begin, bytes}, device_ + begin);
}

}  // namespace headrace
