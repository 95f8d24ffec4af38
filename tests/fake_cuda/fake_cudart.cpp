// Memory and copies of the fake CUDA runtime.
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/fake_cuda/lock.h"
#include "tests/fake_cuda/sanitizers.h"
#include "tests/fake_cuda/state.h"
#include "tests/fake_cuda/streams.h"

namespace headrace::fake_cuda {
namespace {

struct Allocation {
  std::size_t bytes = 0;
  Memory kind = Memory::kDevice;
  int device = 0;
};

using Allocations = std::map<const std::byte*, Allocation>;

Allocations& allocations() {
  static Allocations& all = *new Allocations;
  return all;
}

std::size_t used_bytes(int device) {
  std::size_t bytes = 0;
  for (const auto& [data, allocation] : allocations()) {
    if (allocation.kind == Memory::kDevice && allocation.device == device) {
      bytes += allocation.bytes;
    }
  }
  return bytes;
}

cudaError_t allocate(const char* call, void** pointer, std::size_t bytes, Memory kind) {
  constexpr std::size_t kAlignment = 256;
  constexpr int kNanInEveryType = 0xFF;
  const int device = current_device();
  if (spoilt(device) != cudaSuccess) return noted(spoilt(device));
  if (fails(call)) return noted(cudaErrorMemoryAllocation);
  const std::size_t capacity = settings().device_bytes;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const Locked locked;
  if (kind == Memory::kDevice && rounded > capacity - std::min(capacity, used_bytes(device))) {
    return noted(cudaErrorMemoryAllocation);
  }
  // Not a byte more, so that the address sanitizer sees one that is read behind the end.
  if (::posix_memalign(pointer, kAlignment, bytes) != 0) return noted(cudaErrorMemoryAllocation);
  std::memset(*pointer, kNanInEveryType, bytes);
  allocations()[static_cast<const std::byte*>(*pointer)] = {bytes, kind, device};
  return cudaSuccess;
}

cudaError_t release(const char* call, void* pointer, Memory kind) {
  if (pointer == nullptr) return cudaSuccess;
  int device = 0;
  {
    const Locked locked;
    const auto found = allocations().find(static_cast<const std::byte*>(pointer));
    if (found == allocations().end() || found->second.kind != kind) {
      std::fprintf(stderr, "fake CUDA: %s: memory that it did not hand out\n", call);
      return noted(cudaErrorInvalidValue);
    }
    device = found->second.device;
  }
  wait_for_device(device);  // as the real one does
  const Locked locked;
  allocations().erase(static_cast<const std::byte*>(pointer));
  std::free(pointer);
  return cudaSuccess;
}

// What a copy's direction asks of one side.
bool kind_fits(Memory kind, bool device_wanted) {
  return (kind == Memory::kDevice) == device_wanted;
}

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

void perform(const Copy& copy) {
  tell_read(copy.from, copy.bytes);
  tell_written(copy.to, copy.bytes);
  std::memcpy(copy.to, copy.from, copy.bytes);
}

void enqueue_copy(cudaStream_t stream, const Copy& copy) {
  const int device = device_of(stream);
  enqueue(stream, [copy, device] {
    if (fails("copy")) {
      spoil(device, cudaErrorIllegalAddress);
    } else {
      perform(copy);
    }
    return true;
  });
}

// A pageable source may be written again as soon as the call returns.
void enqueue_copy_of_snapshot(cudaStream_t stream, const Copy& copy) {
  const auto* begin = static_cast<const std::byte*>(copy.from);
  const int device = device_of(stream);
  tell_read(copy.from, copy.bytes);
  enqueue(stream,
          [to = copy.to, device, bytes = std::vector<std::byte>(begin, begin + copy.bytes)] {
            if (fails("copy")) {
              spoil(device, cudaErrorIllegalAddress);
              return true;
            }
            tell_written(to, bytes.size());
            std::memcpy(to, bytes.data(), bytes.size());
            return true;
          });
}

}  // namespace

bool find_memory(const char* call, const void* data, std::size_t bytes, Memory& kind) {
  kind = Memory::kPageable;
  const auto* begin = static_cast<const std::byte*>(data);
  std::string problem;
  {
    const Locked locked;
    auto next = allocations().upper_bound(begin);
    if (next != allocations().end() && begin + bytes > next->first) {
      problem = " of host memory run into an allocation";
    }
    if (next != allocations().begin()) {
      --next;
      const auto offset = static_cast<std::size_t>(begin - next->first);
      if (offset < next->second.bytes || (bytes == 0 && offset == next->second.bytes)) {
        kind = next->second.kind;
        problem.clear();
        if (offset + bytes > next->second.bytes) {
          problem = " at offset " + std::to_string(offset) + " of an allocation of " +
                    std::to_string(next->second.bytes);
        }
      }
    }
  }
  if (problem.empty()) return true;
  report(std::string(call) + ": " + std::to_string(bytes) + " bytes" + problem);
  return false;
}

int num_allocations() {
  const Locked locked;
  return static_cast<int>(allocations().size());
}

}  // namespace headrace::fake_cuda

using namespace headrace::fake_cuda;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate("cudaMalloc", pointer, bytes, Memory::kDevice);
}

cudaError_t cudaFree(void* pointer) {
  return release("cudaFree", pointer, Memory::kDevice);
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate("cudaMallocHost", pointer, bytes, Memory::kPinned);
}

cudaError_t cudaFreeHost(void* pointer) {
  return release("cudaFreeHost", pointer, Memory::kPinned);
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = settings().device_bytes;
  const Locked locked;
  *free_bytes = *total_bytes - std::min(*total_bytes, used_bytes(current_device()));
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  Memory kind = Memory::kPageable;
  if (!find_memory("cudaPointerGetAttributes", pointer, 0, kind)) {
    return noted(cudaErrorInvalidValue);
  }
  *attributes = {};
  attributes->type = kind == Memory::kDevice   ? cudaMemoryTypeDevice
                     : kind == Memory::kPinned ? cudaMemoryTypeHost
                                               : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const cudaError_t status = check_stream("cudaMemcpyAsync", stream);
  if (status != cudaSuccess) return noted(status);
  if (fails("cudaMemcpyAsync")) return noted(cudaErrorInvalidValue);
  Memory to_kind = Memory::kPageable;
  Memory from_kind = Memory::kPageable;
  if (!find_memory("cudaMemcpyAsync (to)", to, bytes, to_kind) ||
      !find_memory("cudaMemcpyAsync (from)", from, bytes, from_kind)) {
    return noted(cudaErrorInvalidValue);
  }
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault &&
      (!kind_fits(to_kind, to_device) || !kind_fits(from_kind, from_device))) {
    report("cudaMemcpyAsync: the direction does not fit the memory");
    return noted(cudaErrorInvalidValue);
  }
  if (from_kind == Memory::kPageable && to_kind == Memory::kDevice) {
    enqueue_copy_of_snapshot(stream, {to, from, bytes});
    return cudaSuccess;
  }
  enqueue_copy(stream, {to, from, bytes});
  if (to_kind == Memory::kPageable) wait_for(stream);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t status = check_stream("cudaMemsetAsync", stream);
  if (status != cudaSuccess) return noted(status);
  Memory kind = Memory::kPageable;
  if (!find_memory("cudaMemsetAsync", to, bytes, kind) || kind != Memory::kDevice) {
    return noted(cudaErrorInvalidValue);
  }
  enqueue(stream, [to, value, bytes] {
    tell_written(to, bytes);
    std::memset(to, value, bytes);
    return true;
  });
  return cudaSuccess;
}
