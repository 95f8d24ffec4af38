#include "kernels/cuda/cuda_arena.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_swap_memory.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda_backend.h"

namespace headrace {

CudaArena::CudaArena(cudaStream_t stream) : stream_(stream) {}

Stream cuda_stream(DeviceArena& arena) {
  const auto* own = dynamic_cast<CudaArena*>(&arena);
  if (own == nullptr) throw std::logic_error("the stream of what does not compute on a GPU");
  return own->stream();
}

void CudaArena::reserve(std::size_t bytes) {
  if (reserved_.bytes() > 0) throw std::logic_error("the GPU's memory was reserved before");
  reserved_ = DeviceMemory(bytes);
}

std::byte* CudaArena::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (reserved_.bytes() == 0) return pieces_.emplace_back(bytes).data();
  const std::size_t rounded = arena_bytes(bytes);
  if (rounded > reserved_.bytes() - used_) {
    throw std::logic_error("the plan of the GPU's memory is short: of " +
                           std::to_string(reserved_.bytes()) + " bytes " + std::to_string(used_) +
                           " are taken, " + std::to_string(bytes) + " are asked for");
  }
  std::byte* place = reserved_.data() + used_;
  used_ += rounded;
  return place;
}

// Work is short beside a wait for another rank, so this never sleeps.
void CudaArena::wait(const OwnedEvent& event) const {
  for (;;) {
    const cudaError_t status = cudaEventQuery(event.get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) {
      check_cuda(status, "work queued on the GPU", __FILE__, __LINE__);
    }
    if (poll_) poll_();
    std::this_thread::yield();
  }
}

CudaArena::Staging& CudaArena::next_staging() {
  Staging& staging = staging_[next_];
  next_ = (next_ + 1) % staging_.size();
  wait(staging.free);
  return staging;
}

void CudaArena::upload_made(std::byte* to, std::size_t bytes, const MakeBytes& make) {
  const std::lock_guard lock(mutex_);
  for (std::size_t begin = 0; begin < bytes; begin += kStagingBytes) {
    const std::size_t count = std::min(kStagingBytes, bytes - begin);
    Staging& staging = next_staging();
    make(staging.memory.data(), begin, count);
    HR_CUDA(
        cudaMemcpyAsync(to + begin, staging.memory.data(), count, cudaMemcpyHostToDevice, stream_));
    HR_CUDA(cudaEventRecord(staging.free.get(), stream_));
  }
}

void CudaArena::upload(std::byte* to, std::span<const std::byte> from) {
  upload_made(to, from.size(), [&](std::byte* place, std::size_t begin, std::size_t count) {
    std::memcpy(place, from.data() + begin, count);
  });
}

// The next piece is on its way while the one before leaves its buffer.
void CudaArena::download(std::span<std::byte> to, const std::byte* from) {
  const std::lock_guard lock(mutex_);
  struct Piece {
    Staging* staging = nullptr;
    std::span<std::byte> to;
  };
  const auto finish = [&](const Piece& piece) {
    if (piece.staging == nullptr) return;
    wait(piece.staging->free);
    std::memcpy(piece.to.data(), piece.staging->memory.data(), piece.to.size());
  };
  Piece before;
  for (std::size_t begin = 0; begin < to.size(); begin += kStagingBytes) {
    const std::size_t count = std::min(kStagingBytes, to.size() - begin);
    const Piece piece{&next_staging(), to.subspan(begin, count)};
    HR_CUDA(cudaMemcpyAsync(piece.staging->memory.data(), from + begin, count,
                            cudaMemcpyDeviceToHost, stream_));
    HR_CUDA(cudaEventRecord(piece.staging->free.get(), stream_));
    finish(before);
    before = piece;
  }
  finish(before);
}

void CudaArena::copy_rows(const RowCopy& copy) {
  constexpr std::size_t kUnit = sizeof(float);
  if ((copy.to_stride | copy.from_stride | copy.row_bytes) % kUnit != 0) {
    throw std::invalid_argument("rows on the GPU are copied in multiples of 4 bytes");
  }
  launch_copy_rows({.out = reinterpret_cast<float*>(copy.to),
                    .x = reinterpret_cast<const float*>(copy.from),
                    .rows = copy.rows,
                    .cols = static_cast<std::int64_t>(copy.row_bytes / kUnit),
                    .out_stride = static_cast<std::int64_t>(copy.to_stride / kUnit),
                    .x_stride = static_cast<std::int64_t>(copy.from_stride / kUnit)},
                   stream_);
}

std::unique_ptr<SwapMemory> CudaArena::make_swap_memory(const BlockPieces& cache,
                                                        int num_swap_blocks) {
  return std::make_unique<CudaSwapMemory>(stream_, *this, cache, num_swap_blocks);
}

std::size_t CudaArena::swap_memory_bytes(std::size_t block_bytes, int num_swap_blocks) const {
  return CudaSwapMemory::taken_bytes(block_bytes, num_swap_blocks);
}

void CudaArena::zero(std::byte* data, std::size_t bytes) {
  if (bytes > 0) HR_CUDA(cudaMemsetAsync(data, 0, bytes, stream_));
}

}  // namespace headrace
