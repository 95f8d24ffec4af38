// The file of --device-profile: which algorithms the products of models take on kinds of GPUs, so
// that they are not tried out at every start, and are the same where a job goes on elsewhere.
//
//   {"headrace_device_profile": 1,
//    "devices": [
//     {"device": "NVIDIA H200", "sm": 90, "cublaslt": 130100, "driver": 13000,
//      "checksum": "32 hexadecimal digits: hash128() of `products` as nlohmann's dump() writes it",
//      "products": [
//       {"n": 4096, "k": 4096, "stride": 4096, "type": "bfloat16", "alignment": 16,
//        "filled_rows": 0,
//        "algorithm": "128 hexadecimal digits: the eight words of cublasLtMatmulAlgo_t",
//        "rows": "steady", "most_rows": 1024}]}]}
//
// Algorithms mean nothing to another device, library or driver: each has a part of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "kernels/cuda_backend.h"
#include "kernels/gemm_profile.h"

namespace headrace {

/// What algorithms are chosen for.
struct ProfiledDevice {
  std::string name;
  int sm = 0;
  std::uint64_t cublaslt = 0;
  int driver = 0;

  friend bool operator==(const ProfiledDevice&, const ProfiledDevice&) = default;
  friend bool operator<(const ProfiledDevice& a, const ProfiledDevice& b) {
    return std::tie(a.name, a.sm, a.cublaslt, a.driver) <
           std::tie(b.name, b.sm, b.cublaslt, b.driver);
  }
  std::string text() const;  // "NVIDIA H200 (sm 90, cuBLASLt 13.1.0, driver for CUDA 13.0)"
};

/// Loads cuBLASLt.
ProfiledDevice profiled_device(const CudaDevice& device);

using DeviceProfile = std::map<ProfiledDevice, GemmAnswers>;

/// `name` is the file's, for messages. Throws std::invalid_argument where the text is not what
/// device_profile_text() gave.
DeviceProfile parse_device_profile(std::string_view text, const std::string& name);
std::string device_profile_text(const DeviceProfile& profile);

/// The file's text; that of an empty profile where there is no file yet. Throws
/// std::invalid_argument where it cannot be read, or no file can be written in its place.
std::string read_device_profile(const std::filesystem::path& path);

/// Adds what was found to the file: what it holds beside that stays, even what was added since it
/// was read. It is exchanged as a whole. Throws what PartialFile does, among others where another
/// program is writing it, and std::invalid_argument where what is there is no profile.
void add_to_device_profile(const std::filesystem::path& path, const DeviceProfile& found);

}  // namespace headrace
