#include "launch/version.h"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <boost/version.hpp>

#include "kernels/cuda_backend.h"
#include "kernels/ops.h"
#include "launch/memory_plan.h"
#include "model/checkpoint/hdf5_handle.h"

namespace headrace {
namespace {

/// The library that is loaded at run time, first line only (Open MPI adds its build host and date).
std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  // One of the few functions that MPI allows before MPI_Init.
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown library";
  std::string line(text.data(), static_cast<std::size_t>(length));
  return line.substr(0, line.find_first_of(",\n"));
}

std::string mpi_headers() {
#if defined(OMPI_MAJOR_VERSION)
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                     OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
  return "MPICH " MPICH_VERSION;
#else
  return "another MPI";
#endif
}

std::string boost_version() {
  return fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
                     BOOST_VERSION % 100);
}

std::string cuda_text() {
  if (cuda_build().empty()) return "not built in";
  const CudaDevices found = cuda_devices();
  std::string text = fmt::format("built with {}", cuda_build());
  if (found.devices.empty()) return text + "; no GPU: " + found.why_none;
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const CudaDevice& gpu = found.devices[i];
    text += fmt::format("\n          GPU {}: {}, {}, {}", i, gpu.name, bytes_text(gpu.total_bytes),
                        cuda_numeric_class(gpu));
  }
  return text;
}

}  // namespace

std::string program_version() {
  return "headrace " HEADRACE_VERSION;
}

std::string version_text() {
  const std::string_view features = cpu_features();
  return fmt::format(
      "{}\n"
      "MPI       {}; built with {} (MPI {}.{})\n"
      "HDF5      {}\n"
      "CUDA      {}\n"
      "Boost     {}\n"
      "CPU       {}\n"
      "compiler  {} {}\n",
      program_version(), mpi_library(), mpi_headers(), MPI_VERSION, MPI_SUBVERSION, hdf5_version(),
      cuda_text(), boost_version(),
      features.empty() ? "no vector extension that this program uses" : features,
#ifdef __clang__
      "clang",
#else
      "gcc",
#endif
      __VERSION__);
}

}  // namespace headrace
