// The GPU backend as the rest of the program sees it: nothing of CUDA is needed to include this.
// kernels/cuda implements it, kernels/no_cuda.cpp where CUDA is not built in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/stream.h"
#include "kernels/gemm_profile.h"
#include "kernels/ops.h"

namespace headrace {

struct CudaOptions {
  DType compute_dtype = DType::kBFloat16;  // float16 as well
  int device = 0;
  // Sums walk the matrices' reduction trees slice by slice, so that answers do not depend on how
  // matrices are cut over ranks. Otherwise each product is one sum over the whole of K. Where
  // cuBLASLt's rows depend on how many there are, only deterministic ones are still independent.
  bool deterministic = false;
  // For sums of products under way, and as much again for attention and for products.
  std::size_t workspace_bytes = std::size_t{64} << 20;
  // Algorithms of products that are known, and those that are found; null for none. It outlives the
  // operators.
  GemmProfile* profile = nullptr;
  // Called at most once where the rows of a product cannot be had as the class above promises, or
  // only slowly (kernels/cuda/gemm.h), and for each algorithm of the profile that is refused.
  std::function<void(const std::string&)> warn = {};
};

/// Operators whose tensors, weights of norms, biases and caches lie in the memory of one GPU; ids,
/// sequences and statistics lie on the host. Work is queued on one stream, in order. A row's bits
/// do not depend on the other rows, the block size or the cut of a prompt into chunks; they are not
/// those of the CPU backend. Throws std::invalid_argument where CUDA is not built in,
/// std::runtime_error where CUDA fails or has no device.
std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options);

/// The stream on which operators with this arena work. Throws std::logic_error for another
/// backend's.
Stream cuda_stream(DeviceArena& arena);

/// A GPU as the runtime shows it.
struct CudaDevice {
  std::string name;  // "NVIDIA H200"
  std::string id;    // the same in every process that sees the device
  int sm = 0;        // compute capability, 90 for 9.0
  std::uint64_t total_bytes = 0;
};

struct CudaDevices {
  std::vector<CudaDevice> devices;  // by the number that CudaOptions::device takes
  std::string why_none;             // in words, where there are none
};

/// What this process can use: the runtime has applied CUDA_VISIBLE_DEVICES. Never throws for want
/// of a device, a driver or CUDA.
CudaDevices cuda_devices();

/// Bytes of a device that nobody uses right now.
std::uint64_t cuda_free_bytes(int device);

/// The class within which answers have the same bits: "cuda:90:13.0", compute capability and
/// toolkit.
std::string cuda_numeric_class(const CudaDevice& device);

/// What decides, beside the device, which algorithms there are for products. Loads cuBLASLt.
struct CudaLibraries {
  std::uint64_t cublaslt = 0;  // 130100 for 13.1.0
  int driver = 0;              // the CUDA version that it is for, 13000 for 13.0
};
CudaLibraries cuda_libraries();

/// The toolkit and architectures that are built in; empty for none.
std::string_view cuda_build();

}  // namespace headrace
